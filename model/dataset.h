/* Encoded measured programs, compact: distinct rows are stored once and a program is a list of row ids.
 * Built by one thread, then only read (any number of threads). */
#ifndef TM_DATASET_H
#define TM_DATASET_H

#include "model/net.h"
#include "proto/tclfeat_mask.h"

struct tm_dataset {
    enum tclfeat_set features;
    int cols, summary_cols;
    uint32_t n; /* programs */
    uint32_t n_tasks;
    uint32_t n_rows;       /* distinct rows */
    const float *rows;     /* [n_rows][cols] */
    const uint32_t *start; /* [n + 1]: program i has row ids ids[start[i] .. start[i+1]) */
    const uint32_t *ids;
    const float *summary; /* [n][summary_cols] */
    const uint32_t *task; /* [n], 0 .. n_tasks-1 */
    const double *cost;   /* [n] seconds: minimum over repeats and records; INFINITY for a program that only failed */
    const double *noise;  /* [n] standard deviation of ln cost; 0: not known, taken as exact; NULL: all
                             exact */
    struct tm_dataset_mem *mem; /* private */
};

struct tm_dataset *tm_dataset_new(enum tclfeat_set s);
void tm_dataset_free(struct tm_dataset *d);

/* Append one program. `key` identifies the program within its task (tp_program_hash); a program already there is
 * merged: the minimum of the costs stays. cost: INFINITY for a failure. hw may be NULL. Returns 1 added, 0 merged, or
 * -TP_E_x. */
int tm_dataset_add(struct tm_dataset *d, const struct tp_record *r, const char *task_id, const uint8_t key[16],
                   double cost, const struct tclfeat_hw *hw, struct tp_err *e);
/* How far the minimum of a measurement's repeats is from what another measurement of the program would give: standard
 * deviation of its logarithm, told by the faster half of the repeats (docs/model.md section 4). 0 with fewer than
 * three. costs: seconds, positive, in any order. */
double tm_noise(const double *costs, uint32_t n);
/* Say how sure a program's cost is. */
void tm_dataset_set_noise(struct tm_dataset *d, uint32_t program, double noise);
/* A copy of d (tclf-1) with less in its rows, for experiments: same programs, tasks and costs. Nothing can be added to
 * it. Rows that have become equal stay apart. NULL when out of memory. */
struct tm_mask {
    struct tclfeat_mask columns;
    bool hardware_row, task_row, summary; /* true: left out */
    bool noise;                           /* true: costs taken as exact */
};
struct tm_dataset *tm_dataset_masked(const struct tm_dataset *d, const struct tm_mask *m);
const char *tm_dataset_task_id(const struct tm_dataset *d, uint32_t task);

#endif
