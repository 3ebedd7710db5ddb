/* The demo's parts: its logs, its figures, its looks. See clients/main_demo.c for the story they tell. */
#ifndef TC_DEMO_H
#define TC_DEMO_H

#include "clients/client.h"
#include "proto/record.h"

#include <stddef.h>
#include <stdio.h>

/* ---- logs: clients/demo_data.c ---- */
struct demo_task {
    char id[TP_TASK_ID_LEN + 1];
    char *name;          /* owned: the workload key without brackets and quotes */
    char *op;            /* owned: its first part */
    struct tp_buf lines; /* its records as they stood in the logs, '\n' behind each */
    double *cost;        /* owned, one per record: fastest repeat in seconds; INFINITY: failed */
    size_t n, cap, valid;
    bool kept_aside;
};
struct demo_logs {
    struct demo_task *task; /* owned, ordered by id */
    size_t n, cap;
    size_t records, files;
    char target[256]; /* of the first record */
    int32_t hw_params[TP_HW_PARAMS];
    bool has_hw_params;
};
/* Every "*.json" of a folder. An unusable line is an error that names file and line. */
int demo_load(const char *dir, struct demo_logs *out, struct tc_err *e);
void demo_free(struct demo_logs *l);
/* Keep two tasks aside, by a rule and not by taste: of the two operators with the most tasks, the task whose id (a
 * hash) comes first. */
int demo_keep_aside(struct demo_logs *l, struct tc_err *e);

/* ---- figures ---- */
struct demo_rank {
    double picked, random, best; /* seconds: the highest score's, the mean of all, the fastest */
    double top1, top5;           /* best / fastest among the 1 or 5 highest scores */
    double pairwise; /* share of pairs with different latencies that the scores order right; a tie counts half */
};
/* score[n] of the task's records (NaN: unusable). Records that failed are left out. */
int demo_rank(const struct demo_task *t, const double *score, struct demo_rank *out, struct tc_err *e);

/* ---- looks: clients/demo_show.c ---- */
struct demo_screen {
    FILE *f;
    bool live; /* a terminal that understands carriage returns */
    bool utf8, colour;
    bool bar_open; /* a progress line stands unfinished */
    int last_epoch;
    double last_line;
};
void demo_screen_init(struct demo_screen *s, FILE *f);
void demo_step(struct demo_screen *s, const char *label, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void demo_progress(struct demo_screen *s, const json_t *job, double seconds);
void demo_progress_end(struct demo_screen *s);
void demo_table_head(struct demo_screen *s, const char *what);
void demo_table_row(struct demo_screen *s, const struct demo_task *t, const struct demo_rank *r);
void demo_count(double v, char *buf, size_t n); /* 12345.6 -> "12,346" */

#endif
