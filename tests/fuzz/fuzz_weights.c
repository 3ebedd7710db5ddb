/* libFuzzer: the reader of weights files. What it accepts, the writer must accept, and reading that again gives the
 * same model. The CRC of the feature tables is put in place first, so that a corpus outlives a change of the tables.
 * Build: clang -fsanitize=fuzzer,address,undefined; corpus: tests/fuzz/corpus/weights. */
#include "model/weights.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put_crc(uint8_t *p, size_t n)
{
    static const char key[] = "\"features_crc32\":\"";
    uint8_t *at = memmem(p, n, key, sizeof key - 1);
    char digits[9];
    if (!at || (size_t)(p + n - at) < sizeof key - 1 + 8)
        return;
    int set = TCLFEAT_TCLF_1;
    for (int s = 0; s < TCLFEAT_SETS; s++)
        if (memmem(p, n, tclfeat_version((enum tclfeat_set)s), strlen(tclfeat_version((enum tclfeat_set)s))))
            set = s;
    snprintf(digits, sizeof digits, "%08x", (unsigned)tclfeat_crc((enum tclfeat_set)set));
    memcpy(at + sizeof key - 1, digits, 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tm_model *m = NULL, *again = NULL;
    struct tm_provenance p;
    struct tp_buf b = {0};
    struct tp_err e;
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    put_crc(copy, size);
    if (tm_weights_read(copy, size, &m, &p, &e) == 0) {
        if (tm_weights_write(m, &p, &b, &e) || tm_weights_read(b.p, b.n, &again, &p, &e) ||
            memcmp(m->w, again->w, m->n * sizeof *m->w) != 0)
            abort();
    }
    tm_model_free(again);
    tm_model_free(m);
    tp_buf_free(&b);
    free(copy);
    return 0;
}
