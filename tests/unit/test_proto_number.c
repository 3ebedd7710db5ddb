/* Decimal conversion, compared with libc over random doubles, boundary cases and another locale's decimal point. */
#include "proto/number.h"
#include "tests/unit/proto_lines.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void formats_like_printf(double v, int digits)
{
    char got[TP_NUM_TEXT + 1], want[64];
    size_t n = tp_num_format(got, v, digits, digits);
    ck_assert_uint_le(n, TP_NUM_TEXT);
    got[n] = '\0';
    snprintf(want, sizeof want, "%.*g", digits, v);
    if (strcmp(got, want) != 0)
        ck_abort_msg("%a with %d digits: got %s, want %s", v, digits, got, want);
}

static double random_double(uint64_t *rng, uint32_t form)
{
    uint64_t bits = (uint64_t)next_random(rng) << 32 | next_random(rng);
    double v;
    switch (form % 5) {
    case 0: /* any bit pattern */
        memcpy(&v, &bits, sizeof v);
        return isfinite(v) ? v : 0;
    case 1: /* times and scores */
        return ldexp((double)(bits >> 11), -53 - (int)below(rng, 40));
    case 2: /* few decimal digits: many exact ties */
        return (double)below(rng, 2000001) / 16;
    case 3:
        return (double)(bits >> below(rng, 64));
    default:
        return (double)below(rng, 10000000) * pow(10, (int)below(rng, 30) - 15);
    }
}

START_TEST(formats_random_doubles_as_printf_does)
{
    static const int digits[] = {6, 10, 1, 17, 9, 15};
    uint64_t rng = 20240229;
    for (uint32_t i = 0; i < 300000; i++) {
        double v = random_double(&rng, i);
        formats_like_printf(v, digits[i % 6]);
        formats_like_printf(-v, 6);
    }
}
END_TEST

START_TEST(formats_boundaries_as_printf_does)
{
    static const double v[] = {0.0,
                               -0.0,
                               1,
                               9.999995,
                               9.9999949,
                               0.00099999951,
                               999999.5,
                               1e10,
                               1e9,
                               20,
                               1e-4,
                               9.99999e-5,
                               1e-5,
                               2.5,
                               0.5,
                               1.5,
                               100000,
                               1000000,
                               123456.5,
                               1e22,
                               1e23,
                               DBL_MAX,
                               DBL_MIN,
                               4.94e-324,
                               1e15,
                               1e16,
                               9007199254740994,
                               1e17,
                               123456789012345678.0,
                               1e-300,
                               1e300,
                               0.1,
                               1e-6,
                               1 - 1e-6,
                               1.0 / 3,
                               2147483647};
    for (size_t i = 0; i < sizeof v / sizeof v[0]; i++)
        for (int d = 1; d <= 17; d++)
            formats_like_printf(v[i], d);
}
END_TEST

START_TEST(fixed_form_may_reach_beyond_the_digits)
{
    char out[TP_NUM_TEXT];
    ck_assert_uint_eq(tp_num_format(out, 1e15, 1, 16), 16);
    ck_assert(memcmp(out, "1000000000000000", 16) == 0);
    ck_assert_uint_eq(tp_num_format(out, 1e16, 1, 16), 5);
    ck_assert(memcmp(out, "1e+16", 5) == 0);
}
END_TEST

static void reads_like_strtod(const char *text)
{
    double got = -1, want = strtod(text, NULL);
    int rc = tp_num_parse(text, strlen(text), &got);
    if (isinf(want))
        ck_assert_msg(rc == -1, "%s must be out of range", text);
    else if (rc != 0 || memcmp(&got, &want, sizeof got) != 0)
        ck_abort_msg("%s: got %.17g, want %.17g", text, got, want);
}

START_TEST(reads_random_numbers_as_strtod_does)
{
    uint64_t rng = 77;
    char text[128];
    for (uint32_t i = 0; i < 200000; i++) {
        double v = random_double(&rng, i);
        static const char *const forms[] = {"%.17g", "%.6g", "%.3f", "%.25e", "%.0f"};
        if (fabs(v) > 1e60 && i % 5 >= 2)
            continue;
        snprintf(text, sizeof text, forms[i % 5], v);
        reads_like_strtod(text);
    }
}
END_TEST

START_TEST(reads_boundaries_as_strtod_does)
{
    static const char *const text[] = {"0",
                                       "-0",
                                       "0.0e5",
                                       "0e999999999999",
                                       "1e22",
                                       "1e23",
                                       "9007199254740992",
                                       "9007199254740993",
                                       "9007199254740993.00000000000000000000001",
                                       "1.7976931348623157e308",
                                       "1.7976931348623159e308",
                                       "1e309",
                                       "-1e400",
                                       "1e-400",
                                       "4.9e-324",
                                       "2.4703282292062327208e-324",
                                       "2.2250738585072011e-308",
                                       "1e-99999999999999999999",
                                       "1e99999999999999999999",
                                       "0.000000000000000000000000000000000000000001",
                                       "123456789012345678901234567890",
                                       "1234567890123456789e-22",
                                       "1E+2",
                                       "1e-0"};
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++)
        reads_like_strtod(text[i]);
}
END_TEST

START_TEST(a_number_longer_than_the_limit_is_not_converted)
{
    char text[TP_NUM_LEXEME + 2];
    double v = 3;
    memset(text, '1', sizeof text);
    ck_assert_int_eq(tp_num_parse(text, TP_NUM_LEXEME + 1, &v), -1);
    ck_assert(v == 3);
    text[1] = '.';
    ck_assert_int_eq(tp_num_parse(text, TP_NUM_LEXEME, &v), 0);
    ck_assert(fabs(v - 10.0 / 9) < 1);
}
END_TEST

START_TEST(a_locale_with_a_decimal_comma_changes_nothing)
{
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE.utf8"};
    char out[TP_NUM_TEXT];
    double v = 0;
    bool set = false;
    for (size_t i = 0; i < 3 && !set; i++)
        set = setlocale(LC_NUMERIC, names[i]) != NULL;
    if (!set)
        printf("skipped: no locale with a decimal comma is installed\n");
    ck_assert_int_eq(tp_num_parse("1.2345678901234567890123e-30", 28, &v), 0);
    ck_assert(v > 1.2e-30 && v < 1.3e-30);
    ck_assert_uint_eq(tp_num_format(out, 1.5e-200, 6, 6), 8);
    ck_assert(memcmp(out, "1.5e-200", 8) == 0);
}
END_TEST

int main(void)
{
    return RUN("proto/number", formats_random_doubles_as_printf_does, formats_boundaries_as_printf_does,
               fixed_form_may_reach_beyond_the_digits, reads_random_numbers_as_strtod_does,
               reads_boundaries_as_strtod_does, a_number_longer_than_the_limit_is_not_converted,
               a_locale_with_a_decimal_comma_changes_nothing);
}
