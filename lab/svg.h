/* Two kinds of plots as SVG files: lines, and values with their intervals. Readable on light and dark pages (the
 * colours follow prefers-color-scheme), no script, no fonts of their own. */
#ifndef TL_SVG_H
#define TL_SVG_H

#include "proto/err.h"

#include <stdbool.h>
#include <stddef.h>

enum { TL_SVG_SERIES = 8 /* more have no colour of their own */ };

/* Points in the order of x; points with NaN are left out. lo, hi: NULL, or a band around the line. */
struct tl_svg_series {
    const char *name;
    const double *x, *y, *lo, *hi; /* [n] */
    size_t n;
};

/* One line of a dot plot: a value and its interval; NaN ends: no interval. */
struct tl_svg_dot {
    const char *name;
    double value, lo, hi;
};

struct tl_svg_labels {
    const char *title, *x, *y; /* UTF-8; y is not used by dot plots */
    bool log_x;                /* lines only: x > 0 */
    double mark;               /* a thin line at this y (dots: at this x); NaN: none */
};

/* Write a plot to PATH. UNUSABLE: no point to draw, or more than TL_SVG_SERIES series; IO. */
int tl_svg_lines(const char *path, const struct tl_svg_labels *l, const struct tl_svg_series *series, size_t n,
                 struct tp_err *e);
int tl_svg_dots(const char *path, const struct tl_svg_labels *l, const struct tl_svg_dot *dots, size_t n,
                struct tp_err *e);

#endif
