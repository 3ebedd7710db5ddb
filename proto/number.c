/* Decimal text <-> double.
 *
 * Reading: a mantissa below 2^53 and a power of ten up to 22 are both exact doubles, so one multiplication or division
 * rounds correctly (Clinger 1990). Printing: mantissa * 10^n fits 128 bits for n <= 22, so the digits and what is
 * left of them are exact integers and half-even rounding needs no guess. What is left goes to libc in a form that has
 * no decimal point, because that is where locales differ. */
#include "proto/number.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double pow10_exact[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                     1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
static const uint64_t pow10_u64[] = {1ULL,
                                     10ULL,
                                     100ULL,
                                     1000ULL,
                                     10000ULL,
                                     100000ULL,
                                     1000000ULL,
                                     10000000ULL,
                                     100000000ULL,
                                     1000000000ULL,
                                     10000000000ULL,
                                     100000000000ULL,
                                     1000000000000ULL,
                                     10000000000000ULL,
                                     100000000000000ULL,
                                     1000000000000000ULL,
                                     10000000000000000ULL,
                                     100000000000000000ULL,
                                     1000000000000000000ULL,
                                     10000000000000000000ULL};

enum { MAX_EXACT_POW10 = 22, MAX_U64_DIGITS = 19, EXPONENT_CLAMP = 100000 };

static int parse_slow(const char *s, size_t n, long exp10, double *out)
{
    char text[TP_NUM_LEXEME + 16];
    size_t k = 0;
    if (n > TP_NUM_LEXEME)
        return -1;
    for (size_t i = 0; i < n && s[i] != 'e' && s[i] != 'E'; i++)
        if (s[i] != '.')
            text[k++] = s[i];
    snprintf(text + k, sizeof text - k, "e%ld", exp10);
    double v = strtod(text, NULL);
    if (isinf(v))
        return -1;
    *out = v;
    return 0;
}

/* A run of digits: adds them to *mant as long as they fit, counts the significant ones. */
static inline const char *digit_run(const char *p, const char *end, uint64_t *mant, int *digits)
{
    for (unsigned d; p < end && (d = (unsigned)(unsigned char)*p - '0') <= 9; p++) {
        if (*digits < MAX_U64_DIGITS)
            *mant = *mant * 10 + d;
        *digits += *digits > 0 || d != 0;
    }
    return p;
}

int tp_num_parse(const char *s, size_t n, double *out)
{
    const char *p = s, *end = s + n;
    bool neg = p < end && *p == '-';
    uint64_t mant = 0;
    int digits = 0; /* more than MAX_U64_DIGITS means that mant is not exact */
    long exp10 = 0;
    p = digit_run(p + neg, end, &mant, &digits);
    if (p < end && *p == '.') {
        const char *fraction = p + 1;
        p = digit_run(fraction, end, &mant, &digits);
        exp10 = fraction - p;
    }
    if (p < end) { /* 'e' */
        p++;
        bool eneg = p < end && *p == '-';
        p += p < end && (*p == '-' || *p == '+');
        long x = 0;
        for (; p < end; p++)
            if (x < EXPONENT_CLAMP)
                x = x * 10 + (*p - '0');
        exp10 += eneg ? -x : x;
    }
    if (digits == 0) {
        *out = neg ? -0.0 : 0.0;
        return 0;
    }
    if (digits > MAX_U64_DIGITS || mant > (1ULL << 53) || exp10 < -MAX_EXACT_POW10 || exp10 > MAX_EXACT_POW10)
        return parse_slow(s, n, exp10, out);
    double v = (double)mant;
    v = exp10 < 0 ? v / pow10_exact[-exp10] : v * pow10_exact[exp10];
    *out = neg ? -v : v;
    return 0;
}

/* v > 0 as `digits` decimal digits q (10^(digits-1) <= q < 10^digits) and its decimal exponent. False: out of this
 * path's range. */
