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

/* order[n]: the highest score first (equal ones in the order of the array, NaN last), but each place is given away at
 * random with chance epsilon, as Ansor does with a share of every round. 0 or -TP_E_NO_MEMORY. */
int tl_search_order(const double *score, uint32_t n, double epsilon, uint64_t seed, uint32_t *order);

#endif
