/* Masks of named columns: one table of where each name stands, made from the same list as the encoder. */
#include "proto/tclfeat_mask.h"

#include "proto/tclfeat_priv.h"

_Static_assert((int)TCLFEAT_ROW_HARDWARE == (int)TCLF_KIND_HW && (int)TCLFEAT_ROW_TASK == (int)TCLF_KIND_TASK,
               "kinds of rows");

enum part { PART_ALL, PART_HW, PART_TASK, PART_STEP, PART_NEST, PART_SUM };

static const struct {
    enum part part;
    int first, count;
} columns[TCLFEAT_COLUMNS] = {
#define X(part, name, first, count, divisor, formula) {PART_##part, (first), (count)},
#include "proto/tclfeat_columns.def"
#undef X
};

int tclfeat_row_kind(const float *row)
{
    int kind = 0;
    while (kind < TCLFEAT_ROW_TASK && row[COL(ALL, KIND) + kind] == 0.0f)
        kind++;
    return kind;
}

/* `shift` is where the part begins. */
static void clear(uint64_t mask, enum part part, int shift, float *v)
{
    for (int i = 0; i < TCLFEAT_COLUMNS; i++)
        if (mask >> i & 1 && columns[i].part == part)
            memset(v + shift + columns[i].first, 0, (size_t)columns[i].count * sizeof *v);
}

void tclfeat_mask_row(const struct tclfeat_mask *m, float *row)
{
    const int kind = tclfeat_row_kind(row);
    const bool operands = kind == TP_STEP_SP || kind == TP_STEP_SA;
    const uint64_t mask = m->columns | (operands ? 0 : m->replayed);

    clear(mask, kind == TCLFEAT_ROW_HARDWARE ? PART_HW : kind == TCLFEAT_ROW_TASK ? PART_TASK : PART_STEP, 0, row);
    clear(mask, PART_ALL, 0, row);
}

void tclfeat_mask_summary(const struct tclfeat_mask *m, float *summary)
{
    clear(m->columns, PART_NEST, 0, summary);
    clear(m->columns, PART_NEST, TCLF_NEST, summary);
    clear(m->columns, PART_SUM, 0, summary);
}
