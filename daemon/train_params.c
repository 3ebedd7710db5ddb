/* Parameters of a retraining, to and from the text that its job keeps. */
#include "daemon/train_params.h"

#include "daemon/hardware.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

const char *td_train_mode_name(enum td_train_mode m)
{
    static const char *const name[] = {"finetune", "adapt", "pretrain"};

    return name[m];
}

enum td_train_mode td_train_default_mode(const struct st_hardware *hw)
{
    return td_shares_knowledge(hw) ? TD_TRAIN_ADAPT : TD_TRAIN_FINETUNE;
}

void td_train_params_write(const struct td_train_params *p, struct tp_buf *out)
{
    tp_buf_printf(out, "{\"mode\": \"%s\", \"epochs\": ", td_train_mode_name(p->mode));
    if (p->epochs > 0)
        tp_buf_i64(out, p->epochs);
    else
        tp_buf_puts(out, "null");
    tp_buf_puts(out, ", \"max_seconds\": ");
    tp_buf_json_num(out, p->max_seconds, 9);
    tp_buf_printf(out, ", \"seed\": %lld, \"per_task\": %lld, \"activate\": \"%s\"", (long long)p->seed,
                  (long long)p->per_task, p->never ? "never" : "auto");
    if (p->mode == TD_TRAIN_PRETRAIN) {
        tp_buf_puts(out, ", \"sources\": [");
        for (int i = 0; i < p->n_sources; i++)
            tp_buf_printf(out, "%s\"%s\"", i > 0 ? ", " : "", p->source[i]);
        tp_buf_putc(out, ']');
    }
    if (p->automatic)
        tp_buf_printf(out, ", \"automatic\": true, \"newest_measurement\": %lld", (long long)p->newest);
    tp_buf_putc(out, '}');
}

static int read_mode(const char *name, enum td_train_mode *mode)
{
    for (int i = 0; i <= TD_TRAIN_PRETRAIN; i++)
        if (strcmp(name, td_train_mode_name((enum td_train_mode)i)) == 0) {
            *mode = (enum td_train_mode)i;
            return 0;
        }
    return -1;
}

int td_train_params_read(struct td_train_params *p, const char *json, struct tp_err *e)
{
    json_t *o = json_loads(json, 0, NULL);
    const json_t *sources = json_object_get(o, "sources"), *x;
    json_int_t seed, per_task;
    const char *activate, *mode;
    double max_seconds;
    size_t i;
    int rc = 0;

    memset(p, 0, sizeof *p);
    if (o == NULL ||
        json_unpack(o, "{s:s, s:F, s:I, s:I, s:s}", "mode", &mode, "max_seconds", &max_seconds, "seed", &seed,
                    "per_task", &per_task, "activate", &activate) != 0 ||
        read_mode(mode, &p->mode) != 0) {
        rc = tp_fail(e, TP_E_INTERNAL, "the parameters of the job do not read");
    } else {
        p->epochs = json_integer_value(json_object_get(o, "epochs")); /* 0 for null */
        p->max_seconds = max_seconds;
        p->seed = seed;
        p->per_task = per_task;
        p->never = strcmp(activate, "never") == 0;
        p->automatic = json_is_true(json_object_get(o, "automatic"));
        p->newest = json_integer_value(json_object_get(o, "newest_measurement"));
        json_array_foreach(sources, i, x)
        {
            if (p->n_sources < TD_TRAIN_SOURCES_MAX)
                snprintf(p->source[p->n_sources++], sizeof p->source[0], "%s", json_string_value(x));
        }
    }
    json_decref(o);
    return rc;
}
