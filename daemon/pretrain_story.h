/* What a pretraining tells of itself: in its job's result and its model's row, and, shorter, in the weights file. */
#ifndef TD_PRETRAIN_STORY_H
#define TD_PRETRAIN_STORY_H

#include "ckd/adapt.h"
#include "daemon/train_parts.h"

struct td_source {
    struct st_hardware *hw; /* borrowed */
    struct td_train_set set;
    char *lesson; /* td_lesson_text(); NULL: not learned yet */
    struct tm_metrics before, after;
};
/* How a source was learned: {"decision": "founded" | "accepted" | "refused" | "untouched", "reason", "gate", "ac":
 * {"epoch", "epochs", "loss", "phi", "seconds"} | null, "kb": the same | null, "attempts", "lambda", "drop",
 * "pairwise_drop", "balance", "gain"}. malloc'ed; NULL: no memory. */
char *td_lesson_text(const struct tk_adapt_state *s);

struct td_pretrained { /* all of it borrowed */
    int64_t job;
    const struct td_train_params *params;
    int64_t watermark;
    const struct tk_kb *kb;
    const struct td_source *source; /* [n] */
    const bool *refused;            /* [n] */
    uint32_t n;
    const struct tk_acceptance *acceptance; /* by hardware that is no source; reason "": none was asked */
    const struct tk_judgement *verdict;
    bool overtaken; /* it was to answer, but another one was activated meanwhile */
};
/* Figures of the old knowledge base, or of the new one: means over the sources that tell, tasks and programs of all of
 * them. tasks 0: none does. */
struct tm_metrics td_pretrained_mean(const struct td_source *source, uint32_t n, bool after);
/* How the knowledge base came about: JSON object, malloc'ed. most > 0: in so many bytes, so briefly, and of the first
 * sources only if there are many, which is logged. NULL: no memory. */
char *td_pretrained_story(const struct td_pretrained *x, size_t most);

#endif
