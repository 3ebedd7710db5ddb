/* libtclfeat: the table of feature sets and the encoder.
 *
 * An encoder keeps the two rows that only hang on task and hardware, together with everything they were made from; a
 * batch of one task parses its workload key and target once. Invariant: `keys` is what `seen` gives. One owner, one
 * thread. */
#include "proto/ms.h"
#include "proto/tclfeat_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

struct seen {
    char *text; /* workload key, then target; owned */
    size_t cap, n_key, n_target;
    bool has_hw_params;
    int32_t hw_params[TP_HW_PARAMS];
    int32_t layout;
    struct tclfeat_hw hw;
};

struct tclfeat_encoder {
    enum tclfeat_set set;
    struct tp_replay *replay; /* tclf-1 only */
    struct ms_walk *walk;     /* tclm-1 only */
    bool valid;
    struct seen seen;
    struct tclfeat_key keys[2]; /* hardware row, task row */
    struct tp_step_view views[TP_MAX_STEPS];
    struct tp_stage_view stages[TP_REPLAY_STAGES];
};

/* ---- sets
 * -------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *version;
    int summary;
} sets[TCLFEAT_SETS] = {
    [TCLFEAT_TCLF_1] = {"tclf-1", TCLF_SUMMARY},
    [TCLFEAT_TLP_CPU_1] = {"tlp-cpu-1", 0},
    [TCLFEAT_TLP_GPU_1] = {"tlp-gpu-1", 0},
    [TCLFEAT_TCLM_1] = {"tclm-1", TCLF_SUMMARY},
};

const char *tclfeat_version(enum tclfeat_set s)
{
    return sets[s].version;
}

int tclfeat_by_version(const char *version)
{
    for (int i = 0; i < TCLFEAT_SETS; i++)
        if (strcmp(sets[i].version, version) == 0)
            return i;
    return -1;
}

uint32_t tclfeat_crc(enum tclfeat_set s)
{
    const char *v = sets[s].version;
    uint32_t crc = (uint32_t)crc32(0, (const Bytef *)v, (uInt)strlen(v) + 1);

    return s == TCLFEAT_TCLF_1 ? tclf1_crc(crc) : s == TCLFEAT_TCLM_1 ? tclm1_crc(crc) : tlp_crc(s, crc);
}

int tclfeat_cols(enum tclfeat_set s)
{
    return s == TCLFEAT_TCLF_1 || s == TCLFEAT_TCLM_1 ? TCLF_COLS : tlp_cols(s);
}

int tclfeat_summary_cols(enum tclfeat_set s)
{
    return sets[s].summary;
}

/* ---- encoder
 * ----------------------------------------------------------------------------------------------------------- */

struct tclfeat_encoder *tclfeat_encoder_new(enum tclfeat_set s)
{
    struct tclfeat_encoder *e = malloc(sizeof *e);

    if (!e)
        return NULL;
    e->set = s;
    e->replay = NULL;
    e->walk = NULL;
    e->valid = false;
    e->seen.text = NULL;
    e->seen.cap = 0;
    if ((s == TCLFEAT_TCLF_1 && !(e->replay = tp_replay_new())) ||
        (s == TCLFEAT_TCLM_1 && !(e->walk = ms_walk_new()))) {
        free(e);
        return NULL;
    }
    return e;
}

void tclfeat_encoder_free(struct tclfeat_encoder *e)
{
    if (!e)
        return;
    tp_replay_free(e->replay);
    ms_walk_free(e->walk);
    free(e->seen.text);
    free(e);
}

static const struct tclfeat_hw nothing_known;

static bool hw_equal(const struct tclfeat_hw *a, const struct tclfeat_hw *b)
{
    return a->kind == b->kind && a->known == b->known && memcmp(a->value, b->value, sizeof a->value) == 0;
}

static bool seen_before(const struct tclfeat_encoder *e, const struct tp_task *t, const struct tclfeat_hw *hw)
{
    const struct seen *s = &e->seen;

    return e->valid && s->n_key == t->workload_key.n && s->n_target == t->target.n &&
           memcmp(s->text, t->workload_key.s, s->n_key) == 0 &&
           memcmp(s->text + s->n_key, t->target.s, s->n_target) == 0 && s->layout == t->layout &&
           s->has_hw_params == t->has_hw_params &&
           (!s->has_hw_params || memcmp(s->hw_params, t->hw_params, sizeof s->hw_params) == 0) && hw_equal(&s->hw, hw);
}

/* Fills e->keys. */
static int encode_task(struct tclfeat_encoder *e, const struct tp_task *t, const struct tclfeat_hw *hw,
                       struct tp_err *err)
{
    struct seen *s = &e->seen;
    size_t need = (size_t)t->workload_key.n + t->target.n + 1; /* never 0: an empty task has a text as well */
    int rc;

