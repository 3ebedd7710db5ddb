/* tclf-1: the task row, from the numbers of the workload key.
 *
 * A workload key is a JSON array inside a string: a function name or a DAG hash, then arguments (numbers, strings,
 * shapes as lists, or shapes flattened). Lists are flattened, so that the old flat and the new nested form of one task
 * look alike; `WIDTH` keeps what nesting told. A key that is not such an array has no arguments. Pure functions. */
#include "proto/json.h"
#include "proto/number.h"
#include "proto/tclfeat_priv.h"

enum {
    MAX_ARGS = 64,
    MAX_WIDTH = 16,

    K_KIND = 0,
    K_N_ARGS,
    K_LAYOUT,
    K_ARGS,
    K_WIDTH = K_ARGS + COUNT_OF(TASK, ARGS),
    K_TASK_END = K_WIDTH + COUNT_OF(TASK, WIDTH)
};
_Static_assert((int)K_TASK_END <= (int)TCLFEAT_KEY, "task key too long");

static const double MAX_ARG = 0x1p40;

static float number(const struct tp_json_text *t)
{
    double v;

    if (tp_num_parse(t->s, t->n, &v) != 0)
        v = t->s[0] == '-' ? -MAX_ARG : MAX_ARG;
    v = v > MAX_ARG ? MAX_ARG : v < -MAX_ARG ? -MAX_ARG : v;
    return (float)(v + 0.0); /* no negative zero: it would be another key */
}

/* false: not a non-empty JSON array. Numbers below the first item go into the key. */
static bool read_args(const struct tp_task *t, int32_t *k)
{
    struct tp_json j;
    struct tp_json_text text;
    int32_t n = 0, item = 0, width = 0; /* item 0 is the name */
    int depth = 1, event;

    tp_json_init(&j, t->workload_key.s, t->workload_key.n, TP_MAX_DEPTH);
    if (tp_json_next(&j, &text) != TP_JSON_ARRAY)
        return false;
    while (depth > 0) {
        float v = 0.0f;
        bool numeric = true;

        event = tp_json_next(&j, &text);
        switch (event) {
        case TP_JSON_ARRAY:
        case TP_JSON_OBJECT:
            depth++;
            numeric = false;
            break;
        case TP_JSON_ARRAY_END:
        case TP_JSON_OBJECT_END:
            if (--depth == 0)
                continue;
            numeric = false;
            break;
        case TP_JSON_INT:
        case TP_JSON_REAL:
            v = number(&text);
            break;
        case TP_JSON_TRUE:
        case TP_JSON_FALSE:
            v = event == TP_JSON_TRUE ? 1.0f : 0.0f;
            break;
        case TP_JSON_STRING:
        case TP_JSON_NULL:
            numeric = false;
            break;
        case TP_JSON_KEY:
            continue;
        default:
            return false;
        }
        if (item > 0 && numeric) {
            if (n < COUNT_OF(TASK, ARGS))
                k[K_ARGS + n] = float_bits(v);
            n++;
            width++;
        }
        if (depth == 1 && event != TP_JSON_OBJECT &&
            event != TP_JSON_ARRAY) { /* an item of the outer array is complete */
            if (item > 0 && item <= COUNT_OF(TASK, WIDTH))
                k[K_WIDTH + item - 1] = at_most(width, MAX_WIDTH);
            item++;
            width = 0;
        }
    }
    k[K_N_ARGS] = at_most(n, MAX_ARGS);
    return item > 0 && tp_json_finish(&j) == 0;
}

void tclf1_task_key(const struct tp_task *t, struct tclfeat_key *key)
{
    memset(key, 0, sizeof *key);
    if (!read_args(t, key->k))
        memset(key, 0, sizeof *key);
    key->k[K_KIND] = TCLF_KIND_TASK;
    key->k[K_LAYOUT] = t->layout >= 1 && t->layout <= COUNT_OF(TASK, LAYOUT) ? t->layout : 0;
}

void tclf1_task_row(const struct tclfeat_key *key, float row[TCLF_COLS])
{
    const int32_t *k = key->k;

    for (int i = 0; i < COUNT_OF(TASK, ARGS); i++) {
        float v = bits_float(k[K_ARGS + i]);

        row[COL(TASK, ARGS) + i] = copysignf(lg(fabsf(v)), v) / DIV(TASK, ARGS);
    }
    row[COL(TASK, N_ARGS)] = (float)k[K_N_ARGS] / DIV(TASK, N_ARGS);
    if (k[K_LAYOUT] > 0)
        row[COL(TASK, LAYOUT) + k[K_LAYOUT] - 1] = 1.0f;
    for (int i = 0; i < COUNT_OF(TASK, WIDTH); i++)
        row[COL(TASK, WIDTH) + i] = (float)k[K_WIDTH + i] / DIV(TASK, WIDTH);
}
