/* Lingering close.
 *
 * Invariant: a slot's descriptor is open from its start to stop(); handles live inside `struct td_linger`, which is
 * freed by the close callback of the last one. Descriptors cross from HTTP threads to the loop in `pending`. */
#include "daemon/linger.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READS_PER_TURN = 16 };

struct slot {
    uv_poll_t poll;
    uv_timer_t timer;
    struct td_linger *l;
    int fd, open_handles; /* 0: the slot is free */
    size_t bytes;
};

struct td_linger {
    uv_loop_t *loop;
    uv_async_t async;
    int handles; /* that are not closed yet, of the whole */
    bool ending;
    struct slot slot[TD_LINGER_MAX];
    pthread_mutex_t lock; /* guards pending, n */
    int pending[TD_LINGER_MAX], n;
};

static void release(struct td_linger *l)
{
    if (--l->handles > 0 || !l->ending)
        return;
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static void on_closed(uv_handle_t *h)
{
    struct slot *s = h->data;

    s->open_handles--;
    release(s->l);
}

static void on_async_closed(uv_handle_t *h)
{
    release(h->data);
}

static void stop(struct slot *s)
{
    if (s->fd < 0)
        return;
    uv_close((uv_handle_t *)&s->timer, on_closed);
    uv_close((uv_handle_t *)&s->poll, on_closed); /* leaves epoll before the descriptor is closed */
    close(s->fd);
    s->fd = -1;
}

static void on_readable(uv_poll_t *h, int status, int events)
{
    static char sink[64 * 1024]; /* control thread only */
    struct slot *s = h->data;

    (void)events;
    for (int i = 0; i < READS_PER_TURN && status == 0; i++) {
        ssize_t n = recv(s->fd, sink, sizeof sink, MSG_DONTWAIT);
        if (n < 0)
            break;
        s->bytes += (size_t)n;
        if (n == 0 || s->bytes > TD_LINGER_BYTES)
            status = -1;
    }
    if (status != 0)
        stop(s);
}

static void on_time(uv_timer_t *t)
{
    stop(t->data);
}

static void begin(struct td_linger *l, int fd)
{
    struct slot *s = l->slot;

    while (s < l->slot + TD_LINGER_MAX && s->open_handles > 0)
        s++;
    if (s == l->slot + TD_LINGER_MAX || uv_poll_init(l->loop, &s->poll, fd) != 0) {
        close(fd);
        return;
    }
    uv_timer_init(l->loop, &s->timer);
    s->poll.data = s->timer.data = s;
    s->l = l;
    s->fd = fd;
    s->bytes = 0;
    s->open_handles = 2;
    l->handles += 2;
    shutdown(fd, SHUT_WR);
    uv_timer_start(&s->timer, on_time, TD_LINGER_MS, 0);
    uv_poll_start(&s->poll, UV_READABLE | UV_DISCONNECT, on_readable);
}

static void on_async(uv_async_t *a)
{
    struct td_linger *l = a->data;
    int fds[TD_LINGER_MAX], n;

    pthread_mutex_lock(&l->lock);
    n = l->n;
    for (int i = 0; i < n; i++)
        fds[i] = l->pending[i];
    l->n = 0;
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < n; i++)
        begin(l, fds[i]);
}

struct td_linger *td_linger_new(uv_loop_t *loop)
{
    struct td_linger *l = calloc(1, sizeof *l);

    if (!l)
        return NULL;
    l->loop = loop;
    l->async.data = l;
    if (uv_async_init(loop, &l->async, on_async) != 0) {
        free(l);
        return NULL;
    }
    l->handles = 1;
    pthread_mutex_init(&l->lock, NULL);
    for (int i = 0; i < TD_LINGER_MAX; i++)
        l->slot[i].fd = -1;
    return l;
}

void td_linger_free(struct td_linger *l)
{
    if (!l)
        return;
    l->ending = true;
    for (int i = 0; i < l->n; i++)
        close(l->pending[i]);
    for (int i = 0; i < TD_LINGER_MAX; i++)
        stop(&l->slot[i]);
    uv_close((uv_handle_t *)&l->async, on_async_closed);
}

void td_linger_add(struct td_linger *l, int fd)
{
    bool taken;

    pthread_mutex_lock(&l->lock);
    taken = l->n < TD_LINGER_MAX;
    if (taken)
        l->pending[l->n++] = fd;
    pthread_mutex_unlock(&l->lock);
    if (taken)
        uv_async_send(&l->async);
    else
        close(fd);
}
