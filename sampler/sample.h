/* Which programs of a pool take part in training: a seeded sample of at most `per_task` distinct programs of each task.
 *
 * A program's place in the draw depends on the seed and its own hash alone, so the sample does not depend on the order
 * of the pool, and it changes little when programs are added. Pure functions. */
#ifndef TS_SAMPLE_H
#define TS_SAMPLE_H

#include "proto/err.h"

#include <stddef.h>
#include <stdint.h>

/* task[i] and key[i] (tp_program_hash) describe program i of n. take[i] becomes 1 for the chosen ones, else 0; *taken
 * counts them (may be NULL). Of programs with equal (task, key) the first one stands for all. per_task 0 = every
 * distinct program. NO_MEMORY. */
int ts_sample(const uint32_t *task, const uint8_t (*key)[16], size_t n, uint32_t per_task, uint64_t seed, uint8_t *take,
              size_t *taken, struct tp_err *e);

/* The draw itself: 64 well-mixed bits of (seed, key); the programs with the smallest are the sample. */
uint64_t ts_draw(uint64_t seed, const uint8_t key[16]);

#endif
