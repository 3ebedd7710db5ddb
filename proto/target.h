/* TVM target strings: flat CLI form ("llvm -keys=cpu -mcpu=core-avx2"), JSON object text, or a registered tag.
 * Pure functions. */
#ifndef TP_TARGET_H
#define TP_TARGET_H

#include "proto/record.h"

enum tp_target_kind { TP_TARGET_ANY, TP_TARGET_CPU, TP_TARGET_GPU, TP_TARGET_ACCELERATOR };

struct tp_target {
    enum tp_target_kind
        kind;      /* llvm, c -> CPU; cuda, rocm, opencl, vulkan, metal -> GPU; unknown tag -> ANY; else ACCELERATOR */
    char name[64]; /* TVM's target kind: "llvm", "cuda"; for an unlisted tag the tag itself */
    char model[64], mcpu[64], arch[64], mtriple[64], device[64]; /* "" when absent */
};

/* Never allocates. BAD_TASK for an empty string or JSON that is not an object with "kind". */
int tp_target_parse(const char *s, size_t n, struct tp_target *out, struct tp_err *e);
const char *tp_target_kind_name(enum tp_target_kind k); /* "cpu", "gpu", "accelerator", "any" */

#endif
