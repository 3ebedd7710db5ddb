/* What came of a job that succeeded, for people: who answers, by which figures, what became of the knowledge base.
 *
 * The result of each kind of job is described in the daemon's *_job.h; what a result does not hold is not printed. */
#include "clients/ctl/ctl.h"

#include <math.h>
#include <string.h>

static bool is(const char *s, const char *what)
{
    return s && what && !strcmp(s, what);
}

static void print_ranks(const char *what, const json_t *m)
{
    if (json_is_object(m))
        printf("  %-10s %lld tasks, %lld programs: top-1 %.3f, top-5 %.3f, pairs in order %.1f %%, latency off by %.0f "
               "%%\n",
               what, (long long)tc_int(m, "/tasks", 0), (long long)tc_int(m, "/programs", 0), tc_num(m, "/top1_mean"),
               tc_num(m, "/top5_mean"), tc_num(m, "/pairwise") * 100, tc_num(m, "/latency_mape") * 100);
}

/* Of modes adapt and finetune. The champion of adapt is hardware's own; without one the knowledge base has answered. */
static void print_who_answers(const json_t *r, const char *hw, bool adapt)
{
    const char *decision = tc_str(r, "/decision"), *role = tc_str(r, "/champion/role");
    long long model = tc_int(r, "/model", 0), champion = tc_int(r, "/champion/model", 0);

    if (is(decision, "activated"))
        printf("  it leaves model %lld answering for %s\n", model, hw);
    else if (is(decision, "candidate"))
        printf("  it leaves what answered for %s before; tclctl activate %s %lld would switch\n", hw, hw, model);
    else if (is(role, "kb") || (adapt && !champion))
        printf("  it leaves the knowledge base answering for %s, not model %lld\n", hw, model);
    else if (champion)
        printf("  it leaves model %lld answering for %s, not model %lld\n", champion, hw, model);
}

static void print_against_kb(const char *why)
{
    if (why && *why)
        printf("  against the knowledge base: %s\n", why);
}

/* The trained model against the knowledge base. When that has won, the best of the others is not the one that was kept:
 * daemon/adapt_job.h, ckd/rivals.h. */
static void print_rivals(const json_t *r)
{
    const json_t *q = tc_at(r, "/rivals/quality");
    const char *winner = tc_str(r, "/rivals/winner"), *own = winner, *why = tc_str(r, "/against_kb/reason"),
               *peer = tc_str(r, "/peer");
    double kb = tc_num(q, "/kb"), trained;

    if (is(winner, "kb"))
        own = json_is_number(tc_at(q, "/quarter")) ? "quarter" : "scratch";
    trained = own ? json_number_value(json_object_get(q, own)) : (double)NAN;
    if (!winner || isnan(kb)) {
        print_against_kb(why);
        return;
    }
    if (peer) { /* the AC of another hardware stands where the knowledge base would */
        if (is(winner, "scratch"))
            printf("  from scratch it is better than with the model of %s: quality on %lld held-out tasks %.3f, %.3f\n",
                   peer, (long long)tc_int(r, "/rivals/tasks", 0), trained, kb);
        else
            printf("  it began with the model of %s: quality on %lld held-out tasks %.3f, after training %.3f%s\n",
                   peer, (long long)tc_int(r, "/rivals/tasks", 0), kb, trained,
                   is(winner, "kb") ? ": kept as it was" : "");
        print_against_kb(why);
        return;
    }
    printf("  quality on %lld held-out tasks: the trained model %.3f, the knowledge base %.3f: %s\n",
           (long long)tc_int(r, "/rivals/tasks", 0), trained, kb,
           is(winner, "kb") ? "the knowledge base goes first"
           : trained >= kb  ? "the trained one goes first"
                            : "too close to tell, so the trained one goes first");
}

static void print_kb(struct ctl *c, const json_t *kb)
{
    const char *decision = tc_str(kb, "/decision"), *why = tc_str(kb, "/reason"), *what = NULL;
    long long id = tc_int(kb, "/model", 0), attempts = tc_int(kb, "/attempts", 0);

    if (is(decision, "founded"))
        what = ctl_printf(c, "the family has its first knowledge base from this: model %lld", id);
    else if (is(decision, "accepted"))
        what = ctl_printf(c, "the knowledge base has learned from this: model %lld", id);
    else if (is(decision, "overtaken"))
        what = ctl_printf(c, "the knowledge base was changed meanwhile; what it learned from this is model %lld", id);
    else if (is(decision, "refused"))
        what = ctl_printf(c, "the knowledge base stays as it was after %lld attempt%s to teach it", attempts,
                          attempts == 1 ? "" : "s");
    else if (is(decision, "not-stored"))
        what = "what the knowledge base learned is lost, it stays as it was; tclctl adapt teaches it again";
    else if (is(decision, "untouched") || is(decision, "withdrawn"))
        what = "the knowledge base stays as it was";
    if (what)
        printf("  %s%s%s\n", what, why ? ". " : "", why ? why : "");
}

void ctl_print_outcome(struct ctl *c, const json_t *job)
{
    const json_t *r = tc_at(job, "/result");
    const char *hw = tc_str(job, "/hardware"), *decision = tc_str(r, "/decision"), *why = tc_str(r, "/reason"),
               *mode = tc_str(r, "/mode");
    bool adapt = is(mode, "adapt"),
         shown_below = adapt && (!json_is_object(tc_at(r, "/champion")) || is(why, tc_str(r, "/against_kb/reason")));

    if (decision) {
        printf("  %s%s%s%s\n", decision,
               tc_at(r, "/model") ? ctl_printf(c, " (model %lld)", (long long)tc_int(r, "/model", 0)) : "",
               why && !shown_below ? ": " : "", why && !shown_below ? why : "");
        if (!is(mode, "pretrain"))
            print_who_answers(r, hw ? hw : "?", adapt);
        print_rivals(r);
        print_kb(c, tc_at(r, "/kb"));
    }
    print_ranks("challenger", tc_at(r, "/challenger"));
    print_ranks("champion", tc_at(r, "/champion"));
    print_ranks("held out", tc_at(r, "/held_out"));
    print_ranks("all", tc_at(r, "/all"));
    if (tc_at(r, "/count"))
        printf("  %lld of %lld candidates selected by %s\n", (long long)tc_int(r, "/count", 0),
               (long long)tc_int(r, "/pooled", 0), tc_str(r, "/method") ? tc_str(r, "/method") : "?");
}
