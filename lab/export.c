/* One table of arrays, walked by the writer and by the digest. */
#include "lab/export.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the files are little-endian"
#endif

struct array {
    const char *name, *type;
    const void *p;
    size_t rows, cols; /* cols 0: one dimension */
    size_t size;       /* bytes of an element */
};

enum { ARRAYS = 9 };

static void arrays_of(const struct tl_split *s, const double *cost, struct array a[ARRAYS])
{
    const struct tm_dataset *d = s->d;
    const struct array v[ARRAYS] = {
        {"rows", "<f4", d->rows, d->n_rows, (size_t)d->cols, 4},
        {"start", "<u4", d->start, (size_t)d->n + 1, 0, 4},
        {"ids", "<u4", d->ids, d->start[d->n], 0, 4},
        {"task", "<u4", d->task, d->n, 0, 4},
        {"cost", "<f8", cost, d->n, 0, 8},
        {"train", "<u4", s->train, s->n_train, 0, 4},
        {"valid", "<u4", s->valid, s->n_valid, 0, 4},
        {"test", "<u4", s->test, s->n_test, 0, 4},
        {"summary", "<f4", d->summary, d->summary_cols ? d->n : 0, (size_t)d->summary_cols, 4},
    };
    memcpy(a, v, sizeof v);
}

/* Costs of the programs to learn from. */
static double *known_costs(const struct tl_split *s)
{
    double *cost = malloc(((size_t)s->d->n + 1) * sizeof *cost);
    if (cost == NULL)
        return NULL;
    memcpy(cost, s->d->cost, s->d->n * sizeof *cost);
    for (size_t i = 0; i < s->n_test; i++)
        cost[s->test[i]] = NAN;
    return cost;
}

/* Format version 1: the header is padded with blanks to a multiple of 64 bytes. */
static int write_array(const char *dir, const struct array *a, struct tp_err *e)
{
    char path[4096], header[128], cols[24] = "";
    unsigned char start[10] = "\x93NUMPY\x01\x00";
    if (a->cols)
        snprintf(cols, sizeof cols, " %zu", a->cols);
    int n = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (%zu,%s), }", a->type,
                     a->rows, cols);
    const size_t length = sizeof header - sizeof start;
    memset(header + n, ' ', sizeof header - (size_t)n);
    header[length - 1] = '\n';
    start[8] = (unsigned char)length;
    if (snprintf(path, sizeof path, "%s/%s.npy", dir, a->name) >= (int)sizeof path)
        return tp_fail(e, TP_E_IO, "the path of the folder is too long");
    FILE *f = fopen(path, "wb");
    if (f == NULL)
        return tp_fail(e, TP_E_IO, "%s: %s", path, strerror(errno));
    const size_t count = a->rows * (a->cols ? a->cols : 1);
    bool ok = fwrite(start, 1, sizeof start, f) == sizeof start && fwrite(header, 1, length, f) == length &&
              fwrite(a->p, a->size, count, f) == count;
    return fclose(f) == 0 && ok ? 0 : tp_fail(e, TP_E_IO, "%s cannot be written", path);
}

int tl_export_split(const struct tl_split *s, const char *dir, struct tp_err *e)
{
    struct array a[ARRAYS];
    int rc = 0;
    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return tp_fail(e, TP_E_IO, "%s: %s", dir, strerror(errno));
    double *cost = known_costs(s);
    if (cost == NULL)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for %u costs", s->d->n);
    arrays_of(s, cost, a);
    for (int i = 0; i < ARRAYS && rc == 0; i++)
        if (a[i].rows)
            rc = write_array(dir, &a[i], e);
    free(cost);
    return rc;
}

uint64_t tl_digest(uint64_t digest, const void *p, size_t n)
{
    const unsigned char *b = p;
    for (size_t i = 0; i < n; i++)
        digest = (digest ^ b[i]) * UINT64_C(0x100000001b3);
    return digest;
}

uint64_t tl_export_digest(const struct tl_split *s)
{
    struct array a[ARRAYS];
    uint64_t digest = TL_DIGEST;
    arrays_of(s, s->d->cost, a); /* the test's costs change no peer, but the cached file is then of other programs */
    for (int i = 0; i < ARRAYS; i++)
        digest = tl_digest(digest, a[i].p, a[i].rows * (a[i].cols ? a[i].cols : 1) * a[i].size);
    return digest;
}
