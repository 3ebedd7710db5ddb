/* Named columns of tclf-1 taken out of rows that are encoded already: what is a column worth? (`lab ablate`)
 *
 * The names are those of tclfeat_columns.def, so a mask follows the columns wherever they go. Pure functions. */
#ifndef TCLFEAT_MASK_H
#define TCLFEAT_MASK_H

#include "proto/record.h"

#include <stdint.h>

enum tclfeat_column {
#define X(part, name, first, count, divisor, formula) TCLFEAT_##part##_##name,
#include "proto/tclfeat_columns.def"
#undef X
    TCLFEAT_COLUMNS
};
#define TCLFEAT_BIT(column) (UINT64_C(1) << TCLFEAT_##column) /* TCLFEAT_BIT(STEP_EXTENT) */
_Static_assert((int)TCLFEAT_COLUMNS <= 64, "a mask has one bit for each name");

struct tclfeat_mask {
    uint64_t columns;  /* TCLFEAT_BIT()s: these columns become 0 */
    uint64_t replayed; /* ... these in all but SP and SA rows, where they hold operands of the step, not its replay */
};

/* What a row is: a step kind, or one of these. */
enum { TCLFEAT_ROW_HARDWARE = TP_STEP_KINDS, TCLFEAT_ROW_TASK };
int tclfeat_row_kind(const float *row);

void tclfeat_mask_row(const struct tclfeat_mask *m, float *row);
void tclfeat_mask_summary(const struct tclfeat_mask *m, float *summary);

#endif
