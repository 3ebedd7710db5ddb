/* A fleet at work: 32 agents (build/replay) lease and post, a third of them is killed at random, the daemon is killed
 * with SIGKILL twice. In the end every candidate is measured, each once, and nobody holds a lease.
 *
 * The agents measure with noise, so that a program measured twice shows as two records and never as one that was posted
 * again. Time decides only when somebody is killed. */
#include "tests/http/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { AGENTS = 32, KILLED = AGENTS / 3, DAEMON_KILLS = 2, MAX_PROGRAMS = 60000 };

struct agent {
    pid_t pid;
    char *out;
    double killed_at; /* since the start; 0: lives */
    int status;
    bool ended;
};

static const char *replay(void)
{
    const char *s = getenv("REPLAY");
    return s && *s ? s : "build/replay";
}

static void start(struct agent *a, const char *url, const char *log, int number, double ttl)
{
    char name[16], time_to_live[16], seed[16];
    snprintf(name, sizeof name, "agent-%d", number);
    snprintf(time_to_live, sizeof time_to_live, "%g", ttl);
    snprintf(seed, sizeof seed, "%d", number);
    a->out = bb_path(name);
    pid_t parent = getpid();
    a->pid = fork();
    ck_assert_int_ge(a->pid, 0);
    if (a->pid > 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int fd = open(a->out, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
    if (getppid() != parent || fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
        _exit(127);
    execl(replay(), "replay", "--url", url, "--hardware", "fleet", "--agent", name, "--ttl", time_to_live, "--max",
          "24", "--delay", "0.02", "--failures", "0.03", "--noise", "0.2", "--seed", seed, "--logs", log, (char *)NULL);
    _exit(127);
}

static void reap(struct agent *a, int n)
{
    for (int i = 0; i < n; i++)
        if (!a[i].ended && waitpid(a[i].pid, &a[i].status, WNOHANG) == a[i].pid)
            a[i].ended = true;
}

static int alive(struct agent *a, int n)
{
    int k = 0;
    reap(a, n);
    for (int i = 0; i < n; i++)
        k += !a[i].ended;
    return k;
}

static double draw(unsigned *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return (double)(*seed >> 16 & 0x7fff) / 0x8000;
}

/* The number that bb_state() made the line from; -1 when it is another's. */
static long program_of(const char *line)
{
    const char *s[3], *p = line, *unroll = strstr(line, "max_step$");
    for (int i = 0; i < 3 && p; i++) {
        p = strstr(p, "512, [");
        s[i] = p ? p += 6 : NULL;
    }
    if (!p || !unroll)
        return -1;
    return strtol(s[0], NULL, 10) - 1 + (strtol(s[1], NULL, 10) - 1) * 16 + (strtol(s[2], NULL, 10) - 1) * 256 +
           strtol(unroll + 9, NULL, 10) * 4096;
}

static void every_program_is_measured_once(int total)
{
    unsigned char *seen = calloc((size_t)total, 1);
    int twice = 0, lines = 0;
    struct bb_reply *r = bb_get("/v1/hardware/fleet/measurements");
    bb_status(r, 200);
    for (const char *p = r->body; *p; p += strcspn(p, "\n") + 1, lines++) {
        long n = program_of(p);
        if (n < 0 || n >= total)
            ck_abort_msg("not one of ours: %.200s", p);
        twice += seen[n]++ > 0;
    }
    free(seen);
    ck_assert_msg(twice == 0, "%d of %d programs were measured more than once", twice, total);
    ck_assert_int_eq(lines, total);
}

START_TEST(nothing_is_lost_measured_twice_or_held_for_ever)
{
    double seconds = bb_slow() || bb_big() ? 60 : 6, ttl = bb_slow() ? 20 : 8;
    int total = (int)(seconds * (bb_slow() ? 150 : 700)), kills = 0, gone = 0;
    struct agent a[AGENTS] = {{0}};
    char *dir = bb_path("fleet"), *log = bb_path("fleet-log");
    char *listen = bb_printf("unix:%s", bb_path("socket")).p;
    const char *const args[] = {"--listen", listen, NULL};
    unsigned seed = 20;
    struct tc_err e;

    struct bb_text all = bb_records(0, total);
    ck_assert_int_le(total, MAX_PROGRAMS);
    ck_assert_msg(tc_write_file(log, all.p, all.n, &e) == 0, "%s", e.text);
    struct tc_daemon *d = bb_start(dir, args);
    bb_put_hardware("fleet");
    bb_counts(bb_lines(all.p, all.n, "/v1/hardware/fleet/candidates"), total, 0, 0);
    struct bb_reply *r = bb_json("POST", "{\"fraction\": 1, \"method\": \"random\"}", "/v1/hardware/fleet/selections");
    bb_status(r, 202);
    ck_assert_str_eq(tc_str(bb_wait(tc_int(r->json, "/id", 0)), "/state"), "succeeded");

    for (int i = 0; i < AGENTS; i++)
        start(&a[i], bb_base(), log, i, ttl);
    for (int i = 0; i < KILLED; i++)
        a[i * 3].killed_at = seconds * (0.1 + 0.8 * draw(&seed));
    double began = tc_now();
    while (tc_now() - began < seconds || kills < DAEMON_KILLS || gone < KILLED) { /* a slow machine is late */
        double t = tc_now() - began;
        for (int i = 0; i < AGENTS; i++)
            if (a[i].killed_at > 0 && a[i].killed_at < t) {
                a[i].killed_at = -1;
                gone++;
                kill(a[i].pid, SIGKILL);
            }
        if (kills < DAEMON_KILLS && t > seconds * (kills + 1) / (DAEMON_KILLS + 1)) {
            kills++;
            tc_daemon_signal(d, SIGKILL);
            tc_daemon_wait(d, 30);
            tc_daemon_free(d);
            d = bb_start(dir, args);
        }
        tc_sleep(0.02);
    }
    for (double limit = tc_now() + 20 * ttl; alive(a, AGENTS) > 0 && tc_now() < limit;)
        tc_sleep(0.05);

    int ended = 0;
    for (int i = 0; i < AGENTS; i++) {
        bool well = a[i].ended && WIFEXITED(a[i].status) && WEXITSTATUS(a[i].status) == 0;
        ended += well;
        if (!a[i].ended)
            kill(a[i].pid, SIGKILL);
        if (!well && a[i].killed_at >= 0)
            ck_abort_msg("agent %d: %s %d: %s", i, a[i].ended ? "status" : "still runs", a[i].status,
                         bb_file(a[i].out).p);
    }
    r = bb_get("/v1/hardware/fleet");
    bb_status(r, 200);
    int64_t measured = tc_int(r->json, "/counts/candidates/measured", -1),
            failed = tc_int(r->json, "/counts/candidates/failed", -1);
    printf("%d programs: %d measured, %d failed; %d agents ended, %d of %d killed, daemon killed %d times, %.1f s\n",
           total, (int)measured, (int)failed, ended, gone, AGENTS, kills, tc_now() - began);
    ck_assert_int_eq(measured + failed, total);
    ck_assert_int_gt(failed, 0);
    r = bb_get("/v1/hardware/fleet/candidates?state=leased");
    ck_assert_uint_eq(json_array_size(json_object_get(r->json, "items")), 0);
    every_program_is_measured_once(total);
    bb_stop(d);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("http/fleet");
    TCase *tc = bb_case_own(s, "fleet", 240);
    tcase_add_test(tc, nothing_is_lost_measured_twice_or_held_for_ever);
    return bb_main(s);
}
