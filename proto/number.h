/* Decimal text <-> double, exact and independent of the locale. Private to proto/.
 *
 * Both directions are correctly rounded (as strtod and printf("%.*g") in the C locale); the common cases never reach
 * libc. Pure functions, any thread. */
#ifndef TP_NUMBER_H
#define TP_NUMBER_H

#include <stddef.h>

enum {
    TP_NUM_LEXEME = 512, /* a longer number is not converted */
    TP_NUM_TEXT = 32     /* room that tp_num_format() needs */
};

/* The value of a number that already matches the JSON grammar.  Returns 0, or -1 when it does not fit a double
 * (overflow) or is longer than TP_NUM_LEXEME. Underflow gives 0 or a subnormal. */
int tp_num_parse(const char *s, size_t n, double *out);

/* A finite v with `digits` significant digits, 1..17, trailing zeros dropped; from 10^fixed on (and below 1e-4) with an
 * exponent. fixed = digits prints what printf("%.{digits}g") does. Not NUL-terminated; returns the length. */
size_t tp_num_format(char out[TP_NUM_TEXT], double v, int digits, int fixed);
/* The same with the fewest digits that tp_num_parse() reads back as v. */
size_t tp_num_shortest(char out[TP_NUM_TEXT], double v, int fixed);

#endif