static bool decimal_exact(double v, int digits, uint64_t *q_out, int *e10_out)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    int biased = (int)(bits >> 52);
    if (biased == 0)
        return false; /* subnormal */
    uint64_t m = (bits & ((1ULL << 52) - 1)) | (1ULL << 52);
    int e2 = biased - 1075; /* v = m * 2^e2 */
    /* floor(log10(2^k)) is floor(log10 v) or one less; 78913 / 2^18 = log10(2) for every k of a double */
    int e10 = (int)(((int64_t)(e2 + 52) * 78913) >> 18);
    for (int attempt = 0; attempt < 2; attempt++, e10++) {
        int n = digits - 1 - e10;
        unsigned __int128 num, q, rest, half;
        if (n >= 0) {
            if (n > MAX_EXACT_POW10 || e2 > 0 || e2 < -126)
                return false;
            num = (unsigned __int128)m * pow10_u64[n > 19 ? 19 : n] * pow10_u64[n > 19 ? n - 19 : 0];
            q = num >> -e2;
            rest = num & (((unsigned __int128)1 << -e2) - 1);
            half = e2 == 0 ? 1 : (unsigned __int128)1 << (-e2 - 1);
            if (e2 == 0)
                rest = 0;
        } else {
            if (v >= 9e18 || v != floor(v) || -n > 19)
                return false;
            uint64_t u = (uint64_t)v, div = pow10_u64[-n];
            q = u / div;
            rest = u % div;
            half = div / 2;
        }
        if (q >= pow10_u64[digits])
            continue;
        q += rest > half || (rest == half && (q & 1));
        if (q == pow10_u64[digits]) {
            q /= 10;
            e10++;
        }
        *q_out = (uint64_t)q;
        *e10_out = e10;
        return true;
    }
    return false;
}

static void decimal_libc(double v, int digits, uint64_t *q_out, int *e10_out)
{
    char text[64];
    snprintf(text, sizeof text, "%.*e", digits - 1, v);
    uint64_t q = 0;
    const char *p = text;
    for (; *p != '\0' && *p != 'e'; p++)
        if (*p >= '0' && *p <= '9')
            q = q * 10 + (uint64_t)(*p - '0');
    *q_out = q;
    *e10_out = *p == 'e' ? (int)strtol(p + 1, NULL, 10) : 0;
}

size_t tp_num_format(char out[TP_NUM_TEXT], double v, int digits, int fixed)
{
    char *w = out;
    if (signbit(v)) {
        *w++ = '-';
        v = -v;
    }
    if (v == 0) {
        *w++ = '0';
        return (size_t)(w - out);
    }
    uint64_t q = 0;
    int e10 = 0;
    if (!decimal_exact(v, digits, &q, &e10))
        decimal_libc(v, digits, &q, &e10);
    char d[20] = {0};
    int nd = digits;
    for (int i = digits; i-- > 0; q /= 10)
        d[i] = (char)('0' + q % 10);
    while (nd > 1 && d[nd - 1] == '0')
        nd--;

    if (e10 < -4 || e10 >= fixed) {
        *w++ = d[0];
        if (nd > 1) {
            *w++ = '.';
            memcpy(w, d + 1, (size_t)nd - 1);
            w += nd - 1;
        }
        *w++ = 'e';
        *w++ = e10 < 0 ? '-' : '+';
        int x = e10 < 0 ? -e10 : e10;
        if (x >= 100)
            *w++ = (char)('0' + x / 100);
        *w++ = (char)('0' + x / 10 % 10);
        *w++ = (char)('0' + x % 10);
    } else if (e10 < 0) {
        *w++ = '0';
        *w++ = '.';
        for (int i = -1; i > e10; i--)
            *w++ = '0';
        memcpy(w, d, (size_t)nd);
        w += nd;
    } else {
        for (int i = 0; i < nd || i <= e10; i++) {
            if (i == e10 + 1)
                *w++ = '.';
            *w++ = i < nd ? d[i] : '0';
        }
    }
    return (size_t)(w - out);
}

size_t tp_num_shortest(char out[TP_NUM_TEXT], double v, int fixed)
{
    size_t n = 0;
    for (int digits = 1; digits <= 17; digits++) {
        double back = 0;
        n = tp_num_format(out, v, digits, fixed);
        if (tp_num_parse(out, n, &back) == 0 && back == v)
            break;
    }
    return n;
}
