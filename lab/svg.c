/* A frame with ticks at round numbers, then lines or dots in it. Text is escaped once, on its way into the buffer. */
#include "lab/svg.h"

#include "lab/cli.h"
#include "proto/buf.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 720, HEIGHT = 400, LEFT = 70, RIGHT = 24, TOP = 44, BOTTOM = 52, ROW = 30, NAMES = 210, LEGEND = 18 };

static const char style[] =
    "<style>text{font:12px sans-serif;fill:#1f2328}.t{font-size:14px;font-weight:bold}.e{text-anchor:end}"
    ".m{text-anchor:middle}.g{stroke:#d1d9e0;stroke-width:1}.k{stroke:#818b98;stroke-width:1;stroke-dasharray:4 3}"
    ".b{fill:#ffffff}.l{fill:none;stroke-width:2}.a{stroke:none;opacity:.18}"
    "@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.g{stroke:#3d444d}.k{stroke:#9198a1}.b{fill:#0d1117}}"
    "</style>\n";
/* Okabe and Ito's colours, those with contrast on white and on black */
static const char *const colour[TL_SVG_SERIES] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                  "#e69f00", "#56b4e9", "#808080", "#b5651d"};

struct axis {
    double lo, hi; /* of the data, in log10 when log */
    double at, to; /* of the picture */
    bool log;
};

static double place(const struct axis *a, double v)
{
    v = a->log ? log10(v) : v;
    return a->at + (v - a->lo) / (a->hi - a->lo) * (a->to - a->at);
}

static void cover(struct axis *a, double v)
{
    v = a->log ? log10(v) : v;
    if (isfinite(v)) {
        a->lo = fmin(a->lo, v);
        a->hi = fmax(a->hi, v);
    }
}

/* Some room around the data, and never nothing. */
static void widen(struct axis *a)
{
    const double room = a->hi > a->lo ? 0.04 * (a->hi - a->lo) : fmax(fabs(a->hi) * 0.1, 1e-3);
    a->lo -= room;
    a->hi += room;
}

/* 1, 2 or 5 times a power of ten, four to nine steps. */
static double step_of(const struct axis *a)
{
    const double raw = (a->hi - a->lo) / 5, ten = pow(10, floor(log10(raw))), r = raw / ten;
    return ten * (r < 1.5 ? 1 : r < 3.5 ? 2 : r < 7.5 ? 5 : 10);
}

static void text(struct tp_buf *b, const char *class, double x, double y, const char *s)
{
    tp_buf_printf(b, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">", class, x, y);
    for (; *s; s++) {
        const char *esc = *s == '<' ? "&lt;" : *s == '>' ? "&gt;" : *s == '&' ? "&amp;" : NULL;
        if (esc)
            tp_buf_puts(b, esc);
        else
            tp_buf_putc(b, *s);
    }
    tp_buf_puts(b, "</text>\n");
}

