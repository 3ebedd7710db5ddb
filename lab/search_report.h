/* What `lab search` found: figures of each order, gathered task by task, printed as JSON, as a Markdown table, drawn.
 */
#ifndef TL_SEARCH_REPORT_H
#define TL_SEARCH_REPORT_H

#include "lab/search.h"
#include "model/bootstrap.h"
#include "proto/buf.h"

#include <stdbool.h>

enum { TL_SEARCH_CURVE = 100 /* measurements the curves show */ };

/* Two ways to judge a choice. */
enum tl_search_view {
    TL_SEARCH_AS_MEASURED, /* by the cost the tuner saw */
    TL_SEARCH_BY_ANOTHER,  /* by another measurement: choose by one half of the repeats, judge by the other */
    TL_SEARCH_VIEWS
};

/* Of one task and seed; the report has the mean over seeds, then over tasks, its exponential where the name has ln. */
enum tl_search_figure {
    TL_SEARCH_LN_NEEDED,          /* measurements */
    TL_SEARCH_LN_IN_ROUNDS,       /* in whole rounds */
    TL_SEARCH_LN_RATIO,           /* to the expectation of random order */
    TL_SEARCH_LN_RATIO_IN_ROUNDS, /* both in whole rounds */
    TL_SEARCH_LN_RATIO_DRAWN,     /* to the geometric mean of random orders: like for like, and stricter */
    TL_SEARCH_FIRST_ROUND,        /* share of replays that the first round ended */
    TL_SEARCH_QUARTER,            /* share of replays that took at most a quarter of random's expectation */
    TL_SEARCH_FIGURES
};

struct tl_search_tally {
    uint32_t n_tasks; /* room */
    uint32_t *replays;
    double *sum[TL_SEARCH_FIGURES]; /* [n_tasks] over the replays of each */
    double curve[TL_SEARCH_CURVE];  /* sum over replays, each with weight 1 */
    double weight;
};

struct tl_search_row {
    char *name;
    struct tl_search_tally tally[TL_SEARCH_VIEWS];
};

/* One replay of `task`; its random orders beside. */
void tl_search_add(struct tl_search_tally *t, uint32_t task, double needed, double in_rounds, double first_round,
                   const struct tl_search_random *random);

struct tl_search_summary {
    uint32_t tasks, replays;
    double value[TL_SEARCH_FIGURES];
    struct tm_interval interval[TL_SEARCH_FIGURES]; /* 95 %, bootstrap over tasks */
    double against;                                 /* measurements over those of `base`, geometric mean, paired */
    struct tm_interval against_interval;
    double curve[TL_SEARCH_CURVE];
};
/* Figures of one row beside those of another. 0 or -TP_E_NO_MEMORY. */
int tl_search_summarise(const struct tl_search_tally *t, const struct tl_search_tally *base,
                        struct tl_search_summary *out);

struct tl_search_report {
    struct tl_search_row *row; /* [n_rows], owned; the first is what the others are set against */
    uint32_t n_rows;
    uint32_t round, per_task, test_per_task, seeds, epochs, tlp_epochs;
    double within, epsilon;
    size_t train_programs, test_programs; /* of the first seed */
};
/* Rows of these names, for tasks 0..n_tasks-1. 0 or -TP_E_NO_MEMORY. */
int tl_search_report_init(struct tl_search_report *r, const char *const *names, uint32_t n_rows, uint32_t n_tasks);
void tl_search_report_free(struct tl_search_report *r);
int tl_search_json(const struct tl_search_report *r, struct tp_buf *b);
int tl_search_markdown(const struct tl_search_report *r, struct tp_buf *b);

#endif
