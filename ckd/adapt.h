/* Whole jobs made of phases: adapt a hardware, pretrain a knowledge base.
 *
 * A job's state is a struct that holds everything; each step of tk_adapt() runs the phase that the state names and
 * then calls the checkpoint. tk_adapt_save() puts a state into a folder, tk_adapt_load() takes it out again: a job that
 * was killed goes on with the phase it was in. With the same inputs and seed an interrupted job gives the same models
 * as one that was not. */
#ifndef TK_ADAPT_H
#define TK_ADAPT_H

#include "ckd/champion.h"
#include "ckd/meta.h"
#include "ckd/phases.h"
#include "ckd/rivals.h"

/* X(ID, "name") in the order of a job */
#define TK_PHASES(X)                                                                                                   \
    X(PROBE, "probe")   /* the gate */                                                                                 \
    X(LEARN, "learn")   /* CL: the AC, from the rivals */                                                              \
    X(JUDGE, "judge")   /* AC against champion and knowledge base */                                                   \
    X(TEACH, "teach")   /* KD: the knowledge base, once more with three times lambda when it is refused */             \
    X(SETTLE, "settle") /* Fisher information of what was learned */                                                   \
    X(DONE, "done")
enum tk_phase {
#define X(id, name) TK_PHASE_##id,
    TK_PHASES(X)
#undef X
        TK_PHASE_COUNT
};
const char *tk_phase_name(enum tk_phase p);

enum { TK_ATTEMPTS = 2, TK_PEER_NAME = 80 };
#define TK_LAMBDA_FACTOR 3.0

/* Another hardware that has an AC, of the same features. One of another kind is never begun with. */
struct tk_peer {
    const char *name; /* "" is nobody's */
    const struct tm_model *model;
    enum tp_target_kind kind;
    int64_t id; /* of the model, the caller's: tells it from another that bears the same name later */
};

struct tk_adapt_state;
struct tk_adapt {
    /* inputs, all borrowed; the same when a job is resumed */
    enum tp_target_kind kind;    /* of the hardware */
    const struct tk_kb *kb;      /* of its family; NULL: there is none, the AC becomes one */
    const struct tk_peer *peers; /* whom the gate asks beside kb: the AC begins with the one that is right about
                                    most, if it is surely better than kb */
    uint32_t n_peers;
    const struct tm_model *champion; /* present AC; NULL: none */
    struct tk_set probe;             /* first measurements; n = 0: the gate looks at train and valid together */
    struct tk_set train, valid;   /* of one dataset; valid: tk_holdout_split(). valid.n = 0: the AC is used when there
                                     is no champion, and no one is compared */
    const struct tk_older *older; /* of the hardware that kb has learned */
    uint32_t n_older;             /* <= TK_OLDER_MAX */
    bool keep_kb;                 /* true: stop after the AC, the knowledge base learns nothing */
    bool kb_only; /* true: only a knowledge base is wanted that nobody relies on yet: no AC is made that could not teach
                     it, and what is accepted gains more on the new hardware than all older ones lose
                     (tk_acceptance.balance) */
    uint32_t folds; /* of a warm start: tk_cross_fit(); default TK_FOLDS */
    struct tk_learn_opts scratch, cl, kd;
    struct tk_run run;
    /* After each phase, with the state as it will be saved; may be NULL. Non-zero ends the job with that code. */
    int (*checkpoint)(void *arg, const struct tk_adapt_state *s);
    void *checkpoint_arg;
};
/* Phase options by their defaults; everything else zero, seed 1, one thread. */
void tk_adapt_defaults(struct tk_adapt *a);

