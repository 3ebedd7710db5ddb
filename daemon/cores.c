/* Thread counts from affinity and cgroup quota. Reads /proc and /sys once, at start. */
#include "daemon/cores.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int td_cores_of_quota(const char *text)
{
    long long quota, period;

    if (sscanf(text, "%lld %lld", &quota, &period) != 2 || quota <= 0 || period <= 0)
        return 0;
    quota = (quota + period - 1) / period;
    return quota < 4096 ? (int)quota : 4096;
}

static bool read_file(const char *path, char *buf, size_t n)
{
    FILE *f = fopen(path, "re");
    size_t got;

    if (!f)
        return false;
    got = fread(buf, 1, n - 1, f);
    fclose(f);
    buf[got] = '\0';
    return got > 0;
}

/* The tightest quota on the way from our cgroup up to the root: each level can limit. */
static int quota_v2(void)
{
    char all[4096], path[4200], text[64], *p = NULL;
    int best = 0;

    if (!read_file("/proc/self/cgroup", all, sizeof all))
        return 0;
    for (char *line = all; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL)
        if (strncmp(line, "0::/", 4) == 0)
            p = line + 3;
    if (!p)
        return 0;
    p[strcspn(p, "\n")] = '\0';
    for (;;) {
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", p);
        int q = read_file(path, text, sizeof text) ? td_cores_of_quota(text) : 0;
        if (q > 0 && (best == 0 || q < best))
            best = q;
        char *slash = strrchr(p, '/');
        if (!slash || !*p)
            return best;
        *slash = '\0';
    }
}

static int quota_v1(void)
{
    char quota[32], period[32], both[80];

    if (!read_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota, sizeof quota) ||
        !read_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period, sizeof period))
        return 0;
    snprintf(both, sizeof both, "%.20s %.20s", quota, period);
    return td_cores_of_quota(both);
}

int td_cores(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1, quota = quota_v2();

    if (quota == 0)
        quota = quota_v1();
    if (quota > 0 && quota < n)
        n = quota;
    return n > 0 ? n : 1;
}

static int clamp(int v, int lo, int hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

/* Predictions get half of a larger machine, training the other half (at low priority). HTTP threads compute small
 * predictions themselves, so that a small machine has one for each core; on a larger one they mostly move bytes.
 * Express threads keep up with what HTTP threads hand over. There are two API threads at least: one may be busy with a
 * long deletion while agents post and renew. */
void td_threads_resolve(const struct td_config *c, int cores, struct td_threads *out)
{
    out->http = c->http_threads ? (int)c->http_threads : clamp(cores / 4, clamp(cores, 1, 4), 16);
    out->predict = c->predict_threads ? (int)c->predict_threads : clamp(cores / 2, 1, 64);
    out->train = c->train_threads ? (int)c->train_threads : clamp(cores / 2, 1, 64);
    out->express = clamp(cores / 4, 1, 8);
    out->api = clamp(cores / 4, 2, 8);
}
