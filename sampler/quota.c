/* Apportionment with a heap of claims. */
#include "sampler/quota.h"

#include "model/mem.h"

#include <stdbool.h>

uint64_t ts_mix(uint64_t seed, uint64_t x)
{
    /* splitmix64 */
    x = seed + (x + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

struct claim {
    double size; /* weight / (2 (held + seats) + 1) */
    uint64_t draw;
    size_t group;
};

static bool before(const struct claim *a, const struct claim *b)
{
    if (a->size != b->size)
        return a->size > b->size;
    return a->draw != b->draw ? a->draw < b->draw : a->group < b->group;
}

static void sift_down(struct claim *heap, size_t n, size_t i)
{
    const struct claim c = heap[i];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n)
            break;
        if (child + 1 < n && before(&heap[child + 1], &heap[child]))
            child++;
        if (!before(&heap[child], &c))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = c;
}

/* What group i gets first. */
static uint32_t first_seats(const uint32_t *held, const uint32_t *cap, size_t i, uint32_t floor)
{
    const uint32_t had = held ? held[i] : 0, want = floor > had ? floor - had : 0;
    return cap[i] < want ? cap[i] : want;
}

static size_t sum_of_floors(const uint32_t *held, const uint32_t *cap, size_t groups, uint32_t floor)
{
    size_t sum = 0;
    for (size_t i = 0; i < groups; i++)
        sum += first_seats(held, cap, i, floor);
    return sum;
}

/* The largest floor <= floor whose sum fits the budget. */
static uint32_t lowered(const uint32_t *held, const uint32_t *cap, size_t groups, size_t budget, uint32_t floor)
{
    uint32_t fits = 0;
    while (fits < floor) {
        const uint32_t middle = floor - (floor - fits) / 2;
        if (sum_of_floors(held, cap, groups, middle) <= budget)
            fits = middle;
        else
            floor = middle - 1;
    }
    return fits;
}

int ts_apportion(const double *weight, const uint32_t *held, const uint32_t *cap, size_t groups, size_t budget,
                 uint32_t floor, uint64_t seed, uint32_t *seats)
{
    struct claim *heap = tm_alloc(groups, sizeof *heap);
    size_t n = 0;
    if (!heap)
        return -TP_E_NO_MEMORY;
    floor = lowered(held, cap, groups, budget, floor);
    for (size_t i = 0; i < groups; i++) {
        const double had = held ? held[i] : 0;
        seats[i] = first_seats(held, cap, i, floor);
        budget -= seats[i];
        if (seats[i] < cap[i])
            heap[n++] = (struct claim){weight[i] / (2.0 * (had + seats[i]) + 1.0), ts_mix(seed, i), i};
    }
    for (size_t i = n / 2; i-- > 0;)
        sift_down(heap, n, i);
    for (; budget > 0 && n > 0; budget--) {
        const size_t i = heap[0].group;
        const double had = held ? held[i] : 0;
        seats[i]++;
        if (seats[i] < cap[i])
            heap[0].size = weight[i] / (2.0 * (had + seats[i]) + 1.0);
        else
            heap[0] = heap[--n];
        sift_down(heap, n, 0);
    }
    free(heap);
    return 0;
}
