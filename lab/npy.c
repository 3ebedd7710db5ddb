/* The .npy format, versions 1 to 3: magic, two bytes of version, length of the header (2 or 4 bytes, little endian),
 * the header (a Python dict as text), the numbers. */
#include "lab/npy.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_MAX = 4096 };

/* The numbers' size (8 or 4) and count as the header has them; false: not what is read here. */
static bool understand(const char *header, size_t *size, size_t *n)
{
    const char *shape = strstr(header, "'shape': (");
    char *end;
    *size = strstr(header, "'descr': '<f8'") ? 8 : strstr(header, "'descr': '<f4'") ? 4 : 0;
    if (*size == 0 || shape == NULL)
        return false;
    shape += strlen("'shape': (");
    *n = strtoull(shape, &end, 10);
    return end != shape && strncmp(end, ",)", 2) == 0 && *n <= SIZE_MAX / 16;
}

static int read_open(FILE *f, const char *path, double **v, size_t *n, struct tp_err *e)
{
    unsigned char start[12];
    char header[HEADER_MAX + 1];
    size_t size, count, length, wide;
    if (fread(start, 1, 10, f) != 10 || memcmp(start, "\x93NUMPY", 6) != 0)
        return tp_fail(e, TP_E_UNUSABLE, "%s is no NumPy file", path);
    wide = start[6] >= 2 ? 4 : 2;
    if (wide == 4 && fread(start + 10, 1, 2, f) != 2)
        return tp_fail(e, TP_E_UNUSABLE, "%s ends in its header", path);
    length = start[8] | (size_t)start[9] << 8 | (wide == 4 ? (size_t)start[10] << 16 | (size_t)start[11] << 24 : 0);
    if (length > HEADER_MAX || fread(header, 1, length, f) != length)
        return tp_fail(e, TP_E_UNUSABLE, "%s: its header is broken", path);
    header[length] = '\0';
    if (!understand(header, &size, &count))
        return tp_fail(e, TP_E_UNUSABLE, "%s: one dimension of little-endian fp64 or fp32 is accepted", path);
    double *out = malloc((count + 1) * sizeof *out);
    if (out == NULL)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for %zu numbers", count);
    if (fread(out, size, count, f) != count) {
        free(out);
        return tp_fail(e, TP_E_UNUSABLE, "%s has fewer than %zu numbers", path, count);
    }
    for (size_t i = size == 4 ? count : 0; i-- > 0;) { /* widened in place, from the end */
        float x;
        memcpy(&x, (char *)out + i * sizeof x, sizeof x);
        out[i] = x;
    }
    *v = out;
    *n = count;
    return 0;
}

int tl_npy_read(const char *path, double **v, size_t *n, struct tp_err *e)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return tp_fail(e, TP_E_IO, "%s cannot be opened", path);
    int rc = read_open(f, path, v, n, e);
    fclose(f);
    return rc;
}
