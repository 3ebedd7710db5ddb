/* Steps <-> compact bytes: what the store keeps of a program, and what programs are identified by.
 *
 * Layout: one format byte, the number of steps, then per step its kind byte and its operands in the order of the
 * grammar. Integers are LEB128 varints of the two's complement as uint32 (so -1 takes five bytes); a list is its length
 * and its items; a string is a number below SHORTHANDS, or its length + SHORTHANDS and its bytes. Invariant: one
 * program has exactly one packed form; tp_steps_unpack() refuses every other one, and whatever the reader of JSON would
 * refuse. Pure but for the buffers given. */
#include "proto/record_mem.h"
#include "proto/utf8.h"

#include <string.h>

enum { FORMAT = 1, SHORTHANDS = 16 };

/* Never reorder: the numbers are on disk. Free places stay NULL. */
static const char *const shorthand[SHORTHANDS] = {
    "local",
    "shared",
    "global",
    "debug_skip_region",
    "auto_unroll_max_step$0",
    "auto_unroll_max_step$16",
    "auto_unroll_max_step$64",
    "auto_unroll_max_step$512",
    "auto_unroll_max_step$1024",
};

static int find_shorthand(const char *s, size_t n)
{
    for (int i = 0; i < SHORTHANDS; i++)
        if (shorthand[i] != NULL && strlen(shorthand[i]) == n && memcmp(shorthand[i], s, n) == 0)
            return i;
    return -1;
}

static void put_uint(struct tp_buf *out, uint64_t v)
{
    char *w = tp_buf_grow(out, 10);
    if (w == NULL)
        return;
    for (; v >= 0x80; v >>= 7, out->n++)
        *w++ = (char)(v | 0x80);
    *w = (char)v;
    out->n++;
}

static void put_str(struct tp_buf *out, const struct tp_str *s)
{
    int i = find_shorthand(s->s, s->n);
    put_uint(out, i >= 0 ? (uint64_t)i : (uint64_t)s->n + SHORTHANDS);
    if (i < 0)
        tp_buf_put(out, s->s, s->n);
}

void tp_steps_pack(const struct tp_step *steps, uint32_t n, struct tp_buf *out)
{
    tp_buf_putc(out, FORMAT);
    put_uint(out, n);
    for (uint32_t k = 0; k < n; k++) {
        const struct tp_step *s = &steps[k];
        int n_op = 0;
        tp_buf_putc(out, (char)s->kind);
        for (const char *g = tp_step_grammar(s->kind); *g != '\0'; g++) {
            if (*g == 'i') {
                put_uint(out, (uint32_t)s->op[n_op++]);
            } else if (*g == 's') {
                put_str(out, &s->str);
            } else {
                put_uint(out, s->n_list);
                for (int i = 0; i < s->n_list; i++)
                    put_uint(out, (uint32_t)s->list[i]);
            }
        }
    }
}

struct unpacker {
    const uint8_t *p, *end;
    bool bad;
};

/* A minimal varint of at most `max`; sets bad otherwise. */
static uint32_t get_uint(struct unpacker *u, uint32_t max)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 35 && u->p < u->end; shift += 7) {
        uint8_t byte = *u->p++;
        v |= (uint64_t)(byte & 0x7F) << shift;
        if (byte & 0x80)
            continue;
        if (v > max || (byte == 0 && shift > 0))
            break;
        return (uint32_t)v;
    }
    u->bad = true;
    return 0;
}

static bool is_text(const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)s[i];
        size_t len = c < 0x80 ? 1 : tp_utf8_len(s + i, n - i);
        if (len == 0 || (c < 0x20 && c != '\t' && c != '\r' && c != '\n'))
            return false;
        i += len;
    }
    return true;
}

static int get_str(struct unpacker *u, struct tp_record_mem *m, struct tp_step *s, struct tp_err *e)
{
    uint32_t head = get_uint(u, TP_MAX_LINE + SHORTHANDS);
    const char *from;
    size_t n;
    if (u->bad)
        return 0;
    if (head < SHORTHANDS) {
        from = shorthand[head];
        if (from == NULL) {
            u->bad = true;
            return 0;
        }
        n = strlen(from);
    } else {
        n = head - SHORTHANDS;
        from = (const char *)u->p;
        if (n > (size_t)(u->end - u->p) || find_shorthand(from, n) >= 0 || !is_text(from, n)) {
            u->bad = true;
            return 0;
        }
        u->p += n;
    }
    char *w = tp_buf_grow(&m->text, n + 1);
    if (w == NULL)
        return tp_fail(e, TP_E_NO_MEMORY, "out of memory for a record");
    memcpy(w, from, n);
    m->text.n += n;
    s->str = (struct tp_str){.s = w, .n = (uint32_t)n};
    return 0;
}

static int get_step(struct unpacker *u, struct tp_record_mem *m, uint32_t k, struct tp_err *e)
{
    struct tp_step *s = &m->steps[k];
    size_t first_int = m->n_ints;
    int n_op = 0, rc = tp_record_room(m, TP_MAX_LIST, e);
    if (rc != 0)
        return rc;
    memset(s, 0, sizeof *s);
    s->kind = (uint8_t)get_uint(u, TP_STEP_ALL - 1);
    for (const char *g = tp_step_grammar(s->kind); *g != '\0' && !u->bad; g++) {
        if (*g == 'i') {
            s->op[n_op++] = (int32_t)get_uint(u, UINT32_MAX);
        } else if (*g == 's') {
            rc = get_str(u, m, s, e);
            if (rc != 0)
                return rc;
        } else {
            s->n_list = (uint16_t)get_uint(u, TP_MAX_LIST);
            for (int i = 0; i < s->n_list && !u->bad; i++)
                m->ints[m->n_ints++] = (int32_t)get_uint(u, UINT32_MAX);
        }
    }
    return u->bad ? 0 : tp_step_check(m->steps, k, m->ints + first_int, e);
}

int tp_steps_unpack(struct tp_record *r, const void *p, size_t n, struct tp_err *e)
{
    struct tp_record_mem *m = tp_record_mem(r, e);
    if (m == NULL)
        return -TP_E_NO_MEMORY;
    struct unpacker u = {.p = p, .end = (const uint8_t *)p + n};
    m->n_ints = 0;
    m->text.n = 0;
    m->text.oom = false;
    uint32_t n_steps = 0;
    if (n == 0 || *u.p++ != FORMAT)
        u.bad = true;
    else
        n_steps = get_uint(&u, TP_MAX_STEPS);
    for (uint32_t k = 0; k < n_steps && !u.bad; k++) {
        int rc = get_step(&u, m, k, e);
        if (rc != 0)
            return rc;
    }
    if (u.bad || u.p != u.end)
        return tp_fail(e, TP_E_BAD_STEP, "packed steps are damaged at byte %td", u.p - (const uint8_t *)p);
    tp_steps_bind(m, n_steps);
    r->steps = m->steps;
    r->n_steps = n_steps;
    return 0;
}
