/* The operators' dashboard: files of daemon/web/, built into the program gzipped (daemon/web/embed.sh).
 *
 * The page itself is asked for again every time (ETag); what it loads stands below a folder named after a hash over all
 * files and may be kept for ever. No file holds data of the daemon: whatever the page shows comes from the API, with
 * the role that the API asks for. On the HTTP thread. */
#include "daemon/decode.h"
#include "daemon/handlers.h"
#include "daemon/hcommon.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

struct web_file {
    const char *name, *type;
    const unsigned char *gz;
    size_t n_gz, n; /* bytes gzipped, and as they are */
};
#include "web_files.inc"

static const char policy[] = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
                             "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
                             "require-trusted-types-for 'script'; trusted-types 'none'";

static const struct web_file *find(const char *name)
{
    for (size_t i = 0; i < sizeof web_files / sizeof *web_files; i++)
        if (strcmp(web_files[i].name, name) == 0)
            return &web_files[i];
    return NULL;
}

/* Does Accept-Encoding name gzip (or all codings) without refusing it by q=0? */
static bool takes_gzip(const char *accept)
{
    for (const char *p = accept; p != NULL && *p != '\0'; p += strcspn(p, ","), p += *p == ',') {
        p += strspn(p, " \t");
        size_t n = strcspn(p, ",; \t");
        const char *q = p + n + strspn(p + n, "; \t");

        if (!((n == 4 && strncasecmp(p, "gzip", 4) == 0) || (n == 1 && *p == '*')))
            continue;
        if (strncasecmp(q, "q=0", 3) != 0)
            return true;
        q += 3; /* q=0, q=0.0, q=0.000: never */
        if (*q == '.' && q[1 + strspn(q + 1, "0")] >= '1' && q[1 + strspn(q + 1, "0")] <= '9')
            return true;
    }
    return false;
}

static int unpack(const struct web_file *f, struct tp_buf *out, struct tp_err *e)
{
    struct td_decoder *d = td_decoder_new(TD_GZIP, f->n);
    int rc = d != NULL ? td_decoder_push(d, f->gz, f->n_gz, out, e)
                       : tp_fail(e, TP_E_NO_MEMORY, "no memory to unpack a file");

    if (rc == 0)
        rc = td_decoder_end(d, e);
    td_decoder_free(d);
    return rc;
}

static void reply_file(struct td_request *r, const struct web_file *f, const char *cache)
{
    bool gzip = takes_gzip(td_req_header(r, "Accept-Encoding"));
    struct tp_buf b = {0};
    struct tp_err e = {0};

    if (gzip)
        tp_buf_put(&b, (const char *)f->gz, f->n_gz);
    else if (unpack(f, &b, &e) != 0) {
        tp_buf_free(&b);
        td_reply_problem(r, &e);
        return;
    }
    td_reply_header(r, "Cache-Control", cache);
    td_reply_header(r, "Vary", "Accept-Encoding");
    td_reply_header(r, "Content-Security-Policy", policy);
    td_reply_header(r, "X-Content-Type-Options", "nosniff");
    td_reply_header(r, "Referrer-Policy", "no-referrer");
    if (gzip)
        td_reply_header(r, "Content-Encoding", "gzip");
    td_reply_tagged(r, f->type, gzip ? WEB_VERSION "-gzip" : WEB_VERSION, &b);
}

void td_h_web_page(struct td_request *r)
{
    reply_file(r, find("index.html"), "no-cache");
}

void td_h_web_file(struct td_request *r)
{
    const struct web_file *f = find(td_req_param(r, 1));

    if (f == NULL || strcmp(td_req_param(r, 0), WEB_VERSION) != 0)
        td_reply_fail(r, TP_E_NO_ROUTE, "the dashboard has no such file; reload it at /");
    else
        reply_file(r, f, "public, max-age=31536000, immutable");
}
