/* Tuning, replayed on one task whose programs are all measured: in which order a tuner measures them, and how soon it
 * holds a fast one. Everything is counted in measurements, 1, 2, 3 ..., in the order they are made; a tuner that
 * measures whole rounds pays for the round that holds the last one.
 *
 * Pure functions over one task; deterministic by seed; any thread. */
#ifndef TL_SEARCH_H
#define TL_SEARCH_H

#include <stdint.h>

/* A task. What the tuner measures and what its choice is judged by may be two measurements of the same programs: who
 * takes the fastest of noisy measurements takes luck too, and the second measurement does not repeat it. */
struct tl_search_task {
    uint32_t n;
    const double *seen;   /* [n] seconds: what measuring a program tells; its choice is the lowest so far */
    const double *judged; /* [n] seconds: what the choice is worth */
    double goal;          /* a choice judged at most this slow is good enough */
};
/* Good enough: what a tuner that measures every program chooses, times 1 + within. seen == judged: the task's best.
 * Equal costs: the first is chosen. n >= 1. */
double tl_search_goal(const double *seen, const double *judged, uint32_t n, double within);

/* Measurements, order[0] first, until the choice is good enough: 1..n. */
uint32_t tl_search_needed(const struct tl_search_task *t, const uint32_t *order);
/* The same in whole rounds; the last one of a task may be shorter. */
uint32_t tl_search_in_rounds(uint32_t needed, uint32_t n, uint32_t round);
/* curve[i] += weight * (judged cost of what a complete search chooses / of the choice after i + 1 measurements), i <
 * n_curve; after the task's last program the curve stays. */
void tl_search_curve(const struct tl_search_task *t, const uint32_t *order, double weight, double *curve,
                     uint32_t n_curve);

/* Random order of n programs of which k are good enough, seen == judged: exact. */
struct tl_search_random {
    double needed;      /* expected measurements, (n + 1) / (k + 1) */
    double in_rounds;   /* expected, in whole rounds: sum over rounds of size times P(it is begun) */
    double ln_needed;   /* expectation of ln measurements */
    double first_round; /* P(the first round is enough) */
};
void tl_search_random_exact(uint32_t n, uint32_t k, uint32_t round, struct tl_search_random *out);
/* The same as means over `draws` seeded orders, for any task; order: room for n. */
void tl_search_random_drawn(const struct tl_search_task *t, uint32_t round, uint32_t draws, uint64_t seed,
                            uint32_t *order, struct tl_search_random *out);
/* Expected curve of random orders, exact for any task: after m of n, the i-th by `seen` (from 0) is the choice with
 * probability C(n - 1 - i, m - 1) / C(n, m). order: room for n. */
void tl_search_random_curve(const struct tl_search_task *t, double weight, double *curve, uint32_t n_curve,
                            uint32_t *order);

/* ---- orders ---- */

/* What a tuner learns of the task while it measures: the model's score plus a correction, a kernel ridge regression of
 * what the score lacks to the measured throughputs on what the model's last layer sees. */
struct tl_search_adapt {
    const float *features; /* [n][n_features] */
    int n_features;
    double gain; /* variance of the correction over that of what it cannot explain; 0: nothing is learnt */
};
enum { TL_SEARCH_LEARNS = 200 /* measurements, after which the order stays: fast programs are found, or never */ };
struct tl_search_how {
    uint32_t round;                      /* programs measured before the next are chosen */
    double epsilon;                      /* chance of each place of a round to be given away at random, as Ansor does */
    uint64_t seed;                       /* of that */
    const struct tl_search_adapt *adapt; /* NULL: nothing is learnt */
};
/* order[n]: the highest score first (equal ones in the order of the array, NaN last), changed by what `how` says. With
 * adapt, scores are in (0, 1) and about proportional to throughput, as the model reports them. 0 or -TP_E_NO_MEMORY. */
int tl_search_order(const struct tl_search_task *t, const double *score, const struct tl_search_how *how,
                    uint32_t *order);

/* score[i] + correction for all programs, from the `m` measured ones: measured[0..m). One step of the above. */
int tl_search_adapted(const struct tl_search_task *t, const double *score, const struct tl_search_adapt *a,
                      const uint32_t *measured, uint32_t m, double *out);

#endif
