/* libFuzzer: request bodies. The first byte chooses the form. Every record is counted once, and an end is an end.
 * Build: clang -fsanitize=fuzzer,address,undefined; corpus: tests/fuzz/corpus/body. */
#include "proto/body.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tp_record r;
    struct tp_err e;
    long n = 0;
    int rc;
    if (size == 0)
        return 0;
    enum tp_form form = data[0] == 'n' ? TP_FORM_NDJSON : TP_FORM_JSON;
    struct tp_body *b = tp_body_open(form, (const char *)data + 1, size - 1, &e);
    if (b == NULL)
        return 0;
    while ((rc = tp_body_next(b, &r, &e)) > 0) {
        if (tp_body_index(b) != n++ || (tp_body_line(b) > 0) != (form == TP_FORM_NDJSON))
            abort();
        if (rc == 2 && (e.index != tp_body_index(b) || e.line != tp_body_line(b)))
            abort();
    }
    if ((rc == 0 && n == 0) || (rc < 0 && form == TP_FORM_NDJSON && rc != -TP_E_NO_RECORDS) ||
        tp_body_next(b, &r, &e) != rc)
        abort();
    tp_body_close(b);
    return 0;
}
