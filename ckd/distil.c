/* Distillation as a hook of the trainer (ckd/distil.h).
 *
 * What the batch's chunks find out is written to a place of each chunk's own and added up in their order after the
 * batch, so trust does not depend on which thread ran what. Trust used in a batch is that of the batches before it. */
#include "ckd/distil.h"

#include "ckd/fisher.h"
#include "model/mem.h"
#include "model/shards.h"

#include <math.h>
#include <string.h>

enum { JUDGED = 64 /* programs of a held-out group; pairs are counted within a group */ };

double tk_distil_loss(const float *s, const double *teacher, uint32_t n, double scale, float *gs)
{
    double sm = 0, ss = 0, tm = 0, ts = 0, rho = 0, sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        sm += (double)s[i] / n;
        tm += teacher[i] / n;
    }
    for (uint32_t i = 0; i < n; i++) {
        const double ds = (double)s[i] - sm, dt = teacher[i] - tm;
        ss += ds * ds / n;
        ts += dt * dt / n;
        rho += ds * dt / n;
    }
    if (!(ss > TK_FLAT && ts > TK_FLAT)) /* also: not finite */
        return 0;
    ss = sqrt(ss);
    ts = sqrt(ts);
    rho /= ss * ts;
    for (uint32_t i = 0; i < n; i++) {
        const double z = ((double)s[i] - sm) / ss, t = (teacher[i] - tm) / ts;
        sum += scale * (z - t) * (z - t);
        /* mean and deviation of s move with s: what is left of the gradient is (2 / std) (rho z - t) */
        gs[i] += (float)(2 * scale / ss * (rho * z - t));
    }
    return sum;
}

struct tk_distil {
    struct tk_distil_opts o;
    struct tm_train_hook hook;
    const struct tm_dataset *ds;
    size_t n_weights;
    float *scaled;             /* F* as EWC takes it; NULL: no EWC */
    double *taught;            /* [ds->n] the teacher's rank scores, of programs given; NULL: a committee's are */
    const double *teacher;     /* [ds->n] whichever is the student's to follow */
    struct tk_set valid;       /* borrowed arrays */
    struct tm_groups held_out; /* of valid; no groups: trust is taken from the batches */
    double *score;             /* [ds->n]: the student's, of valid */
    struct tk_trust trust;
    /* of the batch under way */
    const uint32_t *programs;
    double loss_scale; /* beta phi / programs of the batch */
    struct found {     /* by place of the chunk's first program; cap of them */
        struct tk_concord teacher, student;
    } * found;
    const struct tm_chunk *chunks;
    uint32_t n_chunks;
};

static void begin(void *arg, const uint32_t *programs, const struct tm_chunk *chunks, uint32_t n_chunks)
{
    struct tk_distil *d = arg;
    uint32_t n = 0;
    d->programs = programs;
    d->chunks = chunks;
    d->n_chunks = n_chunks;
    for (uint32_t c = 0; c < n_chunks; c++)
        n += chunks[c].n;
    d->loss_scale = d->o.beta * (d->o.committee ? 1 : tk_trust_phi(&d->trust)) / n;
}

static int loss(void *arg, const uint32_t *programs, uint32_t n, const double *y, const double *noise,
                const struct tm_tape *t, float *gs, float *gl, double *sum)
{
    struct tk_distil *d = arg;
    double *teacher = tm_alloc(n, sizeof *teacher);
    (void)gl;
    if (!teacher)
        return -TP_E_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++)
        teacher[i] = d->teacher[programs[i]];
    if (d->found && d->held_out.n_groups == 0)
        d->found[programs - d->programs] =
            (struct found){tk_concord_of(y, noise, teacher, n), tk_concord_of_tape(y, noise, t->s, n)};
    if (d->loss_scale > 0)
        *sum += tk_distil_loss(t->s, teacher, n, d->loss_scale, gs);
    free(teacher);
    return 0;
}

static void gradient(void *arg, const float *w, float *grad)
{
    struct tk_distil *d = arg;
    struct tk_concord teacher = {0}, student = {0};
    if (d->scaled)
        tk_ewc_gradient(d->scaled, d->o.anchor, w, d->n_weights, d->o.lambda, grad);
    if (!d->o.teacher || d->held_out.n_groups)
        return;
    for (uint32_t c = 0; c < d->n_chunks; c++) {
        const struct found *f = &d->found[d->chunks[c].at];
        teacher.weight += f->teacher.weight;
        teacher.right += f->teacher.right;
        student.weight += f->student.weight;
        student.right += f->student.right;
    }
    tk_trust_update(&d->trust, tk_concord_value(&teacher), tk_concord_value(&student));
}

