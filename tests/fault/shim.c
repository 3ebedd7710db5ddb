/* Preloaded into a daemon under test: see fault.h. $FAULT_CONTROL names the file that holds the control block.
 *
 * Invariant: while the block is all zero every call is libc's own. Only names of libc are defined here, with its types.
 */
#include "tests/fault/fault.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static struct fault_control *control;

__attribute__((constructor)) static void start(void)
{
    const char *name = getenv("FAULT_CONTROL");
    int fd = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
    void *p = fd >= 0 ? mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (fd >= 0)
        close(fd);
    if (p != MAP_FAILED)
        control = p;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static bool ours(int fd)
{
    char link[64], path[512];
    int before = errno;
    if (!control)
        return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    errno = before;
    if (n <= 0)
        return false;
    path[n] = '\0';
    return strncmp(path, control->path, strlen(control->path)) == 0;
}

static bool ours_by_name(const char *path)
{
    return control && strncmp(path, control->path, strlen(control->path)) == 0;
}

/* A change is about to be made: perhaps it never is. */
static void change(void)
{
    atomic_fetch_add(&control->changes, 1);
    if (atomic_load(&control->die_at) > 0 && atomic_fetch_sub(&control->die_at, 1) == 1)
        kill(getpid(), SIGKILL);
}

static bool fails(_Atomic int *code)
{
    int e = atomic_load(code);
    if (e)
        errno = e;
    return e != 0;
}

/* How many of n bytes are written, -1: none, with errno. */
static ssize_t allow(int fd, size_t n)
{
    if (!ours(fd))
        return (ssize_t)n;
    change();
    if (fails(&control->write_errno))
        return -1;
    return (ssize_t)(atomic_load(&control->short_writes) && n > 1 ? n / 2 : n);
}

ssize_t write(int fd, const void *p, size_t n)
{
    ssize_t k = allow(fd, n);
    return k < 0 ? k : REAL(write)(fd, p, (size_t)k);
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
    ssize_t k = allow(fd, n);
    return k < 0 ? k : REAL(pwrite)(fd, p, (size_t)k, at);
}

ssize_t pwrite64(int fd, const void *p, size_t n, off64_t at)
{
    ssize_t k = allow(fd, n);
    return k < 0 ? k : REAL(pwrite64)(fd, p, (size_t)k, at);
}

ssize_t read(int fd, void *p, size_t n)
{
    if (control && atomic_load(&control->read_errno) && ours(fd) && fails(&control->read_errno))
        return -1;
    return REAL(read)(fd, p, n);
}

ssize_t pread(int fd, void *p, size_t n, off_t at)
{
    if (control && atomic_load(&control->read_errno) && ours(fd) && fails(&control->read_errno))
        return -1;
    return REAL(pread)(fd, p, n, at);
}

ssize_t pread64(int fd, void *p, size_t n, off64_t at)
{
    if (control && atomic_load(&control->read_errno) && ours(fd) && fails(&control->read_errno))
        return -1;
    return REAL(pread64)(fd, p, n, at);
}

/* -1: fails, with errno */
static int sync_allowed(int fd)
{
    if (!ours(fd))
        return 0;
    change();
    int ms = atomic_load(&control->sync_ms);
    if (ms > 0)
        nanosleep(&(struct timespec){ms / 1000, (ms % 1000) * 1000000L}, NULL);
    return fails(&control->sync_errno) ? -1 : 0;
}

int fsync(int fd)
{
    return sync_allowed(fd) ? -1 : REAL(fsync)(fd);
}

int fdatasync(int fd)
{
    return sync_allowed(fd) ? -1 : REAL(fdatasync)(fd);
}

int ftruncate(int fd, off_t n)
{
    if (ours(fd))
        change();
    return REAL(ftruncate)(fd, n);
}

int ftruncate64(int fd, off64_t n)
{
    if (ours(fd))
        change();
    return REAL(ftruncate64)(fd, n);
}

int posix_fallocate(int fd, off_t at, off_t n)
{
    int e = ours(fd) ? atomic_load(&control->write_errno) : 0;
    return e ? e : REAL(posix_fallocate)(fd, at, n);
}

int rename(const char *from, const char *to)
{
    if (ours_by_name(to))
        change();
    return REAL(rename)(from, to);
}

int unlink(const char *path)
{
    if (ours_by_name(path))
        change();
    return REAL(unlink)(path);
}

/* ---- the wall clock ---- */

int clock_gettime(clockid_t id, struct timespec *t)
{
    static __typeof__(&clock_gettime) real;
    if (!real)
        real = REAL(clock_gettime);
    int rc = real(id, t);
    if (rc == 0 && control && id == CLOCK_REALTIME)
        t->tv_sec += (time_t)atomic_load(&control->clock_s);
    return rc;
}

time_t time(time_t *out)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (out)
        *out = t.tv_sec;
    return t.tv_sec;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
    struct timespec t;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &t);
    tv->tv_sec = t.tv_sec;
    tv->tv_usec = t.tv_nsec / 1000;
    return 0;
}
