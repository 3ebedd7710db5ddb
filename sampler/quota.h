/* Seats for groups in proportion to weights: Sainte-Lague's divisors (each next seat to the largest weight / (2 seats +
 * 1)), which are house-monotone: a larger budget never takes a seat from a group. Pure functions. */
#ifndef TS_QUOTA_H
#define TS_QUOTA_H

#include "proto/err.h"

#include <stddef.h>
#include <stdint.h>

/* seats[i] <= cap[i], sum = min(budget, sum of caps). held[i]: seats that group i has from earlier (NULL: none), which
 * count for its claim and its floor, so that sharing in parts comes to the same as sharing at once. Each group gets as
 * many as make floor with those held, or its cap, first; when the budget is too small for that, the largest floor that
 * fits. weight > 0. Equal claims are settled by a draw from the seed. -TP_E_NO_MEMORY. */
int ts_apportion(const double *weight, const uint32_t *held, const uint32_t *cap, size_t groups, size_t budget,
                 uint32_t floor, uint64_t seed, uint32_t *seats);

/* 64 well-mixed bits of two numbers: what every draw of the sampler is made of. */
uint64_t ts_mix(uint64_t seed, uint64_t x);

#endif
