/* What the store's tests share: a directory of their own, records made to measure, writes that wait for their answer.
 * Everything here fails the running test when it does not work. */
#ifndef TESTS_STORE_FIXTURE_H
#define TESTS_STORE_FIXTURE_H

#include "store/db.h"

#include <check.h>

/* One store in a fresh directory. sf_begin() as setup, sf_end() as teardown. */
extern char sf_dir[64];
extern struct st_store *sf_store;
void sf_begin(void);
void sf_end(void);
void sf_reopen(void); /* close and open the same directory */
void sf_path(char out[96], const char *name);

struct st_reader *sf_reader(void);
void sf_hardware(const char *name, const char *family, const char *kind);
int64_t sf_hardware_id(const char *name);

/* A log line. Programs of one task differ by `program` (1 .. 10^6), tasks by `task`; cost in seconds, <= 0: error 2. */
struct sf_line {
    int task, program;
    double cost;
    long timestamp;
};
size_t sf_print(char *out, size_t n, struct sf_line l);
void sf_parse(struct tp_record *r, const char *line);
struct st_ingest *sf_batch(const struct sf_line *lines, size_t n);
/* Submit and wait for done(). The first is for threads: Check's assertions belong to the main thread. */
int sf_try_submit(const char *hardware, struct st_ingest *b, struct st_ingest_result *result, struct tp_err *e);
struct st_ingest_result sf_submit(const char *hardware, struct st_ingest *b);
struct st_ingest_result sf_post(const char *hardware, const struct sf_line *lines, size_t n);
struct st_ingest_result sf_post_text(const char *hardware, const char *line);

/* Every measurement of a hardware as lines, in order of acceptance. */
void sf_export(struct tp_buf *out, const char *hardware, const char *task_id);
/* One integer by a query on a connection of its own, for what the interface does not show. */
int64_t sf_query(const char *sql);

int sf_main(Suite *s);

#endif
