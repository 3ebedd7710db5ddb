/* Hardware as handlers share it. */
#include "daemon/hardware.h"

#include "ckd/gate.h"
#include "daemon/dialect.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

static enum tp_target_kind kind_of(const char *name)
{
    if (strcmp(name, "cpu") == 0)
        return TP_TARGET_CPU;
    if (strcmp(name, "gpu") == 0)
        return TP_TARGET_GPU;
    return strcmp(name, "accelerator") == 0 ? TP_TARGET_ACCELERATOR : TP_TARGET_ANY;
}

bool td_shares_knowledge(const struct st_hardware *h)
{
    return tk_family_default(kind_of(h->kind)) != NULL;
}

int td_hardware_answers(struct st_reader *r, const struct st_hardware *h, int64_t *model, struct tp_err *e)
{
    *model = h->active_model;
    return *model != 0 ? 0 : st_family_kb(r, h->family, model, e);
}

void td_hardware_feat(const struct st_hardware *h, struct tclfeat_hw *out)
{
    json_t *o = h->descriptor ? json_loads(h->descriptor, 0, NULL) : NULL;

    memset(out, 0, sizeof *out);
    out->kind = kind_of(h->kind);
    for (int i = 0; o && i < TCLFEAT_HW; i++) {
        const json_t *v = json_object_get(o, tclfeat_hw_name(i));
        if (!json_is_number(v) || !isfinite(json_number_value(v)) || json_number_value(v) < 0)
            continue;
        out->value[i] = json_number_value(v);
        out->known |= 1u << i;
    }
    json_decref(o);
}

int td_hardware_missing(const char *name, struct tp_err *e)
{
    const char *ms = td_dialect_is_ms(name) ? ", which is for records of MetaSchedule," : "";

    return tp_fail(e, TP_E_UNKNOWN_HARDWARE,
                   "hardware \"%.63s\"%s is not registered; register it first: PUT /v1/hardware/%.63s {\"target\": "
                   "\"llvm -mcpu=core-avx2\"}",
                   name, ms, name);
}

int td_hardware_find(struct st_reader *r, const char *name, struct st_hardware *out, struct tp_err *e)
{
    int rc = st_hardware_get(r, name, out, e);
    return rc == -TP_E_UNKNOWN_HARDWARE ? td_hardware_missing(name, e) : rc;
}

int td_hardware_kind(const char *target, const char **kind, struct tp_err *e)
{
    struct tp_target t;
    int rc = tp_target_parse(target, strlen(target), &t, e);

    if (rc)
        return rc;
    /* a bare tag that no table knows says nothing; what is not a known CPU or GPU is an accelerator */
    *kind = t.kind == TP_TARGET_CPU ? "cpu" : t.kind == TP_TARGET_GPU ? "gpu" : "accelerator";
    return 0;
}
