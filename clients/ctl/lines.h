/* Logs as batches of whole lines: plain or gzip (told by their first bytes, glued files too), or standard input.
 * One owner, one thread. */
#ifndef CTL_LINES_H
#define CTL_LINES_H

#include "clients/client.h"

enum { LN_MAX_LINE = 16 << 20 /* bytes; what is longer is no log */ };

struct ln_reader;
/* path "-": standard input. NULL + *e: it cannot be opened. */
struct ln_reader *ln_open(const char *path, struct tc_err *e);
void ln_close(struct ln_reader *r);
/* Goes on behind `offset` bytes of the unpacked text, which were `lines` lines. -1 + *e: it is shorter. */
int ln_skip(struct ln_reader *r, long long offset, long long lines, struct tc_err *e);

struct ln_batch {
    const char *p; /* whole lines, each with its newline; until the next call */
    size_t n;
    long long line;  /* number of the first one, from 1 */
    long long lines; /* how many */
    bool torn;       /* the last one had no newline: it may still be being written */
};
/* 1 and the next lines, at most so many and (but for a single longer line) so many bytes; 0 at the end; -1 + *e: a read
 * error, a damaged gzip file, a line that is too long. */
int ln_next(struct ln_reader *r, size_t most_bytes, long long most_lines, struct ln_batch *b, struct tc_err *e);
long long ln_offset(const struct ln_reader *r); /* of the unpacked text, behind what ln_next() gave */
long long ln_done(const struct ln_reader *r);   /* bytes of the file that were read, for progress */

/* Is a line (without newline) one that tcld skips: blank, a comment? */
bool ln_is_skipped(const char *p, size_t n);

/* The files that words name: files as they are, folders with all logs below them (.json .jsonl .ndjson .log, .gz too),
 * in order of their names. *out: NULL-terminated, freed by ln_files_free(). -1 + *e: one is not there, or nothing is.
 */
int ln_files(const char *const *word, int n, char ***out, struct tc_err *e);
void ln_files_free(char **files);

#endif