/* Concordance with the held-out labels. */
static double judge(const struct tk_distil *d, const double *score_of)
{
    const struct tm_groups *g = &d->held_out;
    struct tk_concord sum = {0};
    for (uint32_t k = 0; k < g->n_chunks; k++) {
        double y[JUDGED], noise[JUDGED], score[JUDGED];
        const struct tm_chunk c = g->chunks[k];
        for (uint32_t i = 0; i < c.n; i++) {
            const uint32_t p = g->programs[c.at + i];
            y[i] = g->y[p];
            noise[i] = d->ds->noise ? d->ds->noise[p] : 0;
            score[i] = score_of[p];
        }
        const struct tk_concord one = tk_concord_of(y, noise, score, c.n);
        sum.weight += one.weight;
        sum.right += one.right;
    }
    return tk_concord_value(&sum);
}

static void valid(void *arg, const double *score)
{
    struct tk_distil *d = arg;
    if (d->held_out.n_groups == 0)
        return;
    for (size_t i = 0; i < d->valid.n; i++)
        d->score[d->valid.programs[i]] = score[i];
    tk_trust_update(&d->trust, judge(d, d->teacher), judge(d, d->score));
}

static int teach(struct tk_distil *d, const struct tk_set *s, int threads, struct tp_err *e)
{
    double *score = tm_alloc(s->n, sizeof *score);
    if (!score)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for %zu predictions", s->n);
    int rc = tk_scores(d->o.teacher, s, threads, score, e);
    for (size_t i = 0; i < s->n && rc == 0; i++)
        d->taught[s->programs[i]] = score[i];
    free(score);
    return rc;
}

int tk_distil_new(const struct tk_distil_opts *o, const struct tm_model *student, const struct tk_set *train,
                  const struct tk_set *held_out, int threads, struct tk_distil **out, struct tp_err *e)
{
    struct tk_distil *d = calloc(1, sizeof *d);
    int rc = -TP_E_NO_MEMORY;
    *out = NULL;
    if (!d)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory to distil");
    *d = (struct tk_distil){.o = *o, .ds = train->ds, .n_weights = student->n, .trust = {NAN, NAN}, .valid = *held_out};
    d->hook = (struct tm_train_hook){.arg = d, .gradient = gradient};
    if (o->fisher && o->lambda > 0) {
        if (!(d->scaled = tm_alloc(student->n, sizeof *d->scaled)))
            goto out;
        tk_ewc_scale(student, o->fisher, d->scaled);
    }
    if (o->teacher || o->committee) {
        d->hook.begin = begin;
        d->hook.loss = loss;
        d->teacher = o->committee;
    }
    if (o->teacher) {
        d->hook.valid = valid;
        if (!(d->taught = tm_alloc(d->ds->n, sizeof *d->taught)) ||
            !(d->score = tm_alloc(d->ds->n, sizeof *d->score)) || !(d->found = tm_alloc(train->n, sizeof *d->found)))
            goto out;
        d->teacher = d->taught;
        if ((rc = teach(d, train, threads, e)) || (held_out->n && (rc = teach(d, held_out, threads, e))))
            goto out;
        rc = tm_groups_init(&d->held_out, d->ds, held_out->programs, held_out->n, JUDGED, NULL);
        if (rc == -TP_E_NOT_ENOUGH_DATA) /* nothing to judge by: the batches will */
            rc = 0;
        else if (rc)
            goto out;
    }
    rc = 0;
    *out = d;
    d = NULL;
out:
    tk_distil_free(d);
    return rc == -TP_E_NO_MEMORY ? tp_fail(e, TP_E_NO_MEMORY, "no memory to distil") : rc;
}

void tk_distil_free(struct tk_distil *d)
{
    if (!d)
        return;
    tm_groups_free(&d->held_out);
    free(d->scaled);
    free(d->taught);
    free(d->score);
    free(d->found);
    free(d);
}

const struct tm_train_hook *tk_distil_hook(const struct tk_distil *d)
{
    return &d->hook;
}

struct tk_trust tk_distil_trust(const struct tk_distil *d)
{
    return d->trust;
}
