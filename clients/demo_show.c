/* The demo's looks: aligned steps, a progress bar on a terminal (plain lines elsewhere), the table of results.
 *
 * Invariant: without a terminal the output holds no control bytes; without a UTF-8 locale it is ASCII. */
#include "clients/demo.h"

#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BAR = 30, NAME_WIDTH = 36 };

void demo_screen_init(struct demo_screen *s, FILE *f)
{
    const char *term = getenv("TERM");
    setlocale(LC_CTYPE, "");
    *s = (struct demo_screen){.f = f};
    s->utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
    s->live = isatty(fileno(f)) && term && strcmp(term, "dumb");
    s->colour = s->live && !getenv("NO_COLOR");
    setvbuf(f, NULL, _IOLBF, 0);
}

void demo_step(struct demo_screen *s, const char *label, const char *fmt, ...)
{
    va_list ap;
    demo_progress_end(s);
    fprintf(s->f, "%s%-9s%s ", s->colour ? "\033[1;36m" : "", label, s->colour ? "\033[0m" : "");
    va_start(ap, fmt);
    vfprintf(s->f, fmt, ap);
    va_end(ap);
    fputc('\n', s->f);
}

static void print_figures(struct demo_screen *s, const json_t *job, double seconds)
{
    double loss = tc_num(job, "/loss"), progress = tc_num(job, "/progress");
    const char *phase = tc_str(job, "/phase");
    fprintf(s->f, " %3.0f %%", isnan(progress) ? 0 : progress * 100);
    fprintf(s->f, "  epoch %lld", (long long)tc_int(job, "/epoch", 0));
    if (!isnan(loss))
        fprintf(s->f, "  loss %.4f", loss);
    if (!phase || strcmp(phase, "train"))
        fprintf(s->f, "  %s", phase ? phase : "waiting");
    fprintf(s->f, "  %.1f s", seconds);
}

void demo_progress(struct demo_screen *s, const json_t *job, double seconds)
{
    double progress = tc_num(job, "/progress");
    if (s->live) {
        int full = isnan(progress) ? 0 : (int)(fmin(fmax(progress, 0), 1) * BAR + 0.5);
        fprintf(s->f, "\r%s%-9s%s ", s->colour ? "\033[1;36m" : "", "train", s->colour ? "\033[0m" : "");
        for (int i = 0; i < BAR; i++)
            fputs(i < full ? s->utf8 ? "█" : "#" : s->utf8 ? "░" : ".", s->f);
        print_figures(s, job, seconds);
        fputs("\033[K", s->f);
        fflush(s->f);
        s->bar_open = true;
        return;
    }
    const double every = 2; /* seconds between lines */
    int epoch = (int)tc_int(job, "/epoch", 0);
    if (epoch == s->last_epoch || seconds - s->last_line < every)
        return;
    s->last_epoch = epoch;
    s->last_line = seconds;
    fprintf(s->f, "%-9s", "train");
    print_figures(s, job, seconds);
    fputc('\n', s->f);
}

void demo_progress_end(struct demo_screen *s)
{
    if (s->bar_open)
        fputc('\n', s->f);
    s->bar_open = false;
}

/* "483 µs" or "2.48 ms", right-aligned in 9 columns whatever the bytes of the unit. */
static void print_time(struct demo_screen *s, double seconds)
{
    const char *unit = "ms";
    double v = seconds * 1e3;
    if (v < 1) {
        v *= 1e3;
        unit = s->utf8 ? "µs" : "us";
    }
    fprintf(s->f, " %*.*f %s", 6, v < 10 ? 2 : v < 100 ? 1 : 0, v, unit);
}

void demo_table_head(struct demo_screen *s, const char *what)
{
    demo_progress_end(s);
    fprintf(s->f, "\n%s%-*s %5s %9s %9s %9s %6s %6s %9s%s\n", s->colour ? "\033[1m" : "", NAME_WIDTH, what, "of",
            "tcld's", "random", "fastest", "top-1", "top-5", "pairs in", s->colour ? "\033[0m" : "");
    fprintf(s->f, "%s%-*s %5s %9s %9s %9s %6s %6s %9s%s\n", s->colour ? "\033[1m" : "", NAME_WIDTH, "", "", "pick",
            "pick", "of all", "", "", "order", s->colour ? "\033[0m" : "");
}

void demo_table_row(struct demo_screen *s, const struct demo_task *t, const struct demo_rank *r)
{
    fprintf(s->f, "%-*.*s %5zu", NAME_WIDTH, NAME_WIDTH, t->name, t->valid);
    print_time(s, r->picked);
    print_time(s, r->random);
    print_time(s, r->best);
    fprintf(s->f, " %6.3f %6.3f %7.1f %%\n", r->top1, r->top5, r->pairwise * 100);
}

void demo_count(double v, char *buf, size_t n)
{
    char plain[32];
    int len = snprintf(plain, sizeof plain, "%.0f", v);
    size_t to = 0;
    for (int i = 0; i < len && to + 2 < n; i++) {
        if (i && plain[i - 1] != '-' && (len - i) % 3 == 0)
            buf[to++] = ',';
        buf[to++] = plain[i];
    }
    buf[to] = '\0';
}