static void line(struct tp_buf *b, const char *class, double x1, double y1, double x2, double y2)
{
    tp_buf_printf(b, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", class, x1, y1, x2, y2);
}

/* Grid and numbers of one axis; `across` is the other one. */
static void ticks(struct tp_buf *b, const struct axis *a, const struct axis *across, bool horizontal)
{
    const double step = a->log ? fmax(1, step_of(a)) : step_of(a);
    char s[32];
    for (double v = ceil(a->lo / step) * step; v <= a->hi + 1e-9 * step; v += step) {
        const double shown = a->log ? pow(10, v) : fabs(v) < 1e-9 * step ? 0 : v, p = place(a, shown);
        snprintf(s, sizeof s, "%.6g", shown);
        if (horizontal) {
            line(b, "g", p, across->at, p, across->to);
            text(b, "m", p, across->at + 18, s);
        } else {
            line(b, "g", across->at, p, across->to, p);
            text(b, "e", across->at - 8, p + 4, s);
        }
    }
}

static void begin(struct tp_buf *b, double height, const char *title)
{
    tp_buf_printf(b,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" width=\"%d\" height=\"%.0f\" "
                  "role=\"img\">\n",
                  WIDTH, height, WIDTH, height);
    tp_buf_puts(b, style);
    tp_buf_printf(b, "<rect class=\"b\" width=\"%d\" height=\"%.0f\"/>\n", WIDTH, height);
    text(b, "t", 16, 24, title);
}

/* Ends the picture, writes and releases it. */
static int finish(struct tp_buf *b, const char *path, struct tp_err *e)
{
    tp_buf_puts(b, "</svg>\n");
    int rc = tl_write_file(path, b, e);
    tp_buf_free(b);
    return rc;
}

static bool drawn(const struct axis *x, const struct axis *y, double vx, double vy)
{
    return isfinite(x->log ? log10(vx) : vx) && isfinite(y->log ? log10(vy) : vy);
}

/* The path of n points; `back`: from the last to the first, as the second half of a band. */
static void path_of(struct tp_buf *b, const struct axis *x, const struct axis *y, const struct tl_svg_series *s,
                    const double *v, bool back, bool *open)
{
    for (size_t k = 0; k < s->n; k++) {
        const size_t i = back ? s->n - 1 - k : k;
        if (!drawn(x, y, s->x[i], v[i]))
            continue;
        tp_buf_printf(b, "%c%.1f %.1f", *open ? 'L' : 'M', place(x, s->x[i]), place(y, v[i]));
        *open = true;
    }
}

static void draw_series(struct tp_buf *b, const struct axis *x, const struct axis *y, const struct tl_svg_series *s,
                        const char *c)
{
    bool open = false;
    if (s->lo && s->hi) {
        tp_buf_printf(b, "<path class=\"a\" fill=\"%s\" d=\"", c);
        path_of(b, x, y, s, s->lo, false, &open);
        path_of(b, x, y, s, s->hi, true, &open);
        tp_buf_puts(b, open ? "Z\"/>\n" : "\"/>\n");
    }
    open = false;
    tp_buf_printf(b, "<path class=\"l\" stroke=\"%s\" d=\"", c);
    path_of(b, x, y, s, s->y, false, &open);
    tp_buf_puts(b, "\"/>\n");
}

int tl_svg_lines(const char *path, const struct tl_svg_labels *l, const struct tl_svg_series *series, size_t n,
                 struct tp_err *e)
{
    const double height = HEIGHT + LEGEND * (double)n;
    struct axis x = {INFINITY, -INFINITY, LEFT, WIDTH - RIGHT, l->log_x};
    struct axis y = {INFINITY, -INFINITY, HEIGHT - BOTTOM, TOP, false};
    struct tp_buf b = {0};
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < series[k].n; i++) {
            const struct tl_svg_series *s = &series[k];
            if (!drawn(&x, &y, s->x[i], s->y[i]))
                continue;
            cover(&x, s->x[i]);
            cover(&y, s->y[i]);
            cover(&y, s->lo ? s->lo[i] : NAN);
            cover(&y, s->hi ? s->hi[i] : NAN);
        }
    if (!(x.lo <= x.hi) || n > TL_SVG_SERIES)
        return tp_fail(e, TP_E_UNUSABLE, "a plot has 1 to %d series with some point", TL_SVG_SERIES);
    cover(&y, l->mark);
    widen(&x);
    widen(&y);
    begin(&b, height, l->title);
    ticks(&b, &x, &y, true);
    ticks(&b, &y, &x, false);
    if (isfinite(l->mark))
        line(&b, "k", x.at, place(&y, l->mark), x.to, place(&y, l->mark));
    for (size_t k = 0; k < n; k++)
        draw_series(&b, &x, &y, &series[k], colour[k]);
    text(&b, "m", (x.at + x.to) / 2, HEIGHT - 14, l->x);
    tp_buf_printf(&b, "<g transform=\"translate(18 %.0f) rotate(-90)\">", (y.at + y.to) / 2);
    text(&b, "m", 0, 0, l->y);
    tp_buf_puts(&b, "</g>\n");
    for (size_t k = 0; k < n; k++) {
        const double at = HEIGHT + LEGEND * (double)k;
        tp_buf_printf(&b, "<path class=\"l\" stroke=\"%s\" d=\"M%d %.0fh24\"/>\n", colour[k], LEFT, at);
        text(&b, "n", LEFT + 32, at + 4, series[k].name);
    }
    return finish(&b, path, e);
}

int tl_svg_dots(const char *path, const struct tl_svg_labels *l, const struct tl_svg_dot *dots, size_t n,
                struct tp_err *e)
{
    const double bottom = TOP + ROW * (double)n;
    struct axis x = {INFINITY, -INFINITY, NAMES, WIDTH - RIGHT, false}, y = {0, 1, bottom, TOP, false};
    struct tp_buf b = {0};
    char value[32];
    for (size_t i = 0; i < n; i++) {
        cover(&x, dots[i].value);
        cover(&x, dots[i].lo);
        cover(&x, dots[i].hi);
    }
    if (!(x.lo <= x.hi))
        return tp_fail(e, TP_E_UNUSABLE, "a plot needs some value");
    cover(&x, l->mark);
    widen(&x);
    begin(&b, bottom + BOTTOM, l->title);
    ticks(&b, &x, &y, true);
    if (isfinite(l->mark))
        line(&b, "k", place(&x, l->mark), y.at, place(&x, l->mark), y.to);
    for (size_t i = 0; i < n; i++) {
        const double at = TOP + ROW * ((double)i + 0.5), v = dots[i].value;
        text(&b, "e", NAMES - 12, at + 4, dots[i].name);
        if (!isfinite(v))
            continue;
        if (isfinite(dots[i].lo) && isfinite(dots[i].hi))
            tp_buf_printf(&b, "<path class=\"l\" stroke=\"%s\" d=\"M%.1f %.1fH%.1f\"/>\n", colour[0],
                          place(&x, dots[i].lo), at, place(&x, dots[i].hi));
        snprintf(value, sizeof value, "%.4g", v);
        tp_buf_printf(&b, "<circle fill=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\"><title>%s</title></circle>\n",
                      colour[0], place(&x, v), at, value);
    }
    text(&b, "m", (x.at + x.to) / 2, bottom + 38, l->x);
    return finish(&b, path, e);
}
