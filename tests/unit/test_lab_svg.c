/* Plots are well-formed XML, keep what was given and refuse what cannot be drawn. */
#include "lab/svg.h"

#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/lab-svg-XXXXXX";

static char *slurp(void)
{
    static char text[1 << 16];
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    fclose(f);
    return text;
}

/* Tags close in order, attributes are quoted, no stray < or &. Enough XML for what the writer makes. */
static bool well_formed(const char *s)
{
    char open[32][16];
    int depth = 0;
    while (*s) {
        if (*s == '&') {
            if (strncmp(s, "&lt;", 4) != 0 && strncmp(s, "&gt;", 4) != 0 && strncmp(s, "&amp;", 5) != 0)
                return false;
        } else if (*s == '<') {
            bool closing = s[1] == '/', quoted = false;
            size_t n = strspn(s + 1 + closing, "abcdefghijklmnopqrstuvwxyz");
            char name[16] = "";
            if (n == 0 || n >= sizeof name)
                return false;
            memcpy(name, s + 1 + closing, n);
            for (s++; *s && (quoted || *s != '>'); s++) {
                quoted ^= *s == '"';
                if (*s == '<')
                    return false;
            }
            if (*s != '>')
                return false;
            if (closing && (depth == 0 || strcmp(open[--depth], name) != 0))
                return false;
            if (!closing && s[-1] != '/')
                memcpy(open[depth++], name, sizeof name);
            if (depth == 32)
                return false;
        }
        s++;
    }
    return depth == 0;
}

static size_t occurrences(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, what)) != NULL; p += strlen(what))
        n++;
    return n;
}

static void setup(void)
{
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

static void teardown(void)
{
    unlink(path);
    memcpy(path + sizeof path - 7, "XXXXXX", 6);
}

START_TEST(lines_are_well_formed_and_named)
{
    const double x[] = {1, 10, 100}, a[] = {0.5, 0.7, 0.9}, b[] = {0.4, NAN, 0.6}, lo[] = {0.3, 0.5, 0.8},
                 hi[] = {0.6, 0.8, 1};
    const struct tl_svg_series s[] = {{.name = "a < b & c", .x = x, .y = a, .lo = lo, .hi = hi, .n = 3},
                                      {.name = "other", .x = x, .y = b, .n = 3}};
    const struct tl_svg_labels l = {.title = "Title", .x = "time", .y = "share", .log_x = true, .mark = 0.95};
    ck_assert_int_eq(tl_svg_lines(path, &l, s, 2, NULL), 0);
    const char *text = slurp();
    ck_assert(well_formed(text));
    ck_assert_ptr_nonnull(strstr(text, ">a &lt; b &amp; c<"));
    ck_assert_ptr_nonnull(strstr(text, ">time<"));
    ck_assert_ptr_nonnull(strstr(text, ">share<"));
    ck_assert_ptr_nonnull(strstr(text, "prefers-color-scheme:dark"));
    ck_assert_uint_eq(occurrences(text, "class=\"k\""), 1);
    ck_assert_ptr_null(strstr(text, "nan"));
    ck_assert_ptr_null(strstr(text, "inf"));
}
END_TEST

START_TEST(dots_show_every_value_and_its_interval)
{
    const struct tl_svg_dot d[] = {
        {"first", 0.7, 0.6, 0.8}, {"no interval", 0.5, NAN, NAN}, {"nothing", NAN, NAN, NAN}};
    const struct tl_svg_labels l = {.title = "Title", .x = "pairwise", .mark = NAN};
    ck_assert_int_eq(tl_svg_dots(path, &l, d, 3, NULL), 0);
    const char *text = slurp();
    ck_assert(well_formed(text));
    ck_assert_uint_eq(occurrences(text, "<circle"), 2);
    ck_assert_uint_eq(occurrences(text, "<path"), 1);
    ck_assert_ptr_nonnull(strstr(text, "<title>0.7</title>"));
    ck_assert_ptr_nonnull(strstr(text, ">nothing<"));
    ck_assert_ptr_null(strstr(text, "nan"));
}
END_TEST

START_TEST(one_point_is_drawn_in_the_middle)
{
    const double x = 3, y = 0;
    const struct tl_svg_series s = {.name = "one", .x = &x, .y = &y, .n = 1};
    const struct tl_svg_labels l = {.title = "", .x = "", .y = "", .mark = NAN};
    ck_assert_int_eq(tl_svg_lines(path, &l, &s, 1, NULL), 0);
    ck_assert(well_formed(slurp()));
}
END_TEST

START_TEST(nothing_to_draw_is_refused)
{
    const double x = 1, y = NAN, zero = 0;
    const struct tl_svg_series s = {.name = "one", .x = &x, .y = &y, .n = 1};
    const struct tl_svg_series at_zero = {.name = "log of 0", .x = &zero, .y = &x, .n = 1};
    const struct tl_svg_series many[TL_SVG_SERIES + 1] = {{.name = "a", .x = &x, .y = &x, .n = 1}};
    const struct tl_svg_labels l = {.title = "", .x = "", .y = "", .mark = NAN, .log_x = true};
    ck_assert_int_eq(tl_svg_lines(path, &l, &s, 1, NULL), -TP_E_UNUSABLE);
    ck_assert_int_eq(tl_svg_lines(path, &l, &at_zero, 1, NULL), -TP_E_UNUSABLE);
    ck_assert_int_eq(tl_svg_lines(path, &l, many, TL_SVG_SERIES + 1, NULL), -TP_E_UNUSABLE);
    ck_assert_int_eq(tl_svg_dots(path, &l, NULL, 0, NULL), -TP_E_UNUSABLE);
}
END_TEST

START_TEST(a_folder_that_is_not_there_is_an_error)
{
    const struct tl_svg_dot d = {"a", 1, NAN, NAN};
    const struct tl_svg_labels l = {.title = "", .x = "", .mark = NAN};
    ck_assert_int_eq(tl_svg_dots("/nowhere/at/all.svg", &l, &d, 1, NULL), -TP_E_IO);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("lab/svg");
    TCase *c = tcase_create("all");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, lines_are_well_formed_and_named);
    tcase_add_test(c, dots_show_every_value_and_its_interval);
    tcase_add_test(c, one_point_is_drawn_in_the_middle);
    tcase_add_test(c, nothing_to_draw_is_refused);
    tcase_add_test(c, a_folder_that_is_not_there_is_an_error);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
