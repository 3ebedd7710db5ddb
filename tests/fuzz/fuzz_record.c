/* libFuzzer: records and packed steps. What is accepted must survive printing and packing unchanged.
 * Build: clang -fsanitize=fuzzer,address,undefined; corpus: tests/fuzz/corpus/record. */
#include "proto/record.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same(const struct tp_buf *a, const struct tp_buf *b)
{
    if (a->n != b->n || memcmp(a->p, b->p, a->n) != 0)
        abort();
}

static void check_steps(const struct tp_record *r)
{
    struct tp_record back;
    struct tp_buf packed = {0}, again = {0};
    tp_record_init(&back);
    tp_steps_pack(r->steps, r->n_steps, &packed);
    if (tp_steps_unpack(&back, packed.p, packed.n, NULL) != 0)
        abort();
    tp_steps_pack(back.steps, back.n_steps, &again);
    same(&packed, &again);
    tp_buf_free(&packed);
    tp_buf_free(&again);
    tp_record_free(&back);
}

static void check_text(struct tp_record *r)
{
    struct tp_record back;
    struct tp_buf text = {0}, again = {0};
    struct tp_err e;
    char id[TP_TASK_ID_LEN + 1];
    tp_record_init(&back);
    tp_record_emit(r, &text);
    if (tp_record_parse(&back, text.p, text.n, &e) != 0)
        abort();
    tp_record_emit(&back, &again);
    same(&text, &again);
    tp_task_id(&back.task, id);
    if (strcmp(id, tp_record_task_id(r)) != 0 || strlen(id) != TP_TASK_ID_LEN)
        abort();
    tp_buf_free(&text);
    tp_buf_free(&again);
    tp_record_free(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tp_record r; /* reused, as the daemon does: its task cache is part of the game */
    struct tp_err e = {.detail = ""};
    int rc = tp_record_parse(&r, (const char *)data, size, &e);
    if (rc == 0) {
        check_steps(&r);
        check_text(&r);
        (void)tp_record_label(&r);
    } else if ((int)e.code != -rc || e.detail[0] == '\0') {
        abort();
    }
    if (tp_steps_unpack(&r, data, size, &e) == 0) {
        struct tp_buf packed = {0};
        tp_steps_pack(r.steps, r.n_steps, &packed);
        if (packed.n != size || memcmp(packed.p, data, size) != 0)
            abort();
        tp_buf_free(&packed);
    }
    return 0;
}
