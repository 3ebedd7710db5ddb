/* tclctl status, hardware, similar. */
#include "clients/ctl/ctl.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct ctl_opt ctl_hardware_opts[] = {
    {"target", "TARGET", "add: TVM target, for example \"llvm -mcpu=core-avx2\"; needed for a new one"},
    {"family", "NAME", "add: hardware that shares one knowledge base (by default its kind)"},
    {"kind", "KIND", "add: cpu, gpu or accelerator (by default from the target)"},
    {"set", "KEY=NUMBER", "add: of the descriptor, for example num_cores=64; may be given several times"},
    {"purge", NULL, "remove: with its measurements and models"},
    {0}};

/* ---- status ---- */

static const char *checks(struct ctl *c, bool *ready)
{
    struct tc_reply r = {0};
    const char *text = "";
    if (!tc_call(c->http, &(struct tc_request){.path = "/readyz?verbose"}, &r, NULL)) {
        *ready = r.status == 200;
        text = ctl_printf(c, "%s", r.body.p);
    }
    tc_reply_free(&r);
    return text;
}

static void cell_model(struct ctl_table *t, const json_t *h)
{
    ctl_cell_int(t, h, "/active_model");
    ctl_cell_int(t, h, "/kb_model");
}

/* The list tells no counts: those come from each. Takes list. */
static int details(struct ctl *c, json_t *list, json_t **out)
{
    json_t *all = json_array(), *x;
    size_t i;
    int rc = CTL_OK;

    json_array_foreach(list, i, x)
    {
        json_t *one = NULL;
        const char *name = tc_str(x, "/name");
        rc = ctl_call(c, "GET", ctl_path(c, "/v1/hardware/%s", name ? name : ""), NULL, &one);
        if (rc)
            break;
        json_array_append_new(all, one);
    }
    json_decref(list);
    if (rc)
        json_decref(all);
    else
        *out = all;
    return rc;
}

static void print_hardware(struct ctl *c, const json_t *list)
{
    static const char *const heads[] = {"HARDWARE", "FAMILY", "KIND", "MEASURED", "TASKS",  "FAILED",
                                        "SELECTED", "MODEL",  "KB",   "NEW",      "TARGET", NULL};
    struct ctl_table *t = ctl_table_new(c, heads);
    const json_t *h;
    size_t i;

    json_array_foreach(list, i, h)
    {
        ctl_cell_str(t, h, "/name");
        ctl_cell_str(t, h, "/family");
        ctl_cell_str(t, h, "/kind");
        ctl_cell_int(t, h, "/counts/measurements");
        ctl_cell_int(t, h, "/counts/tasks");
        ctl_cell_int(t, h, "/counts/failures");
        ctl_cell_int(t, h, "/counts/candidates/selected");
        cell_model(t, h);
        ctl_cell_int(t, h, "/staleness");
        ctl_cell_str(t, h, "/target");
    }
    ctl_table_print(t);
}

int ctl_status(struct ctl *c, const struct ctl_args *a)
{
    json_t *meta = NULL, *hardware = NULL, *jobs = NULL, *queued = NULL;
    bool ready = false;
    const char *text = "";
    int rc = ctl_call(c, "GET", "/v1", NULL, &meta);

    (void)a;
    if (!rc)
        text = checks(c, &ready);
    if (!rc)
        rc = ctl_list(c, "/v1/hardware", 0, &hardware);
    if (!rc)
        rc = details(c, hardware, &hardware);
    if (!rc)
        rc = ctl_list(c, "/v1/jobs?state=running", 0, &jobs);
    if (!rc)
        rc = ctl_list(c, "/v1/jobs?state=queued", 0, &queued);
    if (rc)
        goto out;
    json_array_extend(jobs, queued);
    if (c->json) {
        json_t *j = json_pack("{s:s, s:O, s:b, s:s, s:O, s:O}", "url", c->url, "daemon", meta, "ready", (int)ready,
                              "checks", text, "hardware", hardware, "jobs", jobs);
        ctl_json_out(j);
        json_decref(j);
    } else {
        printf("tcld %s at %s (features %s, %s)\n", tc_str(meta, "/version"), c->url, tc_str(meta, "/features_version"),
               tc_str(meta, "/build"));
        printf("%s\n%s\n", ready ? "ready" : "NOT READY", ready ? "" : text);
        print_hardware(c, hardware);
        putchar('\n');
        if (json_array_size(jobs))
            ctl_print_jobs(c, jobs);
        else
            printf("no job is running or queued\n");
    }
    if (!ready)
        rc = ctl_fail(c, CTL_FAILED, "tcld is not ready");
out:
    json_decref(meta);
    json_decref(hardware);
    json_decref(jobs);
    json_decref(queued);
    return rc;
}

/* ---- hardware ---- */

static int list(struct ctl *c)
{
    json_t *items = NULL;
    int rc = ctl_list(c, "/v1/hardware", 0, &items);
    if (!rc)
        rc = details(c, items, &items);
    if (rc)
        return rc;
    if (c->json)
        ctl_json_out(items);
    else
        print_hardware(c, items);
    json_decref(items);
    return CTL_OK;
}

