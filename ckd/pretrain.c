/* A knowledge base from several sources (ckd/adapt.h): the same phases over one after another. */
#include "ckd/adapt.h"

#include "model/mem.h"

#include <string.h>

void tk_pretrain_defaults(struct tk_pretrain *p)
{
    *p = (struct tk_pretrain){.run = {.seed = 1, .threads = 1}};
    tk_scratch_defaults(&p->scratch);
    tk_cl_defaults(&p->cl);
    tk_kd_defaults(&p->kd);
}

/* What source i makes of kb (NULL: there is none): s->new_kb, or NULL when it is refused. */
static int learn(const struct tk_pretrain *p, uint32_t i, const struct tk_kb *kb, const struct tk_older *older,
                 uint32_t n_older, struct tk_adapt_state *s, struct tp_err *e)
{
    const struct tk_adapt a = {.kind = p->kind,
                               .kb = kb,
                               .train = p->sources[i].train,
                               .valid = p->sources[i].valid,
                               .older = older,
                               .n_older = n_older,
                               .kb_only = true,
                               .folds = 1, /* a source holds out enough */
                               .scratch = p->scratch,
                               .cl = p->cl,
                               .kd = p->kd,
                               .run = p->run};
    return tk_adapt(&a, s, e);
}

/* Initial weights from all sources, also from refused ones: what they have in common is how a task is learned. */
static int learn_start(const struct tk_pretrain *p, struct tk_kb *kb, struct tp_err *e)
{
    struct tm_model *random = tm_model_new(kb->model->features, &kb->model->h, p->run.seed);
    struct tk_set *sets = tm_alloc(p->n, sizeof *sets);
    float *start = tm_alloc(kb->model->n, sizeof *start);
    int rc = random && sets && start ? 0 : tp_fail(e, TP_E_NO_MEMORY, "no memory for initial weights");
    for (uint32_t i = 0; i < p->n && rc == 0; i++)
        sets[i] = p->sources[i].train;
    if (rc == 0)
        rc = tk_meta(random, sets, p->n, p->meta, &p->run, start, e);
    if (rc == 0) {
        free(kb->start);
        kb->start = start;
        start = NULL;
    }
    free(start);
    free(sets);
    tm_model_free(random);
    return rc;
}

int tk_pretrain(const struct tk_pretrain *p, struct tk_kb *kb, uint32_t done, bool *refused, struct tk_kb **out,
                struct tp_err *e)
{
    struct tk_older *older = tm_alloc(p->n, sizeof *older); /* of the sources that were learned */
    uint32_t n_older = 0;
    int rc = 0;
    if (!older)
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for %u sources", p->n);
    else if (p->n == 0 || p->n > TK_OLDER_MAX || done > p->n || (done > 0 && !kb))
        rc = tp_fail(e, TP_E_UNUSABLE, "%u sources, %u of them learned: 1 to %d sources are accepted", p->n, done,
                     (int)TK_OLDER_MAX);
    for (uint32_t i = 0; i < p->n && rc == 0; i++) {
        struct tk_adapt_state s = {0};
        if (i < done) {
            if (!refused[i])
                older[n_older++] = (struct tk_older){p->sources[i].train, p->sources[i].valid};
            continue;
        }
        if ((rc = learn(p, i, kb, older, n_older, &s, e)) == 0) {
            refused[i] = !s.new_kb;
            if (s.new_kb) {
                older[n_older++] = (struct tk_older){p->sources[i].train, p->sources[i].valid};
                tk_kb_free(kb);
                kb = s.new_kb;
                s.new_kb = NULL;
            }
            if (p->checkpoint && (rc = p->checkpoint(p->checkpoint_arg, kb, &s, i + 1)))
                tp_fail(e, (enum tp_code) - rc, "the state after source \"%s\" could not be kept", p->sources[i].name);
        }
        tk_adapt_state_free(&s);
    }
    if (rc == 0 && !kb)
        rc = tp_fail(e, TP_E_NOT_ENOUGH_DATA, "no source could train a knowledge base");
    if (rc == 0 && p->meta)
        rc = learn_start(p, kb, e);
    free(older);
    if (rc)
        tk_kb_free(kb);
    else
        *out = kb;
    return rc;
}
