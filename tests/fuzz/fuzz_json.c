/* libFuzzer: the tokenizer against jansson. Differences that are meant stand in tests/unit/test_proto_json.c.
 * Build: clang -fsanitize=fuzzer,address,undefined; corpus: tests/fuzz/corpus/json. */
#include "proto/json.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_INPUT = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tp_json j;
    struct tp_json_text t;
    const char *s = (const char *)data;
    int event;
    if (size > MAX_INPUT)
        return 0;
    tp_json_init(&j, s, size, 64);
    while ((event = tp_json_next(&j, &t)) > 0) {
        if (event != TP_JSON_STRING && event != TP_JSON_KEY)
            continue;
        char *plain = malloc(t.n + 1);
        if (plain == NULL || tp_json_unescape(t.s, t.n, plain) > t.n)
            abort();
        free(plain);
    }
    if (event == 0)
        event = tp_json_finish(&j);

    /* skipping must see what stepping sees */
    tp_json_init(&j, s, size, 64);
    int skipped = tp_json_skip(&j);
    if (skipped == 0)
        skipped = tp_json_finish(&j);
    if (skipped != event)
        abort();

    json_error_t je;
    json_t *v = json_loadb(s, size, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &je);
    if (v != NULL && event < 0 && event != -TP_E_TOO_DEEP && memchr(s, '\0', size) == NULL)
        abort();
    if (v == NULL && event == 0) {
        enum json_error_code code = json_error_code(&je);
        if (code != json_error_numeric_overflow && code != json_error_duplicate_key &&
            code != json_error_null_byte_in_key)
            abort();
    }
    json_decref(v);
    return 0;
}
