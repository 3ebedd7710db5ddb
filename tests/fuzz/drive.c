/* Runs a fuzz target without libFuzzer: each file of its corpus as it is, then mutated in a fixed sequence. The short
 * form of `make fuzz` for `make check`, with any compiler.
 *
 *   drive CORPUS_DIR [mutations of each file, default 400] */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t next(uint64_t *seed) /* splitmix64 */
{
    uint64_t x = *seed += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Changes, doubles or removes a piece or two; the first byte, which chooses the form, mostly stays. */
static size_t mutate(uint8_t *p, size_t n, uint64_t *seed)
{
    static const char interesting[] = "\0\xff\n\r\"\\{}[],:-0";
    for (int k = (int)(next(seed) % 3); k >= 0 && n > 2; k--) {
        size_t at = 1 + next(seed) % (n - 1), len = 1 + next(seed) % (n - at < 40 ? n - at : 40);
        switch (next(seed) % 4) {
        case 0:
            p[at] = (uint8_t)next(seed);
            break;
        case 1:
            p[at] = (uint8_t)interesting[next(seed) % (sizeof interesting - 1)];
            break;
        case 2:
            memmove(p + at, p + at + len, n - at - len);
            n -= len;
            break;
        default:
            if (n + len <= MAX) {
                memmove(p + at + len, p + at, n - at);
                n += len;
            }
        }
    }
    return n;
}

int main(int argc, char **argv)
{
    static uint8_t seedling[MAX], work[MAX];
    long rounds = argc > 2 ? strtol(argv[2], NULL, 10) : 400, runs = 0;
    DIR *d = argc > 1 ? opendir(argv[1]) : NULL;
    const struct dirent *f;
    uint64_t seed = 1;
    if (!d) {
        fprintf(stderr, "usage: drive CORPUS_DIR [rounds]\n");
        return 2;
    }
    while ((f = readdir(d)) != NULL) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", argv[1], f->d_name);
        FILE *in = f->d_name[0] == '.' ? NULL : fopen(path, "rb");
        if (!in)
            continue;
        size_t n = fread(seedling, 1, sizeof seedling, in);
        fclose(in);
        LLVMFuzzerTestOneInput(seedling, n);
        for (long i = 0; i < rounds; i++, runs++) {
            memcpy(work, seedling, n);
            LLVMFuzzerTestOneInput(work, mutate(work, n, &seed));
        }
    }
    closedir(d);
    printf("%s: %ld runs\n", argv[1], runs);
    return runs ? 0 : 1;
}
