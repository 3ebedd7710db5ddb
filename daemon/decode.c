/* Decoding of request bodies.
 *
 * Invariant: out never holds more than `limit` bytes, whatever the input promises or expands to: a decoder gets room
 * for what is left of the limit and, when that is nothing, one byte of scratch whose use proves that the body is too
 * large. */
#include "daemon/decode.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>
#include <zstd.h>

enum { STEP = 256 * 1024 /* room offered at a time */ };

struct td_decoder {
    enum td_coding coding;
    size_t limit, in; /* bytes: allowed, encoded ones seen */
    z_stream z;
    bool z_open;
    ZSTD_DCtx *zstd;
    bool whole; /* at the end of a member or frame */
};

int td_coding_parse(const char *h, struct tp_err *e)
{
    char word[12];
    size_t n;

    if (!h)
        return TD_IDENTITY;
    h += strspn(h, " \t");
    n = strcspn(h, " \t");
    if (n < sizeof word && h[n + strspn(h + n, " \t")] == '\0') {
        memcpy(word, h, n);
        word[n] = '\0';
        if (n == 0 || strcasecmp(word, "identity") == 0)
            return TD_IDENTITY;
        if (strcasecmp(word, "gzip") == 0 || strcasecmp(word, "x-gzip") == 0)
            return TD_GZIP;
        if (strcasecmp(word, "zstd") == 0)
            return TD_ZSTD;
    }
    return tp_fail(e, TP_E_MEDIA_TYPE,
                   "Content-Encoding \"%.40s\" is not known; accepted are gzip, zstd and identity, one of them", h);
}

struct td_decoder *td_decoder_new(enum td_coding c, size_t limit)
{
    struct td_decoder *d = calloc(1, sizeof *d);

    if (!d)
        return NULL;
    d->coding = c;
    d->limit = limit;
    if (c == TD_GZIP)
        d->z_open = inflateInit2(&d->z, 15 + 16 /* gzip wrapper, not zlib's */) == Z_OK;
    if (c == TD_ZSTD && (d->zstd = ZSTD_createDCtx()) != NULL)
        ZSTD_DCtx_setParameter(d->zstd, ZSTD_d_windowLogMax, TD_ZSTD_WINDOW_LOG);
    if ((c == TD_GZIP && !d->z_open) || (c == TD_ZSTD && !d->zstd)) {
        td_decoder_free(d);
        return NULL;
    }
    return d;
}

void td_decoder_free(struct td_decoder *d)
{
    if (!d)
        return;
    if (d->z_open)
        inflateEnd(&d->z);
    ZSTD_freeDCtx(d->zstd);
    free(d);
}

static int too_large(const struct td_decoder *d, struct tp_err *e)
{
    return tp_fail(e, TP_E_BODY_TOO_LARGE, "the body is larger than %zu bytes%s", d->limit,
                   d->coding == TD_IDENTITY ? "" : " once decoded");
}

/* Where the next decoded bytes go: into out, or into *scratch when the limit is reached. */
static int room(const struct td_decoder *d, struct tp_buf *out, char *scratch, char **p, size_t *n, struct tp_err *e)
{
    size_t left = d->limit - out->n;

    *n = left < STEP ? left : STEP;
    *p = left ? tp_buf_grow(out, *n) : scratch;
    if (!left)
        *n = 1;
    return *p ? 0 : tp_fail(e, TP_E_NO_MEMORY, "not enough memory for the body");
}

static int push_gzip(struct td_decoder *d, const void *in, size_t n, struct tp_buf *out, struct tp_err *e)
{
    char scratch, *p;
    size_t space;
    int rc, z;

    d->z.next_in = (Bytef *)in;
    d->z.avail_in = (uInt)n;
    for (;;) {
        if (d->whole) {
            if (d->z.avail_in == 0)
                return 0;
            inflateReset(&d->z); /* another member follows, or what inflate will not take for one */
            d->whole = false;
        }
        if ((rc = room(d, out, &scratch, &p, &space, e)) != 0)
            return rc;
        d->z.next_out = (Bytef *)p;
        d->z.avail_out = (uInt)space;
        z = inflate(&d->z, Z_NO_FLUSH);
        size_t made = space - d->z.avail_out;
        if (p == &scratch && made)
            return too_large(d, e);
        if (p != &scratch)
            out->n += made;
        if (z == Z_STREAM_END)
            d->whole = true;
        else if (z == Z_BUF_ERROR || (z == Z_OK && d->z.avail_in == 0 && d->z.avail_out > 0))
            return 0; /* needs more input */
        else if (z == Z_MEM_ERROR)
            return tp_fail(e, TP_E_NO_MEMORY, "not enough memory for the body");
        else if (z != Z_OK)
            return tp_fail(e, TP_E_BAD_ENCODING, "the body is no valid gzip: %.80s",
                           d->z.msg ? d->z.msg : "damaged data");
    }
}

static int push_zstd(struct td_decoder *d, const void *in, size_t n, struct tp_buf *out, struct tp_err *e)
{
    ZSTD_inBuffer src = {in, n, 0};
    char scratch, *p;
    size_t space;
    int rc;

    for (;;) {
        if (d->whole && src.pos == src.size)
            return 0;
        if ((rc = room(d, out, &scratch, &p, &space, e)) != 0)
            return rc;
        ZSTD_outBuffer dst = {p, space, 0};
        size_t z = ZSTD_decompressStream(d->zstd, &dst, &src);
        if (ZSTD_isError(z))
            return tp_fail(e, TP_E_BAD_ENCODING, "the body is no valid zstd (windows up to %d MiB): %.100s",
                           1 << (TD_ZSTD_WINDOW_LOG - 20), ZSTD_getErrorName(z));
        if (p == &scratch && dst.pos)
            return too_large(d, e);
        if (p != &scratch)
            out->n += dst.pos;
        d->whole = z == 0;
        if (!d->whole && src.pos == src.size && dst.pos < space)
            return 0; /* all flushed, needs more input */
    }
}

int td_decoder_push(struct td_decoder *d, const void *in, size_t n, struct tp_buf *out, struct tp_err *e)
{
    if (n == 0)
        return 0;
    if (n > d->limit - d->in)
        return too_large(d, e);
    d->in += n;
    if (d->coding == TD_GZIP)
        return push_gzip(d, in, n, out, e);
    if (d->coding == TD_ZSTD)
        return push_zstd(d, in, n, out, e);
    tp_buf_put(out, in, n);
    return out->oom ? tp_fail(e, TP_E_NO_MEMORY, "not enough memory for the body") : 0;
}

int td_decoder_end(struct td_decoder *d, struct tp_err *e)
{
    if (d->coding == TD_IDENTITY || d->whole)
        return 0;
    return tp_fail(e, TP_E_BAD_ENCODING, "the body ends in the middle of its %s data",
                   d->coding == TD_GZIP ? "gzip" : "zstd");
}
