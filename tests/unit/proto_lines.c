/* Helpers of the proto tests: see proto_lines.h. Single-threaded. */
#include "tests/unit/proto_lines.h"

#include <check.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

const char CPU_LINE[] =
    "{\"i\": [[\"[\\\"gemm_demo\\\", 96, 80, 48, \\\"float32\\\"]\", \"llvm -keys=cpu -mcpu=skylake-avx512 "
    "-model=lab-xeon-a\", "
    "[16, 64, 64, 0, 0, 0, 0, 0], \"\", 1, []], [[], [[\"CHW\", 2, \"local\"], [\"SP\", 2, 0, 96, [3, 4, 2], 1], "
    "[\"SP\", 2, 4, 80, [1, 5, 16], 1], [\"SP\", 2, 8, 48, [12], 1], [\"RE\", 2, [0, 4, 1, 5, 8, 2, 6, 9, 3, 7]], "
    "[\"FSP\", 3, 0, 1, 2], [\"FSP\", 3, 3, 2, 2], [\"RE\", 3, [0, 3, 1, 4, 2, 5]], [\"CA\", 2, 3, 3], "
    "[\"FU\", 3, [0, 1, 2]], [\"AN\", 3, 0, 3], [\"PR\", 2, 0, \"auto_unroll_max_step$64\"], [\"AN\", 2, 9, 2]]]], "
    "\"r\": [[2.18407e-05, 2.20119e-05, 2.17964e-05], 0, 1.73552, 1700000123], \"v\": \"v0.6\"}";
const char GPU_LINE[] =
    "{\"i\": [[\"[\\\"00112233445566778899aabbccddeeff\\\", [8, 64], [32, 64], [8, 32]]\", "
    "\"cuda -keys=cuda,gpu -arch=sm_90 -max_num_threads=1024 -thread_warp_size=32\", "
    "[-1, 16, 64, 49152, 2147483647, 1024, 8, 32], \"llvm -keys=cpu \", 0, []], [[], [[\"SP\", 2, 0, 8, [1, 4, 1, 1], "
    "1], "
    "[\"SP\", 2, 5, 32, [1, 8, 2, 1], 1], [\"SP\", 2, 10, 64, [4, 2], 1], "
    "[\"RE\", 2, [0, 5, 1, 6, 2, 7, 10, 11, 3, 8, 12, 4, 9]], [\"FU\", 2, [0, 1]], [\"AN\", 2, 0, 5], [\"FU\", 2, [1, "
    "2]], "
    "[\"AN\", 2, 1, 4], [\"FU\", 2, [2, 3]], [\"AN\", 2, 2, 6], [\"PR\", 2, 0, \"auto_unroll_max_step$512\"]]]], "
    "\"r\": [[1e+10], 7, 11.3042, 1700000456], \"v\": \"v0.6\"}";
const char OLD_LINE[] =
    "{\"i\": [[\"[\\\"ffeeddccbbaa99887766554433221100\\\"]\", \"llvm -keys=cpu -mcpu=core-avx2\", [8, 64, 64, 0, 0, "
    "0, 0, 0]], "
    "[[], [[\"CI\", 1], [\"SP\", 3, 2, 512, [16], 1], [\"RF\", 3, 3, 2], [\"RE\", 3, [0, 1, 3, 2]], [\"CR\", 5], "
    "[\"FU\", 4, [0, 1]], [\"AN\", 4, 0, 3], [\"PR\", 3, 0, \"auto_unroll_max_step$0\"]]]], "
    "\"r\": [[0.00131], 0, 0.904518, 1606000000], \"v\": \"v0.3\"}";

int run_tests(const char *suite, const TTest *const *tests)
{
    Suite *s = suite_create(suite);
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 120);
    for (; *tests != NULL; tests++)
        tcase_add_test(t, *tests);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}

char *with(const char *line, const char *from, const char *to)
{
    const char *at = strstr(line, from);
    ck_assert_msg(at != NULL, "no %s in the line", from);
    char *out = NULL;
    ck_assert_int_ge(asprintf(&out, "%.*s%s%s", (int)(at - line), line, to, at + strlen(from)), 0);
    return out;
}

char *wrap(const char *steps)
{
    char *out = NULL;
    ck_assert_int_ge(asprintf(&out, "{\"i\": [[\"[\\\"k\\\"]\", \"llvm\"], [[], %s]]}", steps), 0);
    return out;
}

int record_parse(const char *line, struct tp_err *e)
{
    struct tp_record r;
    size_t n = strlen(line);
    char *exact = malloc(n > 0 ? n : 1); /* a sanitizer sees a read past the end */
    ck_assert_ptr_nonnull(exact);
    memcpy(exact, line, n);
    tp_record_init(&r);
    memset(e, 0, sizeof *e);
    int rc = tp_record_parse(&r, exact, n, e);
    tp_record_free(&r);
    free(exact);
    return rc;
}