static void print_tree(const json_t *o, const char *prefix)
{
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)(uintptr_t)o, key, v)
    {
        char name[128];
        snprintf(name, sizeof name, "%s%s", prefix, key);
        if (json_is_object(v) && json_object_size(v)) {
            char deeper[130];
            snprintf(deeper, sizeof deeper, "%s.", name);
            if (strlen(prefix) < 64)
                print_tree(v, deeper);
            continue;
        }
        printf("%-28s ", name);
        if (json_is_string(v))
            printf("%s\n", json_string_value(v));
        else
            ctl_json_out(v);
    }
}

void ctl_print_object(struct ctl *c, const json_t *o)
{
    if (c->json)
        ctl_json_out(o);
    else
        print_tree(o, "");
}

static int show(struct ctl *c, const char *hw)
{
    json_t *h = NULL;
    int rc = ctl_call(c, "GET", ctl_path(c, "/v1/hardware/%s", hw), NULL, &h);
    if (!rc)
        ctl_print_object(c, h);
    json_decref(h);
    return rc;
}

static int put_descriptor(struct ctl *c, const struct ctl_args *a, json_t *descriptor)
{
    for (int i = 0; i < a->n_given; i++) {
        const char *text = a->given[i].value, *eq = strchr(text, '=');
        double v;
        long long whole;
        char *end;
        if (strcmp(a->given[i].name, "set"))
            continue;
        if (!eq || eq == text || ctl_read_num(c, "--set", eq + 1, &v))
            return ctl_fail(c, CTL_USAGE, "--set %s: KEY=NUMBER is wanted, for example num_cores=64", text);
        errno = 0;
        whole = strtoll(eq + 1, &end, 10);
        json_object_set_new(descriptor, ctl_printf(c, "%.*s", (int)(eq - text), text),
                            *end || errno ? json_real(v) : json_integer(whole));
    }
    return CTL_OK;
}

static int add(struct ctl *c, const struct ctl_args *a, const char *hw)
{
    json_t *body = json_object(), *descriptor = json_object(), *h = NULL;
    int rc = put_descriptor(c, a, descriptor);

    ctl_put_str(a, "target", body, "target");
    ctl_put_str(a, "family", body, "family");
    ctl_put_str(a, "kind", body, "kind");
    json_object_set_new(body, "descriptor", descriptor);
    if (rc) {
        json_decref(body);
        return rc;
    }
    rc = ctl_call(c, "PUT", ctl_path(c, "/v1/hardware/%s", hw), body, &h);
    if (!rc && c->json)
        ctl_json_out(h);
    else if (!rc)
        printf("%s: family %s, kind %s, target %s\n", tc_str(h, "/name"), tc_str(h, "/family"), tc_str(h, "/kind"),
               tc_str(h, "/target"));
    json_decref(h);
    return rc;
}

int ctl_hardware(struct ctl *c, const struct ctl_args *a)
{
    const char *verb = a->n ? a->word[0] : "list", *hw = a->n == 2 ? a->word[1] : NULL;

    if (!strcmp(verb, "list") && !hw)
        return list(c);
    if (!strcmp(verb, "show") && hw)
        return show(c, hw);
    if (!strcmp(verb, "add") && hw)
        return add(c, a, hw);
    if (!strcmp(verb, "remove") && hw)
        return ctl_call(c, "DELETE",
                        ctl_path(c, ctl_has(a, "purge") ? "/v1/hardware/%s?purge=true" : "/v1/hardware/%s", hw), NULL,
                        NULL);
    return ctl_fail(c, CTL_USAGE, "usage: tclctl hardware %s", c->command->usage);
}

/* ---- similar ---- */

int ctl_similar(struct ctl *c, const struct ctl_args *a)
{
    static const char *const heads[] = {"HARDWARE", "SIMILARITY", "CONCORDANCE", "RECOMMENDED", "REASON", NULL};
    json_t *reply = NULL, *x;
    size_t i, measured = 0;
    int rc = ctl_call(c, "GET", ctl_path(c, "/v1/hardware/%s/similar", a->word[0]), NULL, &reply);

    if (rc)
        return rc;
    if (c->json) {
        ctl_json_out(tc_at(reply, "/items"));
    } else if (!json_array_size(tc_at(reply, "/items"))) {
        printf("there is no hardware but %s to learn from; tclctl hardware add registers more\n", a->word[0]);
    } else {
        struct ctl_table *t = ctl_table_new(c, heads);
        json_array_foreach(tc_at(reply, "/items"), i, x)
        {
            double alike = tc_num(x, "/similarity"), concordance = tc_num(x, "/measured_transfer_gain");
            ctl_cell_str(t, x, "/hardware");
            ctl_cell_num(t, alike > 0 ? alike : (double)NAN, "%.3f"); /* 0: their descriptors have no key in common */
            ctl_cell_num(t, concordance, "%.3f");
            measured += !isnan(concordance);
            ctl_cell(t, "%s", json_is_true(tc_at(x, "/recommended")) ? "yes" : "no");
            ctl_cell_str(t, x, "/reason");
        }
        ctl_table_print(t);
        if (measured)
            ctl_note(c, "concordance: the share of pairs of %s's programs that its model orders right; 0.5 is chance",
                     a->word[0]);
    }
    json_decref(reply);
    return CTL_OK;
}
