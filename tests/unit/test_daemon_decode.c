/* Content codings: what is decoded, what is refused, and that no limit can be passed however the input is cut. Inputs
 * come from zlib and libzstd. */
#include "daemon/decode.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

static struct tp_buf coded, out;
static struct tp_err e;

static void teardown(void)
{
    tp_buf_free(&coded);
    tp_buf_free(&out);
}

static void add_gzip(const void *p, size_t n)
{
    z_stream z = {0};
    ck_assert_int_eq(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    size_t room = deflateBound(&z, n);
    z.next_in = (Bytef *)(uintptr_t)p;
    z.avail_in = (uInt)n;
    z.next_out = (Bytef *)tp_buf_grow(&coded, room);
    z.avail_out = (uInt)room;
    ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    coded.n += room - z.avail_out;
    deflateEnd(&z);
}

static void add_zstd(const void *p, size_t n, int window_log)
{
    ZSTD_CCtx *c = ZSTD_createCCtx();
    size_t room = ZSTD_compressBound(n);
    ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
    ZSTD_CCtx_setParameter(c, ZSTD_c_contentSizeFlag, 0); /* as a stream: the window is declared, not the size */
    if (window_log)
        ZSTD_CCtx_setParameter(c, ZSTD_c_windowLog, window_log);
    ZSTD_inBuffer in = {p, n, 0};
    ZSTD_outBuffer to = {tp_buf_grow(&coded, room + 64), room + 64, 0};
    /* flushed first: a frame that begins and ends at once would be made for its size, with a small window */
    ck_assert(!ZSTD_isError(ZSTD_compressStream2(c, &to, &in, ZSTD_e_flush)));
    ck_assert_uint_eq(ZSTD_compressStream2(c, &to, &in, ZSTD_e_end), 0);
    coded.n += to.pos;
    ZSTD_freeCCtx(c);
}

/* Decode `coded` in pieces of `step` bytes. */
static int decode(enum td_coding c, size_t limit, size_t step)
{
    struct td_decoder *d = td_decoder_new(c, limit);
    int rc = 0;

    ck_assert_ptr_nonnull(d);
    tp_buf_free(&out);
    for (size_t at = 0; at < coded.n && rc == 0; at += step) {
        rc = td_decoder_push(d, coded.p + at, coded.n - at < step ? coded.n - at : step, &out, &e);
        ck_assert_uint_le(out.n, limit);
    }
    if (rc == 0)
        rc = td_decoder_end(d, &e);
    td_decoder_free(d);
    return rc;
}

static void out_is(const char *text)
{
    ck_assert_uint_eq(out.n, strlen(text));
    ck_assert_mem_eq(out.p, text, out.n);
}

static const enum td_coding codings[] = {TD_IDENTITY, TD_GZIP, TD_ZSTD};

static void encode(enum td_coding c, const char *text)
{
    if (c == TD_GZIP)
        add_gzip(text, strlen(text));
    else if (c == TD_ZSTD)
        add_zstd(text, strlen(text), 0);
    else
        tp_buf_puts(&coded, text);
}

START_TEST(every_coding_decodes_in_pieces_of_any_size)
{
    encode(codings[_i], "one and one and one and one are four");
    for (size_t step = 1; step <= coded.n; step++) {
        ck_assert_int_eq(decode(codings[_i], 100, step), 0);
        out_is("one and one and one and one are four");
    }
}
END_TEST

START_TEST(members_follow_each_other)
{
    encode(codings[_i], "first ");
    encode(codings[_i], "");
    encode(codings[_i], "second");
    for (size_t step = 1; step < 50; step += 7) {
        ck_assert_int_eq(decode(codings[_i], 100, step), 0);
        out_is("first second");
    }
}
END_TEST

START_TEST(the_limit_is_exact)
{
    encode(codings[_i], "0123456789");
    ck_assert_int_eq(decode(codings[_i], codings[_i] == TD_IDENTITY ? 10 : 100, 3), 0);
    /* encoded bytes count too, and ten bytes encode to more than ten: the limit is tested on a text that shrinks */
    tp_buf_free(&coded);
    char text[5001];
    memset(text, 'a', 5000);
    text[5000] = '\0';
    encode(codings[_i], text);
    ck_assert_int_eq(decode(codings[_i], 5000, 4096), 0);
    ck_assert_uint_eq(out.n, 5000);
    ck_assert_int_eq(decode(codings[_i], 4999, 4096), -TP_E_BODY_TOO_LARGE);
    ck_assert_ptr_nonnull(strstr(e.detail, "4999 bytes"));
}
END_TEST

START_TEST(a_bomb_is_refused_and_not_unpacked)
{
    size_t n = 64 << 20;
    char *zeros = calloc(1, n);
    ck_assert_ptr_nonnull(zeros);
    if (codings[_i] == TD_GZIP)
        add_gzip(zeros, n);
    else
        add_zstd(zeros, n, 0);
    free(zeros);
    ck_assert_uint_lt(coded.n, 100000);
    ck_assert_int_eq(decode(codings[_i], 1 << 20, 16384), -TP_E_BODY_TOO_LARGE);
    ck_assert_uint_le(out.cap, 4 << 20);
}
END_TEST

START_TEST(encoded_bytes_that_decode_to_nothing_are_limited_too)
{
    for (int i = 0; i < 100; i++)
        encode(codings[_i], "");
    ck_assert_int_eq(decode(codings[_i], 500, 64), -TP_E_BODY_TOO_LARGE);
}
END_TEST

START_TEST(a_body_cut_short_is_refused)
{
    encode(codings[_i], "a text of which the end is missing");
    size_t whole = coded.n;
    for (coded.n = 1; coded.n < whole; coded.n++)
        ck_assert_msg(decode(codings[_i], 100, 5) == -TP_E_BAD_ENCODING, "at %zu of %zu", coded.n, whole);
}
END_TEST

START_TEST(garbage_behind_the_end_is_refused)
{
    encode(codings[_i], "text");
    tp_buf_puts(&coded, "garbage");
    ck_assert_int_eq(decode(codings[_i], 100, 1000), -TP_E_BAD_ENCODING);
    coded.n -= 6; /* one byte of it: it might become a member */
    ck_assert_int_eq(decode(codings[_i], 100, 1000), -TP_E_BAD_ENCODING);
}
END_TEST

START_TEST(damage_is_noticed)
{
    encode(codings[_i], "a text whose checksum does not fit");
    coded.p[coded.n - (codings[_i] == TD_GZIP ? 6 : 2)] ^= 1;
    ck_assert_int_eq(decode(codings[_i], 100, 1000), -TP_E_BAD_ENCODING);
    tp_buf_free(&coded);
    tp_buf_puts(&coded, "plain text");
    ck_assert_int_eq(decode(codings[_i], 100, 1000), -TP_E_BAD_ENCODING);
}
END_TEST

START_TEST(a_window_over_8_mib_is_refused)
{
    char text[] = "text";
    add_zstd(text, 4, TD_ZSTD_WINDOW_LOG);
    ck_assert_int_eq(decode(TD_ZSTD, 100, 1000), 0);
    tp_buf_free(&coded);
    add_zstd(text, 4, TD_ZSTD_WINDOW_LOG + 1);
    ck_assert_int_eq(decode(TD_ZSTD, 100, 1000), -TP_E_BAD_ENCODING);
}
END_TEST

START_TEST(an_encoded_body_of_nothing_is_refused)
{
    ck_assert_int_eq(decode(codings[_i], 100, 1), -TP_E_BAD_ENCODING);
}
END_TEST

START_TEST(content_encoding_names_one_known_coding)
{
    ck_assert_int_eq(td_coding_parse(NULL, &e), TD_IDENTITY);
    ck_assert_int_eq(td_coding_parse("", &e), TD_IDENTITY);
    ck_assert_int_eq(td_coding_parse("identity", &e), TD_IDENTITY);
    ck_assert_int_eq(td_coding_parse(" GZip ", &e), TD_GZIP);
    ck_assert_int_eq(td_coding_parse("x-gzip", &e), TD_GZIP);
    ck_assert_int_eq(td_coding_parse("zstd", &e), TD_ZSTD);
    ck_assert_int_eq(td_coding_parse("br", &e), -TP_E_MEDIA_TYPE);
    ck_assert_int_eq(td_coding_parse("gzip, gzip", &e), -TP_E_MEDIA_TYPE);
    ck_assert_int_eq(td_coding_parse("gzip zstd", &e), -TP_E_MEDIA_TYPE);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("daemon_decode");
    TCase *c = tcase_create("all");
    tcase_add_checked_fixture(c, NULL, teardown);
    tcase_add_loop_test(c, every_coding_decodes_in_pieces_of_any_size, 0, 3);
    tcase_add_loop_test(c, members_follow_each_other, 1, 3);
    tcase_add_loop_test(c, the_limit_is_exact, 0, 3);
    tcase_add_loop_test(c, a_bomb_is_refused_and_not_unpacked, 1, 3);
    tcase_add_loop_test(c, encoded_bytes_that_decode_to_nothing_are_limited_too, 1, 3);
    tcase_add_loop_test(c, a_body_cut_short_is_refused, 1, 3);
    tcase_add_loop_test(c, garbage_behind_the_end_is_refused, 1, 3);
    tcase_add_loop_test(c, damage_is_noticed, 1, 3);
    tcase_add_test(c, a_window_over_8_mib_is_refused);
    tcase_add_loop_test(c, an_encoded_body_of_nothing_is_refused, 1, 3);
    tcase_add_test(c, content_encoding_names_one_known_coding);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
