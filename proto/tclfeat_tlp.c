/* TLP's features of a record (Zhai et al., ASPLOS'23), as zhaiyi000/tlp scripts/tlp_make_dataset.py makes them: per
 * step an 11-wide one-hot of the kind, then the operands from left to right, lists in place, strings as small numbers,
 * all unscaled; cropped to `width` values and `steps` steps. Sequences are ragged: the padding rows are not made.
 *
 * Where the published encoders disagree (the Python one raises, the C++ one drops the one-hot and so shifts the row):
 * a kind outside the platform's 11 has an all-zero one-hot, an unknown string is 0, and nothing moves. Pure functions.
 */
#include "proto/tclfeat_priv.h"

#include <zlib.h>

enum { ONE_HOT = 11, NO_KIND = -1, K_SLOT = 0, K_OPERANDS };

struct word {
    const char *s;
    int value;
};

struct platform {
    int steps, width;
    int slot[TP_STEP_KINDS]; /* slot + 1, 0 = no slot */
    struct word pragma[6];
    struct word cache_write[4];
    struct word cache_read[2];
};

#define SCOPES                                                                                                         \
    {                                                                                                                  \
        {"local", 1}, {"shared", 2},                                                                                   \
        {                                                                                                              \
            "global", 3                                                                                                \
        }                                                                                                              \
    }

static const struct platform cpu = {
    .steps = 25,
    .width = 22,
    .slot = {[TP_STEP_CI] = 1,
             [TP_STEP_RE] = 2,
             [TP_STEP_AN] = 3,
             [TP_STEP_RF] = 4,
             [TP_STEP_CHW] = 5,
             [TP_STEP_SP] = 6,
             [TP_STEP_CR] = 7,
             [TP_STEP_CA] = 8,
             [TP_STEP_FU] = 9,
             [TP_STEP_FSP] = 10,
             [TP_STEP_PR] = 11},
    .pragma = {{"auto_unroll_max_step$16", 1},
               {"auto_unroll_max_step$0", 2},
               {"auto_unroll_max_step$512", 3},
               {"auto_unroll_max_step$64", 4}},
    .cache_write = SCOPES,
    .cache_read = {{"shared", 1}},
};

static const struct platform gpu = {
    .steps = 40,
    .width = 20,
    .slot = {[TP_STEP_AN] = 1,
             [TP_STEP_CHR] = 2,
             [TP_STEP_CHW] = 3,
             [TP_STEP_CI] = 4,
             [TP_STEP_CA] = 5,
             [TP_STEP_FFSP] = 6,
             [TP_STEP_SP] = 7,
             [TP_STEP_FU] = 8,
             [TP_STEP_RE] = 9,
             [TP_STEP_PR] = 10,
             [TP_STEP_FSP] = 11},
    .pragma = {{"auto_unroll_max_step$0", 1},
               {"auto_unroll_max_step$16", 2},
               {"auto_unroll_max_step$64", 3},
               {"auto_unroll_max_step$1024", 4},
               {"auto_unroll_max_step$512", 5}},
    .cache_write = SCOPES,
    .cache_read = {{"shared", 1}},
};

static const struct platform *platform_of(enum tclfeat_set s)
{
    return s == TCLFEAT_TLP_GPU_1 ? &gpu : &cpu;
}

static int32_t look_up(const struct word *w, struct tp_str s)
{
    for (; w->s; w++)
        if (strlen(w->s) == s.n && memcmp(w->s, s.s, s.n) == 0)
            return w->value;
    return 0;
}

static int32_t string_value(const struct platform *p, const struct tp_step *s)
{
    switch (s->kind) {
    case TP_STEP_PR:
        return look_up(p->pragma, s->str);
    case TP_STEP_CHW:
        return look_up(p->cache_write, s->str);
    case TP_STEP_CHR:
        return look_up(p->cache_read, s->str);
    default:
        return 0;
    }
}

int tlp_encode(enum tclfeat_set set, const struct tp_record *r, struct tclfeat_key *keys)
{
    const struct platform *p = platform_of(set);
    int rows = r->n_steps < (uint32_t)p->steps ? (int)r->n_steps : p->steps, room = p->width - ONE_HOT;

    for (int t = 0; t < rows; t++) {
        const struct tp_step *s = &r->steps[t];
        int32_t *k = keys[t].k;
        int n = 0, op = 0;

        memset(k, 0, sizeof keys[t]);
        k[K_SLOT] = p->slot[s->kind] - 1;
        for (const char *g = tp_step_grammar(s->kind); *g; g++) {
            if (*g == 'l') {
                for (int i = 0; i < s->n_list && n < room; i++)
                    k[K_OPERANDS + n++] = s->list[i];
            } else {
                int32_t v = *g == 'i' ? s->op[op++] : string_value(p, s);

                if (n < room)
                    k[K_OPERANDS + n++] = v;
            }
        }
    }
    if (rows == 0) { /* the naive schedule: one row of padding, so that there is something to sum over */
        memset(&keys[0], 0, sizeof keys[0]);
        keys[0].k[K_SLOT] = NO_KIND;
        rows = 1;
    }
    return rows;
}

void tlp_row(enum tclfeat_set set, const struct tclfeat_key *key, float *row)
{
    int width = platform_of(set)->width;

    memset(row, 0, (size_t)width * sizeof *row);
    if (key->k[K_SLOT] >= 0)
        row[key->k[K_SLOT]] = 1.0f;
    for (int i = ONE_HOT; i < width; i++)
        row[i] = (float)key->k[K_OPERANDS + i - ONE_HOT];
}

int tlp_cols(enum tclfeat_set set)
{
    return platform_of(set)->width;
}

static uint32_t crc_int(uint32_t crc, int v)
{
    unsigned char b[2] = {(unsigned char)v, (unsigned char)(v >> 8)};

    return (uint32_t)crc32(crc, b, sizeof b);
}

static uint32_t crc_words(uint32_t crc, const struct word *w)
{
    for (; w->s; w++) {
        crc = (uint32_t)crc32(crc, (const Bytef *)w->s, (uInt)strlen(w->s) + 1);
        crc = crc_int(crc, w->value);
    }
    return crc_int(crc, 0);
}

uint32_t tlp_crc(enum tclfeat_set set, uint32_t crc)
{
    const struct platform *p = platform_of(set);

    crc = crc_int(crc, p->steps);
    crc = crc_int(crc, p->width);
    for (int i = 0; i < TP_STEP_KINDS; i++)
        if (p->slot[i]) {
            const char *tag = tp_step_tag((enum tp_step_kind)i), *grammar = tp_step_grammar((enum tp_step_kind)i);

            crc = (uint32_t)crc32(crc, (const Bytef *)tag, (uInt)strlen(tag) + 1);
            crc = (uint32_t)crc32(crc, (const Bytef *)grammar, (uInt)strlen(grammar) + 1);
            crc = crc_int(crc, p->slot[i]);
        }
    crc = crc_words(crc, p->pragma);
    crc = crc_words(crc, p->cache_write);
    return crc_words(crc, p->cache_read);
}
