/* See with.h. */
#include "tests/fault/with.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char *control_name(const struct fault_control *f)
{
    return bb_printf("FAULT_CONTROL=%.*s.fault", (int)strlen(f->path) - 1, f->path).p;
}

struct fault_control *fault_new(const char *state_dir)
{
    struct bb_text name = bb_printf("%s.fault", state_dir);
    int fd = open(name.p, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ck_assert_msg(fd >= 0 && ftruncate(fd, sizeof(struct fault_control)) == 0, "%s", name.p);
    struct fault_control *f =
        mmap(NULL, sizeof *f, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0); /* for the life of the test's process */
    close(fd);
    ck_assert_ptr_ne(f, MAP_FAILED);
    snprintf(f->path, sizeof f->path, "%s/", state_dir);
    return f;
}

static const char *shim(void)
{
    const char *s = getenv("FAULT_SHIM");
    return s && *s ? s : "build/fault/shim.so";
}

struct tc_daemon *fault_start(struct fault_control *f, const char *state_dir, const char *const *args, bool may_fail)
{
    struct tc_err e;
    struct tc_daemon *d = NULL;
    char *library = realpath(shim(), NULL);
    ck_assert_msg(library != NULL, "%s is missing", shim());
    struct bb_text preload = bb_printf("LD_PRELOAD=%s", library);
    free(library);
    struct tc_daemon_opts o = {.binary = bb_binary(),
                               .state_dir = state_dir,
                               .args = args,
                               .env = (const char *[]){preload.p, control_name(f), NULL},
                               .ready_seconds = 60};
    int rc = tc_daemon_start(&o, &d, &e);
    if (rc && may_fail)
        return NULL;
    ck_assert_msg(rc == 0, "%s", e.text);
    bb_use(d);
    return d;
}

char *fault_copy(const char *dir)
{
    struct tc_err e;
    char *to = bb_path("copy");
    ck_assert_msg(tc_run((const char *[]){"cp", "-a", dir, to, NULL}, NULL, 60, NULL, NULL, &e) == 0, "cp -a %s", dir);
    return to;
}

void fault_log_has(struct tc_daemon *d, const char *text, double seconds)
{
    for (double until = tc_now() + seconds; tc_now() < until; tc_sleep(0.02))
        if (strstr(bb_log(d), text))
            return;
    ck_abort_msg("no \"%s\" in the log %s", text, tc_daemon_log(d));
}

void fault_status(const char *path, long want, double seconds)
{
    long got = 0;
    for (double until = tc_now() + seconds; tc_now() < until; tc_sleep(0.05))
        if ((got = bb_get("%s", path)->status) == want)
            return;
    ck_abort_msg("%s is %ld and not %ld", path, got, want);
}

char *fault_template(const char *hw)
{
    char *dir = bb_path("template");
    struct tc_daemon *d = bb_start(dir, NULL);
    bb_put_hardware(hw);
    bb_post_demo(hw, 8, 2);
    bb_train(hw, "{\"mode\": \"finetune\", \"epochs\": 1, \"seed\": 1}");
    bb_stop(d);
    return dir;
}