    e->valid = false;
    if (need > s->cap) {
        char *text = realloc(s->text, need);

        if (!text)
            return tp_fail(err, TP_E_NO_MEMORY, "no memory for a task of %zu bytes", need);
        s->text = text;
        s->cap = need;
    }
    rc = tclf1_hw_key(t, hw, &e->keys[0], err);
    if (rc < 0)
        return rc;
    tclf1_task_key(t, &e->keys[1]);

    s->n_key = t->workload_key.n;
    s->n_target = t->target.n;
    memcpy(s->text, t->workload_key.s, s->n_key);
    memcpy(s->text + s->n_key, t->target.s, s->n_target);
    s->has_hw_params = t->has_hw_params;
    memcpy(s->hw_params, t->hw_params, sizeof s->hw_params);
    s->layout = t->layout;
    s->hw = *hw;
    e->valid = true;
    return 0;
}

int tclfeat_encode(struct tclfeat_encoder *e, const struct tp_record *r, const struct tclfeat_hw *hw,
                   struct tclfeat_key *keys, float *summary, struct tp_err *err)
{
    if (r->n_steps > TP_MAX_STEPS)
        return tp_fail(err, TP_E_TOO_MANY_STEPS, "%u steps, at most %d are accepted", r->n_steps, TP_MAX_STEPS);
    if (tp_ms_is(r) != (e->set == TCLFEAT_TCLM_1))
        return tp_fail_at(err, TP_E_BAD_STATE, "/i/1/1", "%s does not encode %s", tclfeat_version(e->set),
                          tp_ms_is(r) ? "MetaSchedule traces" : "steps of auto_scheduler");
    if (e->set != TCLFEAT_TCLF_1 && e->set != TCLFEAT_TCLM_1)
        return tlp_encode(e->set, r, keys);
    if (!hw)
        hw = &nothing_known;
    if (!seen_before(e, &r->task, hw)) {
        int rc = encode_task(e, &r->task, hw, err);

        if (rc < 0)
            return rc;
    }
    memcpy(keys, e->keys, sizeof e->keys);
    if (e->set == TCLFEAT_TCLM_1) {
        int rows = tclm1_encode(e->walk, r, keys + 2, summary, err);

        return rows < 0 ? rows : rows + 2;
    }
    tp_replay_run(e->replay, r, e->views);
    for (uint32_t i = 0; i < r->n_steps; i++)
        tclf1_step_key(&r->steps[i], &e->views[i], &keys[2 + i]);
    if (summary)
        tclf1_summary(e->replay, r, e->views, e->stages, summary);
    return (int)r->n_steps + 2;
}

void tclfeat_row(enum tclfeat_set s, const struct tclfeat_key *key, float *row)
{
    if (s == TCLFEAT_TCLF_1)
        tclf1_row(key, row);
    else if (s == TCLFEAT_TCLM_1)
        tclm1_row(key, row);
    else
        tlp_row(s, key, row);
}

/* ---- foreign callers
 * --------------------------------------------------------------------------------------------------- */

int tclfeat_encode_line(enum tclfeat_set s, const char *line, size_t n, float *rows, int max_rows, float *summary,
                        char *detail, size_t detail_n)
{
    struct tclfeat_encoder *e = NULL;
    struct tclfeat_key *keys = NULL;
    struct tp_record r;
    struct tp_err err = {.detail = ""};
    int rc;

    tp_record_init(&r);
    if ((unsigned)s >= TCLFEAT_SETS) {
        rc = tp_fail(&err, TP_E_BAD_PARAMETER, "there is no feature set %d", (int)s);
        goto out;
    }
    e = tclfeat_encoder_new(s);
    keys = malloc(TCLFEAT_MAX_ROWS * sizeof *keys);
    if (!e || !keys) {
        rc = tp_fail(&err, TP_E_NO_MEMORY, "no memory for an encoder");
        goto out;
    }
    rc = tp_record_parse(&r, line, n, &err);
    if (rc < 0)
        goto out;
    rc = tclfeat_encode(e, &r, NULL, keys, summary, &err);
    if (rc > max_rows)
        rc = max_rows;
    for (int i = 0; i < rc; i++)
        tclfeat_row(s, &keys[i], rows + (size_t)i * (size_t)tclfeat_cols(s));
out:
    if (detail && detail_n)
        snprintf(detail, detail_n, "%s", rc < 0 ? err.detail : "");
    tp_record_free(&r);
    free(keys);
    tclfeat_encoder_free(e);
    return rc;
}
