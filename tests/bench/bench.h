/* What the benches share: clocks, medians, the table of results, records from files, and peers that run as processes of
 * their own.
 *
 * A bench measures its subjects in turn, round after round, so that whatever else the machine does hits all of them
 * alike, and reports medians. Subjects with one thread are timed in CPU time of that thread: time that another process
 * got is not counted. Nothing here fails quietly: what cannot go on says why and exits 1. One thread. */
#ifndef BENCH_H
#define BENCH_H

#include "model/dataset.h"
#include "proto/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- time ---- */
double bench_thread_cpu(void);  /* seconds of CPU of this thread */
double bench_process_cpu(void); /* of all threads of this process */
double bench_wall(void);
/* The q-quantile (0.5: median) of v[0..n), n > 0; sorts v. */
double bench_quantile(double *v, size_t n, double q);
/* Stay on the last CPU that is allowed, and so do children. Returns its number. */
int bench_pin(void);

_Noreturn void bench_die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void *bench_alloc(size_t n, size_t size); /* zeroed, or exit */
/* A new folder $TMPDIR/NAME-xxxxxx, or under /tmp, or exit. */
enum { BENCH_PATH = 256 };
void bench_folder(const char *name, char dir[BENCH_PATH]);

/* ---- results ---- */
/* One line of the table and of build/bench/NAME.json: {name, value, unit, peer, peer_value, ratio}; ratio = value /
 * peer_value. Names are copied. peer NULL: none, peer_value NaN: it could not be measured (both null in the file).
 * A value NaN is left out.
 * goal: "" or text such as ">= 20" that the ratio (or the value, when there is no peer) is held against. */
void bench_result(const char *name, double value, const char *unit, const char *peer, double peer_value,
                  const char *goal);
/* Print the table, write the file, forget the results. */
void bench_report(const char *bench);

/* ---- records ---- */
struct bench_text {
    char *p;
    size_t n;
};
struct bench_text bench_read(const char *path); /* a whole file, .gz unpacked; p is NUL-terminated, the caller's */
/* Parse every line. Returns the records, *n of them, to be released with bench_records_free(). They lie one behind the
 * other in one piece of memory, with one copy of each task: as close as a caller would keep them. */
struct tp_record *bench_records(const char *path, size_t *n);
void bench_records_free(struct tp_record *r);
/* Encode records, one program each (equal ones stay apart), as a dataset. */
struct tm_dataset *bench_dataset(enum tclfeat_set set, const struct tp_record *r, size_t n);
/* For the peers, little endian: uint32 n, rows, cols, summary columns, ids, tasks; then rows[], start[n + 1], ids[],
 * summary[], task[n], float64 cost[n], as in struct tm_dataset. */
void bench_export(const char *path, const struct tm_dataset *d);
const char *bench_name(const char *path); /* file name without folder; static until the next call */

/* ---- peers ---- */
/* A process that answers one line to each line it is sent. */
struct bench_peer;
/* Runs argv[0] (found as execvp does) and takes its first line: "ready TEXT" or "skip REASON". On skip, or when it
 * cannot be run, says so and returns NULL. */
struct bench_peer *bench_peer_start(const char *const *argv);
const char *bench_peer_about(const struct bench_peer *p); /* TEXT */
int bench_peer_pid(const struct bench_peer *p);
/* Send a command, return the answer (without line end), valid until the next. */
const char *bench_peer_ask(struct bench_peer *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
double bench_peer_number(struct bench_peer *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void bench_peer_end(struct bench_peer *p); /* NULL is fine */
/* $TCLD_PYTHON or /usr/bin/python3 */
const char *bench_python(void);

#endif
