/* A split as NumPy files, for models of other software (tests/lab/peers.py). */
#ifndef TL_EXPORT_H
#define TL_EXPORT_H

#include "lab/split.h"

/* Write s to the folder DIR (made when it is not there), little-endian .npy, one file an array; the arrays are those of
 * struct tm_dataset and struct tl_split, programs are numbered as in s->d:
 *   rows     f4 [n_rows][cols]   distinct rows
 *   start    u4 [n + 1], ids u4  program i has the rows ids[start[i] .. start[i+1])
 *   summary  f4 [n][summary_cols]   (tclf-1 alone)
 *   task     u4 [n]
 *   cost     f8 [n]              training label in seconds, infinite for a program that only failed
 *   train, valid, test  u4       program numbers
 * The cost of test programs is NaN: no model gets it. IO when a file cannot be written. */
int tl_export_split(const struct tl_split *s, const char *dir, struct tp_err *e);

/* A 64-bit digest (FNV-1a) of what tl_export_split() writes: equal digests, equal data for a peer. */
uint64_t tl_export_digest(const struct tl_split *s);
/* Continue a digest with n bytes; start with TL_DIGEST. */
#define TL_DIGEST UINT64_C(0xcbf29ce484222325)
uint64_t tl_digest(uint64_t digest, const void *p, size_t n);

#endif