struct tk_adapt_state {
    enum tk_phase phase;          /* the next to run */
    struct tk_verdict verdict;    /* of whom the AC is to begin with */
    struct tk_verdict kb_verdict; /* of kb: the same without a peer */
    char source[TK_PEER_NAME];    /* "": kb; else the peer that the AC begins with, in kb's place */
    int64_t source_id;
    struct tm_model *ac;      /* owned; NULL before LEARN, and where tk_adapt.kb_only needs none */
    struct tk_learned cl, kd; /* kd: of the last attempt */
    bool from_start; /* the AC began with kb->start: it beat random weights and the knowledge base on the probe */
    struct tk_judgement over_champion, over_kb; /* gain NaN where there was nothing to compare with */
    struct tk_contest contest;                  /* of the rivals for the AC; tasks 0: there was none */
    bool activated; /* the AC may be used: not worse than the champion, and the knowledge base has not won the contest.
                       Else it is a candidate */
    struct tk_kb
        *new_kb;   /* owned; what the family may use from now on, when acceptance.accepted; NULL: it keeps its own */
    int attempts;  /* of TEACH */
    double lambda; /* of the last attempt */
    struct tk_acceptance acceptance;
    struct tm_metrics champion_metrics, kb_metrics, ac_metrics, new_kb_metrics; /* on valid; tasks 0: not measured */
};
void tk_adapt_state_free(struct tk_adapt_state *s); /* zeroes it */
/* The AC began with the weights of s->source: neither gate nor contest has refused them. */
bool tk_adapt_is_warm(const struct tk_adapt_state *s);
/* And the gate has not refused the knowledge base: the AC may teach it. */
bool tk_adapt_related(const struct tk_adapt_state *s);
/* It was measured on fewer than TK_PROBE_TASKS tasks: the AC may serve, but does not teach a knowledge base that is
 * there. */
bool tk_adapt_few(const struct tk_adapt_state *s);

/* Run from s->phase to TK_PHASE_DONE. s zeroed: from the beginning. After an error s is as after the last phase that
 * was finished. UNUSABLE: probe, train, valid of different datasets; kb of another kind; more than TK_OLDER_MAX older
 * sets. NOT_ENOUGH_DATA, CANCELLED, NO_MEMORY, FEATURES_MISMATCH. */
int tk_adapt(const struct tk_adapt *a, struct tk_adapt_state *s, struct tp_err *e);

/* Put the state into a folder that is there: models first, state.json by rename last, so that a folder is always of one
 * phase. IO, DISK_FULL, NO_MEMORY. */
int tk_adapt_save(const char *dir, const struct tk_adapt_state *s, struct tp_err *e);
/* 1 = loaded, 0 = the folder holds no state (or one of another version, with a name that is not known here), or
 * -TP_E_x: BAD_WEIGHTS, IO, NO_MEMORY. *s is written on 1. */
int tk_adapt_load(const char *dir, struct tk_adapt_state *s, struct tp_err *e);

/* ---- a knowledge base from several sources ---- */

struct tk_source {
    const char *name;           /* for progress */
    struct tk_set train, valid; /* valid: n may be 0 */
};
struct tk_pretrain {
    enum tp_target_kind kind;
    const struct tk_source *sources; /* in the order of learning; the first trains the knowledge base directly */
    uint32_t n;
    struct tk_learn_opts scratch, cl, kd;
    const struct tk_meta_opts *meta; /* NULL: no initial weights (kb->start); else they are learned at the end */
    struct tk_run run;
    /* After each source, `done` of them learned, the last as s tells, whose new_kb is kb by now; may be NULL. Non-zero
     * ends the job with that code. */
    int (*checkpoint)(void *arg, const struct tk_kb *kb, const struct tk_adapt_state *s, uint32_t done);
    void *checkpoint_arg;
};
void tk_pretrain_defaults(struct tk_pretrain *p);
/* kb NULL and done 0: from the beginning. To resume: what the last checkpoint was given (kb is then the callee's, also
 * after an error). A source that the gate refuses, that learns nothing from its own programs, or that costs the
 * older ones more than it gains is left out; refused[n] tells, from before the checkpoint on, and has to be given for
 * the sources that were done: what was refused has no say in what may be forgotten. */
int tk_pretrain(const struct tk_pretrain *p, struct tk_kb *kb, uint32_t done, bool *refused, struct tk_kb **out,
                struct tp_err *e);

#endif
