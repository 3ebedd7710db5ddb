/* Champion and challenger: the hold-out and the verdict.
 *
 * Invariant: the threshold below which a task (or a program of a task) is held out never rises while measurements are
 * added. It is the larger of a share that falls with the number of tasks and of the lowest places present, which only
 * fall. Hence nothing that was once trained on becomes held out later, except across the border of TK_HOLDOUT_TASKS
 * (callers look at how the champion was held out). Pure; any thread. */
#include "ckd/champion.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t x)
{
    /* splitmix64 */
    x += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

static double place(uint64_t salt, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    uint64_t h = salt;

    for (size_t i = 0; i < n; i++)
        h = mix(h ^ p[i]);
    return (double)(h >> 11) * 0x1p-53;
}

double tk_task_place(const char *task_id)
{
    return place(0x7461736bU, task_id, strlen(task_id));
}

double tk_program_place(const uint8_t key[16])
{
    return place(0x70726f67U, key, 16);
}

double tk_holdout_share(uint32_t n)
{
    double share = n > 0 ? (double)TK_HOLDOUT_WANTED / n : TK_HOLDOUT_MAX;

    return share < TK_HOLDOUT ? TK_HOLDOUT : share > TK_HOLDOUT_MAX ? TK_HOLDOUT_MAX : share;
}

struct task {
    double place;                       /* of the task */
    double lowest[TK_HOLDOUT_PROGRAMS]; /* of its valid programs, ascending */
    uint32_t valid, programs;
};

static void note_lowest(struct task *t, double p)
{
    for (int i = 0; i < TK_HOLDOUT_PROGRAMS; i++) {
        if (p < t->lowest[i]) {
            double q = t->lowest[i];

            t->lowest[i] = p;
            p = q;
        }
    }
}

/* Below this a program of the task is held out. */
static double program_threshold(const struct task *t)
{
    double last = t->lowest[TK_HOLDOUT_PROGRAMS - 1];

    return last < TK_HOLDOUT ? TK_HOLDOUT : nextafter(last, 1.0);
}

int tk_holdout_split(const struct tm_dataset *ds, const uint8_t (*key)[16], uint32_t *train, size_t *n_train,
                     uint32_t *valid, size_t *n_valid, bool *by_record, struct tp_err *e)
{
    struct task *tasks = calloc(ds->n_tasks > 0 ? ds->n_tasks : 1, sizeof *tasks);
    uint32_t usable = 0, left = 0;
    double lowest = INFINITY, threshold, share;
    size_t nt = 0, nv = 0;

    if (tasks == NULL)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory to split %u tasks", (unsigned)ds->n_tasks);
    for (uint32_t t = 0; t < ds->n_tasks; t++) {
        tasks[t].place = tk_task_place(tm_dataset_task_id(ds, t));
        for (int i = 0; i < TK_HOLDOUT_PROGRAMS; i++)
            tasks[t].lowest[i] = 1.0;
    }
    for (uint32_t i = 0; i < ds->n; i++) {
        struct task *t = &tasks[ds->task[i]];

        t->programs++;
        if (isfinite(ds->cost[i])) {
            t->valid++;
            note_lowest(t, tk_program_place(key[i]));
        }
    }
    for (uint32_t t = 0; t < ds->n_tasks; t++) {
        if (tasks[t].valid < 2)
            continue;
        usable++;
        if (tasks[t].place < lowest)
            lowest = tasks[t].place;
    }
    share = tk_holdout_share(usable);
    threshold = lowest < share ? share : nextafter(lowest, 1.0);
    for (uint32_t t = 0; t < ds->n_tasks; t++)
        left += tasks[t].valid >= 2 && tasks[t].place >= threshold;
    *by_record = usable < TK_HOLDOUT_TASKS || left == 0;
    for (uint32_t i = 0; i < ds->n; i++) {
        const struct task *t = &tasks[ds->task[i]];
        bool out = *by_record ? tk_program_place(key[i]) < program_threshold(t) : t->place < threshold;

        if (out)
            valid[nv++] = i;
        else
            train[nt++] = i;
    }
    *n_train = nt;
    *n_valid = nv;
    free(tasks);
    return 0;
}

double tk_quality(const struct tm_metrics *m)
{
    if (m == NULL || m->tasks == 0)
        return NAN;
    return 0.5 * (m->top1_mean + m->pairwise);
}

const char *tk_decision_name(enum tk_decision d)
{
    static const char *const name[] = {"activated", "kept-champion", "candidate"};

    return name[d];
}

void tk_judge(const struct tm_metrics *challenger, const struct tm_metrics *champion, bool never,
              struct tk_judgement *out)
{
    double a = tk_quality(challenger), b = tk_quality(champion);

    out->gain = a - b;
    if (never) {
        out->decision = TK_CANDIDATE;
        snprintf(out->reason, sizeof out->reason, "The request asked for a candidate only.");
    } else if (champion == NULL) {
        out->decision = TK_ACTIVATED;
        snprintf(out->reason, sizeof out->reason, "There was no model to compare with.");
    } else if (isnan(a)) {
        out->decision = TK_KEPT_CHAMPION;
        snprintf(out->reason, sizeof out->reason, "The held-out programs do not judge the challenger.");
    } else if (isnan(b)) {
        out->decision = TK_ACTIVATED;
        snprintf(out->reason, sizeof out->reason, "The held-out programs do not judge the champion.");
    } else {
        out->decision = out->gain >= -TK_MARGIN ? TK_ACTIVATED : TK_KEPT_CHAMPION;
        snprintf(out->reason, sizeof out->reason, "Quality %.4f against %.4f: %s (margin %.3f).", a, b,
                 out->decision == TK_ACTIVATED ? "not worse" : "worse", TK_MARGIN);
    }
}
