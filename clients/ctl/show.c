/* Tables, progress, text that is kept. Without a terminal nothing holds control bytes. */
#include "clients/ctl/ctl.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BAR = 24, COLUMNS = 16 };
static const double line_seconds = 2; /* between plain lines of progress */

void ctl_show_init(struct ctl *c)
{
    const char *term = getenv("TERM");
    c->live = isatty(STDERR_FILENO) && term && strcmp(term, "dumb");
    c->last_line = tc_now();
}

static char *keep(struct ctl *c, char *p)
{
    if (!p)
        abort(); /* a command line tool without memory for a line of text */
    if (c->n_kept == c->cap_kept) {
        c->cap_kept = c->cap_kept * 2 + 64;
        c->kept = realloc(c->kept, c->cap_kept * sizeof *c->kept);
        if (!c->kept)
            abort();
    }
    return c->kept[c->n_kept++] = p;
}

static char *vkeep(struct ctl *c, const char *fmt, va_list ap)
{
    char *p = NULL;
    if (vasprintf(&p, fmt, ap) < 0)
        p = NULL;
    return keep(c, p);
}

char *ctl_printf(struct ctl *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *p = vkeep(c, fmt, ap);
    va_end(ap);
    return p;
}

void ctl_note(struct ctl *c, const char *fmt, ...)
{
    va_list ap;
    if (c->quiet)
        return;
    ctl_progress_end(c);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

void ctl_progress(struct ctl *c, const char *what, double fraction, const char *fmt, ...)
{
    va_list ap;
    if (c->quiet || (!c->live && tc_now() - c->last_line < line_seconds))
        return;
    c->last_line = tc_now();
    fprintf(stderr, c->live ? "\r%s [" : "%s", what);
    if (c->live) {
        int full = isnan(fraction) ? 0 : (int)(fmin(fmax(fraction, 0), 1) * BAR + 0.5);
        for (int i = 0; i < BAR; i++)
            fputc(i < full ? '#' : '.', stderr);
        fputc(']', stderr);
    }
    if (!isnan(fraction))
        fprintf(stderr, " %3.0f %%", fmin(fmax(fraction, 0), 1) * 100);
    fputs("  ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputs(c->live ? "\033[K" : "\n", stderr);
    fflush(stderr);
    c->bar_open = c->live;
}

void ctl_progress_end(struct ctl *c)
{
    if (c->bar_open)
        fputc('\n', stderr);
    c->bar_open = false;
}

void ctl_json_out(const json_t *j)
{
    json_dumpf(j, stdout, JSON_ENCODE_ANY | JSON_REAL_PRECISION(12));
    fputc('\n', stdout);
}

/* ---- tables ---- */

struct ctl_table {
    struct ctl *c;
    int columns, at; /* cell to fill */
    const char **cell;
    int n, cap;
    bool text[COLUMNS]; /* a cell is no number */
};

static void add(struct ctl_table *t, const char *s)
{
    if (t->n == t->cap) {
        t->cap = t->cap * 2 + 64;
        t->cell = realloc(t->cell, (size_t)t->cap * sizeof *t->cell);
        if (!t->cell)
            abort();
    }
    t->cell[t->n++] = s;
}

struct ctl_table *ctl_table_new(struct ctl *c, const char *const *heads)
{
    struct ctl_table *t = calloc(1, sizeof *t);
    if (!t)
        abort();
    t->c = c;
    for (; *heads && t->columns < COLUMNS; heads++, t->columns++)
        add(t, *heads);
    return t;
}

static void put(struct ctl_table *t, const char *s)
{
    if (!*s)
        s = "-";
    if (s[strspn(s, "0123456789.-+e%")])
        t->text[t->n % t->columns] = true;
    add(t, s);
}

void ctl_cell(struct ctl_table *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    put(t, vkeep(t->c, fmt, ap));
    va_end(ap);
}

void ctl_cell_num(struct ctl_table *t, double v, const char *fmt)
{
    char buf[64];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(buf, sizeof buf, fmt, v);
#pragma GCC diagnostic pop
    ctl_cell(t, "%s", isnan(v) ? "-" : buf);
}

void ctl_cell_int(struct ctl_table *t, const json_t *j, const char *pointer)
{
    const json_t *v = tc_at(j, pointer);
    if (json_is_integer(v))
        ctl_cell(t, "%lld", (long long)json_integer_value(v));
    else
        ctl_cell(t, "-");
}

void ctl_cell_str(struct ctl_table *t, const json_t *j, const char *pointer)
{
    const char *s = tc_str(j, pointer);
    ctl_cell(t, "%s", s ? s : "-");
}

void ctl_table_print(struct ctl_table *t)
{
    int width[COLUMNS] = {0};
    for (int i = 0; i < t->n; i++) {
        int n = (int)strlen(t->cell[i]);
        if (n > width[i % t->columns])
            width[i % t->columns] = n;
    }
    for (int i = 0; i < t->n; i++) {
        int k = i % t->columns;
        bool last = k == t->columns - 1;
        if (t->text[k])
            printf("%-*s", last ? 0 : width[k], t->cell[i]);
        else
            printf("%*s", width[k], t->cell[i]);
        fputs(last ? "\n" : "  ", stdout);
    }
    free(t->cell);
    free(t);
}

const char *ctl_seconds(struct ctl *c, double s)
{
    if (isnan(s))
        return "-";
    return s < 1e-3   ? ctl_printf(c, "%.3g us", s * 1e6)
           : s < 1    ? ctl_printf(c, "%.3g ms", s * 1e3)
           : s < 1000 ? ctl_printf(c, "%.3g s", s)
                      : ctl_printf(c, "%.0f s", s);
}

double ctl_time(const char *when)
{
    struct tm tm = {0};
    const char *rest = when ? strptime(when, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
    return rest ? (double)timegm(&tm) + (*rest == '.' ? strtod(rest, NULL) : 0) : (double)NAN;
}

const char *ctl_age(struct ctl *c, const char *when)
{
    double s = (double)time(NULL) - floor(ctl_time(when));
    if (isnan(s))
        return "-";
    return s < 90            ? ctl_printf(c, "%.0f s", fmax(s, 0))
           : s < 90 * 60     ? ctl_printf(c, "%.0f min", s / 60)
           : s < 36 * 3600.0 ? ctl_printf(c, "%.0f h", s / 3600)
                             : ctl_printf(c, "%.0f d", s / 86400);
}