void record_accepted(const char *line)
{
    struct tp_err e;
    int rc = record_parse(line, &e);
    ck_assert_msg(rc == 0, "%s %s (%s): %s", tp_code_slug(rc), e.pointer, e.detail, line);
}

void record_refused(const char *line, enum tp_code code, const char *pointer, const char *says)
{
    struct tp_err e;
    int rc = record_parse(line, &e);
    ck_assert_msg(rc == -(int)code, "got %s (%s), want %s: %s", tp_code_slug(rc), e.detail, tp_code_slug((int)code),
                  line);
    ck_assert_int_eq((int)e.code, (int)code);
    ck_assert_msg(strcmp(e.pointer, pointer) == 0, "pointer %s, want %s: %s", e.pointer, pointer, line);
    ck_assert_msg(strstr(e.detail, says) != NULL, "detail %s does not say %s", e.detail, says);
}

uint32_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (uint32_t)(*state * 2685821657736338717ULL >> 32);
}

uint32_t below(uint64_t *state, uint32_t n)
{
    return (uint32_t)((uint64_t)next_random(state) * n >> 32);
}

void mutate(uint64_t *rng, char *text, size_t *n, size_t cap)
{
    static const char bytes[] = "{}[]\",:\\ \n0123456789-+.eEtfnu\x00\x1f\x7f\x80\xc0\xe2\xed\xf4\xff";
    size_t at = *n > 0 ? below(rng, (uint32_t)*n) : 0;
    char c = bytes[below(rng, sizeof bytes - 1)];
    switch (below(rng, 6)) {
    case 0:
        if (*n > 0)
            text[at] = c;
        break;
    case 1:
        if (*n > 0) {
            memmove(text + at, text + at + 1, *n - at - 1);
            --*n;
        }
        break;
    case 2:
        if (*n < cap) {
            memmove(text + at + 1, text + at, *n - at);
            text[at] = c;
            ++*n;
        }
        break;
    case 3:
        if (below(rng, 4) == 0)
            *n = at;
        break;
    case 4:
        if (*n > 0)
            text[at] = (char)(text[at] ^ 1 << below(rng, 8));
        break;
    default: {
        size_t from = *n > 0 ? below(rng, (uint32_t)*n) : 0, k = 1 + below(rng, 8);
        if (from + k <= *n && *n + k <= cap) {
            char piece[8];
            memcpy(piece, text + from, k);
            memmove(text + at + k, text + at, *n - at);
            memcpy(text + at, piece, k);
            *n += k;
        }
    }
    }
}

static size_t each_line(const char *path, size_t stride, line_fn fn, void *arg)
{
    enum { CHUNK = 1 << 22 };
    char *buf = malloc(CHUNK);
    gzFile f = gzopen(path, "rb"); /* reads plain files too */
    size_t lines = 0, n = 0;
    ck_assert(buf != NULL && f != NULL);
    for (;;) {
        int got = gzread(f, buf + n, (unsigned)(CHUNK - n));
        ck_assert_int_ge(got, 0);
        n += (size_t)got;
        char *p = buf, *end = buf + n, *nl;
        while ((nl = memchr(p, '\n', (size_t)(end - p))) != NULL) {
            if (lines++ % stride == 0)
                fn(arg, path, p, (size_t)(nl - p));
            p = nl + 1;
        }
        n = (size_t)(end - p);
        memmove(buf, p, n);
        if (got == 0)
            break;
        ck_assert_uint_lt(n, CHUNK);
    }
    gzclose(f);
    free(buf);
    return lines;
}

size_t each_log_line(const char *part, size_t stride, line_fn fn, void *arg)
{
    const char *shared = getenv("TCLD_SHARED");
    char data[4096], own[] = "tests/data";
    snprintf(data, sizeof data, "%s/data", shared != NULL ? shared : "../shared");
    char *roots[] = {data, own, NULL};
    FTS *fts = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    FTSENT *ent;
    size_t lines = 0;
    ck_assert_ptr_nonnull(fts);
    while ((ent = fts_read(fts)) != NULL) {
        if (ent->fts_info != FTS_F || strstr(ent->fts_path, part) == NULL)
            continue;
        const char *name = ent->fts_name;
        size_t k = ent->fts_namelen;
        if ((k > 5 && strcmp(name + k - 5, ".json") == 0) || (k > 8 && strcmp(name + k - 8, ".json.gz") == 0))
            lines += each_line(ent->fts_path, stride, fn, arg);
    }
    fts_close(fts);
    return lines;
}
