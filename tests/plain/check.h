/* As much of Check's interface as tests/unit/test_model_kern.c uses, for machines that Check is not installed for
 * (make check-neon): a test runs in the process, and the first failure ends it. */
#ifndef PLAIN_CHECK_H
#define PLAIN_CHECK_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef const char Suite;
typedef struct TCase {
    int tests;
} TCase;
typedef TCase SRunner;
static TCase plain_case;

#define START_TEST(name)                                                                                               \
    static void name(int _i)                                                                                           \
    {
#define END_TEST }

#define ck_assert_msg(ok, ...)                                                                                         \
    ((ok) ? (void)0 : (printf("%s:%d: %s\n", __FILE__, __LINE__, #ok), printf(__VA_ARGS__), puts(""), exit(1)))
#define ck_assert(ok)             ck_assert_msg(ok, " ")
#define ck_assert_ptr_nonnull(p)  ck_assert((p) != NULL)
#define ck_assert_mem_eq(a, b, n) ck_assert(memcmp(a, b, n) == 0)
#define ck_assert_double_le(a, b) ck_assert_msg((a) <= (b), "%.9g, %.9g", (double)(a), (double)(b))
#define ck_assert_double_eq_tol(a, b, tolerance)                                                                       \
    ck_assert_msg(fabs((a) - (b)) <= (tolerance), "%.9g, %.9g, %.3g", (double)(a), (double)(b), (double)(tolerance))

#define tcase_add_loop_test(c, name, from, to)                                                                         \
    for (int i_ = (from); i_ < (to); i_++, (c)->tests++)                                                               \
    name(i_)
#define suite_create(name)       (name)
#define tcase_create(name)       (&plain_case)
#define tcase_set_timeout(c, s)  ((void)(c))
#define suite_add_tcase(s, c)    printf("%s: %d tests passed\n", s, (c)->tests)
#define srunner_create(s)        (&plain_case)
#define srunner_run_all(r, how)  ((void)(r))
#define srunner_ntests_failed(r) ((void)(r), 0)
#define srunner_free(r)          ((void)(r))

#endif
