/* libFuzzer: what of an HTTP request our own code reads: packed bodies and what is in them, targets, media types. The
 * first byte chooses ('g' gzip, 'z' zstd, 'm' media type, else a target). No decoder gives more than its limit, and no
 * route matches with a parameter that is not there.
 * Build: clang -fsanitize=fuzzer,address,undefined; corpus: tests/fuzz/corpus/http. */
#include "daemon/decode.h"
#include "daemon/route.h"
#include "proto/body.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void packed(enum td_coding coding, const uint8_t *data, size_t size)
{
    static struct tp_record r;
    struct td_decoder *d = td_decoder_new(coding, LIMIT);
    struct tp_buf out = {0};
    struct tp_err e;
    int rc = 0;
    if (!d)
        return;
    for (size_t at = 0, n; at < size && rc == 0; at += n) { /* pieces of all sizes */
        n = 1 + at % 97 < size - at ? 1 + at % 97 : size - at;
        rc = td_decoder_push(d, data + at, n, &out, &e);
        if (out.n > LIMIT)
            abort();
    }
    if (rc == 0 && td_decoder_end(d, &e) == 0) {
        struct tp_body *b = tp_body_open(TP_FORM_NDJSON, out.p, out.n, &e);
        while (b && tp_body_next(b, &r, &e) > 0)
            ;
        tp_body_close(b);
    }
    tp_buf_free(&out);
    td_decoder_free(d);
}

static void target(const char *text)
{
    static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH"};
    struct td_target t;
    struct td_match m;
    struct tp_err e;
    if (td_target_parse(text, &t, &e) == 0)
        for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
            if (td_route_match(td_routes, methods[i], &t, &m, &e) == 0)
                for (int k = 0; k < m.n_params; k++)
                    if (!m.param[k] || !*m.param[k] || strlen(m.param[k]) > strlen(text))
                        abort();
    td_target_free(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (data[0] == 'g' || data[0] == 'z') {
        packed(data[0] == 'g' ? TD_GZIP : TD_ZSTD, data + 1, size - 1);
        return 0;
    }
    char *text = malloc(size);
    if (!text)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    if (data[0] == 'm') {
        struct tp_err e;
        td_media_is(text, "application/json");
        td_coding_parse(text, &e);
    } else {
        target(text);
    }
    free(text);
    return 0;
}
