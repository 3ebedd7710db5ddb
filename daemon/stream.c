/* Streamed replies: chunks made on the HTTP thread when the client can take more, and sleeping streams.
 *
 * Invariant: sleeping == the connection is suspended by this stream and counted in server->suspended; whoever clears it
 * resumes exactly once. A wake that comes before the stream sleeps is remembered in `woken`. Locks:
 * server->stream_lock, then s->lock. */
#include "daemon/request_int.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 32 * 1024 };

struct td_stream {
    struct td_stream *prev, *next_stream;
    struct td_request *r; /* only within read_stream: it ends before the stream does */
    struct td_server *server;
    struct MHD_Connection *mhd;
    int fd;
    td_stream_fn next;
    void *arg;
    void (*free_arg)(void *);
    struct tp_buf out;
    size_t sent;
    bool last;

    pthread_mutex_t lock; /* guards the next line */
    bool sleeping, woken, end, gone;
};

static void resume_locked(struct td_stream *s)
{
    s->woken = true;
    if (!s->sleeping)
        return;
    s->sleeping = false;
    MHD_resume_connection(s->mhd);
    atomic_fetch_sub(&s->server->suspended, 1);
}

void td_stream_wake(struct td_stream *s)
{
    pthread_mutex_lock(&s->lock);
    resume_locked(s);
    pthread_mutex_unlock(&s->lock);
}

/* Nothing to send now: sleep unless something happened meanwhile. Returns whether it sleeps. */
static bool doze(struct td_stream *s)
{
    bool sleep;

    pthread_mutex_lock(&s->lock);
    sleep = !s->woken && !s->end && !s->gone;
    if (sleep) {
        atomic_fetch_add(&s->server->suspended, 1);
        MHD_suspend_connection(s->mhd);
        s->sleeping = true;
    }
    pthread_mutex_unlock(&s->lock);
    return sleep;
}

static ssize_t read_stream(void *cls, uint64_t pos, char *buf, size_t max)
{
    struct td_stream *s = cls;

    (void)pos;
    for (;;) {
        if (s->sent < s->out.n) {
            size_t n = s->out.n - s->sent < max ? s->out.n - s->sent : max;
            memcpy(buf, s->out.p + s->sent, n);
            s->sent += n;
            s->r->bytes_out += n;
            return (ssize_t)n;
        }
        s->sent = s->out.n = 0;
        if (s->last)
            return MHD_CONTENT_READER_END_OF_STREAM;
        pthread_mutex_lock(&s->lock);
        bool end = s->end, gone = s->gone;
        s->woken = false;
        pthread_mutex_unlock(&s->lock);
        if (gone)
            return MHD_CONTENT_READER_END_WITH_ERROR;

        int rc = s->next(s->arg, &s->out);
        if (rc < 0 || s->out.oom)
            return MHD_CONTENT_READER_END_WITH_ERROR;
        if (rc == 0 || (rc == 2 && end))
            s->last = true;
        else if (rc == 2 && s->out.n == 0 && doze(s))
            return 0;
    }
}

static void unlink_stream(struct td_stream *s)
{
    pthread_mutex_lock(&s->server->stream_lock);
    if (s->prev)
        s->prev->next_stream = s->next_stream;
    else
        s->server->streams = s->next_stream;
    if (s->next_stream)
        s->next_stream->prev = s->prev;
    pthread_mutex_unlock(&s->server->stream_lock);
}

static void free_stream(void *cls)
{
    struct td_stream *s = cls;

    unlink_stream(s);
    if (s->free_arg)
        s->free_arg(s->arg);
    pthread_mutex_destroy(&s->lock);
    tp_buf_free(&s->out);
    free(s);
}

struct td_stream *td_reply_stream(struct td_request *r, int status, const char *content_type, td_stream_fn next,
                                  void *arg, void (*free_arg)(void *))
{
    struct td_server *server = r->http->server;
    struct td_stream *s = calloc(1, sizeof *s);
    struct MHD_Response *resp;

    if (!s)
        goto fail;
    s->r = r;
    s->server = server;
    s->mhd = r->mhd;
    s->fd = r->conn ? r->conn->fd : -1;
    s->next = next;
    s->arg = arg;
    s->free_arg = free_arg;
    pthread_mutex_init(&s->lock, NULL);
    resp = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_stream, s, free_stream);
    if (!resp) {
        pthread_mutex_destroy(&s->lock);
        free(s);
        goto fail;
    }
    pthread_mutex_lock(&server->stream_lock);
    s->end = server->streams_end;
    s->next_stream = server->streams;
    if (s->next_stream)
        s->next_stream->prev = s;
    server->streams = s;
    pthread_mutex_unlock(&server->stream_lock);
    td_request_decorate(r, resp, content_type);
    td_request_ready(r, resp, status);
    return s;
fail:
    if (free_arg)
        free_arg(arg);
    td_reply_fail(r, TP_E_NO_MEMORY, "not enough memory for the reply");
    return NULL;
}

void td_streams_wake(struct td_server *server, bool end)
{
    pthread_mutex_lock(&server->stream_lock);
    server->streams_end |= end;
    for (struct td_stream *s = server->streams; s; s = s->next_stream) {
        pthread_mutex_lock(&s->lock);
        s->end |= end;
        resume_locked(s);
        pthread_mutex_unlock(&s->lock);
    }
    pthread_mutex_unlock(&server->stream_lock);
}

/* libmicrohttpd does not watch a suspended connection, so a reader that went away is noticed here. */
void td_streams_sweep(struct td_server *server)
{
    pthread_mutex_lock(&server->stream_lock);
    for (struct td_stream *s = server->streams; s; s = s->next_stream) {
        pthread_mutex_lock(&s->lock);
        struct pollfd p = {.fd = s->fd, .events = POLLRDHUP};
        if (s->sleeping && poll(&p, 1, 0) > 0) {
            s->gone = true;
            resume_locked(s);
        }
        pthread_mutex_unlock(&s->lock);
    }
    pthread_mutex_unlock(&server->stream_lock);
}
