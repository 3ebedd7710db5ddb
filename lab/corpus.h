/* Log files in memory: every distinct program of every task once, with the minimum of its costs.
 *
 * Programs are kept packed (about 150 bytes each), tasks as parsed from their first record. Built by one thread; then
 * read-only. */
#ifndef TL_CORPUS_H
#define TL_CORPUS_H

#include "model/dataset.h"
#include "proto/buf.h"
#include "proto/err.h"
#include "proto/record.h"

#include <stdbool.h>
#include <stdint.h>

struct tl_program {
    uint8_t hash[16];
    uint32_t task;
    uint32_t steps_len;
    size_t steps;    /* offset of the packed steps in the corpus' bytes */
    double min_cost; /* seconds, minimum over repeats and records; INFINITY: it only failed */
    double
        mean_cost; /* seconds, lowest mean of a record's repeats, as TenSet and TLP label; INFINITY: it only failed */
    uint32_t first_run;
};

/* A valid measurement of a program: one record. */
struct tl_run {
    uint32_t n, at; /* costs[at .. at + n), the repeats in their order */
    uint32_t next;  /* the program's next run in reading order, or TL_NO_RUN */
};
#define TL_NO_RUN UINT32_MAX

struct tl_task {
    char id[TP_TASK_ID_LEN + 1];
    char *workload_key; /* owned, NUL-terminated */
    char *text;         /* owned: the task array as printed */
    size_t text_len;
    bool gpu;
    uint32_t programs, valid;
};

struct tl_corpus {
    struct tl_program *programs;
    uint32_t n_programs;
    struct tl_task *tasks; /* in order of first appearance */
    uint32_t n_tasks;
    struct tl_run *runs;
    double *costs;                   /* seconds */
    size_t lines, records, rejected; /* lines read, records used, records refused */
    struct tp_err first_error;       /* of the first refused record; line is set, detail names the reason */
    struct tl_corpus_mem *mem;       /* private */
};

struct tl_corpus *tl_corpus_new(void);
void tl_corpus_free(struct tl_corpus *c);

/* Read PATH: a log file (plain or gzip), or a directory whose *.json and *.json.gz are read in name order. Records
 * without a usable result are counted as rejected. IO when a file cannot be read. */
int tl_corpus_read(struct tl_corpus *c, const char *path, struct tp_err *e);

/* Add program i to a dataset with that cost (seconds; INFINITY: a failure). */
int tl_corpus_encode(const struct tl_corpus *c, uint32_t i, double cost, struct tm_dataset *d,
                     struct tp_record *scratch, struct tp_err *e);

#endif
