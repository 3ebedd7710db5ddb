/* Small logs for tests of the lab: each test writes the costs it wants, one record a line, and reads them back. */
#ifndef TEST_LAB_LOGS_H
#define TEST_LAB_LOGS_H

#include "lab/corpus.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct logs {
    FILE *f;
    char path[64];
};

static inline void logs_begin(struct logs *l)
{
    snprintf(l->path, sizeof l->path, "/tmp/lab-logs-XXXXXX.json");
    int fd = mkstemps(l->path, 5);
    ck_assert_int_ge(fd, 0);
    l->f = fdopen(fd, "w");
    ck_assert_ptr_nonnull(l->f);
}

/* Program p (1, 2, ...) of task t, two repeats. */
static inline void logs_add(struct logs *l, int t, int p, double cost_a, double cost_b)
{
    fprintf(l->f,
            "{\"i\": [[\"[\\\"task%d\\\", %d]\", \"llvm -keys=cpu\", [8, 64, 64, 0, 0, 0, 0, 0], \"\", 0, []], [[], "
            "[[\"SP\", 0, 0, 4096, [%d], 1], [\"AN\", 0, 0, 3]]]], \"r\": [[%.9g, %.9g], 0, 1.5, 1700000000], \"v\": "
            "\"v0.6\"}\n",
            t, 16 + t, p, cost_a, cost_b);
}

static inline void logs_add_failure(struct logs *l, int t, int p)
{
    fprintf(l->f,
            "{\"i\": [[\"[\\\"task%d\\\", %d]\", \"llvm -keys=cpu\", [8, 64, 64, 0, 0, 0, 0, 0], \"\", 0, []], [[], "
            "[[\"SP\", 0, 0, 4096, [%d], 1], [\"AN\", 0, 0, 3]]]], \"r\": [[1e+10], 2, 1.5, 1700000000], \"v\": "
            "\"v0.6\"}\n",
            t, 16 + t, p);
}

/* The corpus; the file is gone. */
static inline struct tl_corpus *logs_read(struct logs *l)
{
    struct tp_err e = {0};
    struct tl_corpus *c = tl_corpus_new();
    ck_assert_ptr_nonnull(c);
    ck_assert_int_eq(fclose(l->f), 0);
    ck_assert_msg(tl_corpus_read(c, l->path, &e) == 0, "%s", e.detail);
    ck_assert_msg(c->rejected == 0, "%s", c->first_error.detail);
    unlink(l->path);
    return c;
}

/* Workload key of task t. */
static inline char *logs_key(int t)
{
    char *key = NULL;
    ck_assert_int_gt(asprintf(&key, "[\"task%d\", %d]", t, 16 + t), 0);
    return key;
}

#endif
