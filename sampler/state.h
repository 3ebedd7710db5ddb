/* What the sources of a greedy choice share, in this order:
 *
 *   select.c  options, methods, rounds
 *   terms.c   r, u before the first pick, percentiles, score
 *   zones.c   who has to look at whom: zones, neighbours, waves; d and u of all programs at the start of a round
 *   greedy.c  the choice in one zone
 *
 * A zone is a set of programs that is chosen from by one thread: in small pools everything, in large ones a cell (or a
 * part of a very large one). It looks at known programs of its own and of the nearest zones. Zones of a wave do not
 * look at one another and run in parallel; waves follow one another. So a choice never depends on threads. */
#ifndef TS_STATE_H
#define TS_STATE_H

#include "sampler/groups.h"
#include "sampler/kmeans.h"
#include "sampler/posterior.h"

enum {
    TS_NEAR = 9,             /* zones that a zone looks at: its own first */
    TS_ZONE_MEMBERS = 16384, /* of a cell; larger ones are cut */
    TS_CHUNK = 64            /* known programs that a member is compared with at a time */
};
#define TS_PICKED UINT32_C(0x80000000) /* mark in groups.group[], within ts_greedy() only */

struct ts_zone {
    uint32_t start, known, end; /* member[start..known) are known, in the order of becoming so; [known..end) are left */
    uint32_t cell;
    uint32_t n_near, near[TS_NEAR];
    uint32_t seen[TS_NEAR]; /* known programs of near[] that are in d2 of all members left */
    uint32_t wave;
    uint32_t seats;         /* of the whole budget */
    double dither;          /* [0,1): spreads odd seats over the rounds */
    struct ts_pick *picks;  /* of this round */
    uint32_t want, n_picks; /* likewise */
};

/* How terms become a score; of a round. */
struct ts_scale {
    enum ts_form form;
    struct ts_weights w;
    double cap;   /* distance at which d is 1 */
    float *knots; /* [n_knots] sorted u2 of candidates; none: u = 1/2 */
    size_t n_knots;
};

/* One worker's buffers: everything of a zone's members that are left, compact; they grow to the largest zone. */
struct ts_scratch {
    float *row;     /* [members][view.dim] */
    float *feature; /* [members][view.features] */
    float *d2;
    double *u2, *bound;
    uint32_t *heap, *seen, *tie;
    float *pick_row, *pick_v; /* [picks] of this zone and round */
    float *known;             /* [TS_CHUNK][view.dim] */
    size_t cap_row, cap_feature, cap_d2, cap_u2, cap_bound, cap_heap, cap_seen, cap_tie, cap_pick_row, cap_pick_v;
    struct ts_posterior posterior; /* its covariance follows the picks */
    int rc;
};

struct ts_state {
    const struct ts_pool *pool;
    const struct ts_opts *opts;
    struct ts_view view;
    struct ts_run run;
    bool uses_d, uses_u, updates_u;
    struct ts_cells cells; /* k = 0: the method has none */

    /* per program */
    float *r, *fast; /* NULL when not used */
    float *d2, *u2;
    struct ts_groups groups; /* seats: those left */

    struct ts_zone *zone;
    uint32_t n_zones, n_waves;
    uint32_t *member; /* [n] by zone */
    struct ts_item *item;
    size_t n_items;
    struct ts_scale scale;
    struct ts_posterior posterior;
    struct ts_scratch *scratch; /* [threads] */
};

/* ---- terms.c ---- */
/* state->r from cells, ->fast, ->u2 of snapshots. 0 or -TP_E_NO_MEMORY, here and below. */
int ts_terms_init(struct ts_state *s);
/* Share of knots below x, ties by half; never falls while x grows. */
double ts_percentile(const float *knots, size_t n, float x);
/* Knots and cap from the candidates left. */
int ts_scale_update(struct ts_state *s, double cap_quantile);
/* r, d, u and score of program i, given its distance and variance now. Never grows while these fall. */
double ts_score(const struct ts_state *s, size_t i, float d2, double u2, struct ts_pick *terms);

/* ---- zones.c ---- */
/* One zone, or one per cell with neighbours and waves. Takes cells.order over and, with many zones, sets cells.cell to
 * the zone. */
int ts_zones_init(struct ts_state *s, bool many);
/* d2 and u2 of all members left, from every known program around. NO_MEMORY, CANCELLED. */
int ts_zones_refresh(struct ts_state *s, double fraction);
/* The smaller of d2[m] and the squared distances of row[m] to known programs that the zone has not seen. */
void ts_zone_look(const struct ts_state *s, const struct ts_zone *z, const float *row, size_t m, float *d2,
                  float *known);

/* ---- greedy.c ---- */
/* Choose z->want members into z->picks and make them known. With tick, progress goes from its present value to
 * `fraction`. sets w->rc. */
void ts_greedy(struct ts_state *s, struct ts_zone *z, struct ts_scratch *w, bool tick, double fraction);
void ts_scratch_free(struct ts_scratch *w);

#endif
