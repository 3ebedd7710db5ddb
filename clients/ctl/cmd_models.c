/* tclctl models, activate, rollback. */
#include "clients/ctl/ctl.h"

#include <math.h>
#include <string.h>

const struct ctl_opt ctl_models_opts[] = {{"family", NULL, "the word is a family: its knowledge bases"},
                                          {"output", "FILE", "weights: instead of stdout (also -o)"},
                                          {"activate", NULL, "import: let it answer at once"},
                                          {"limit", "N", "at most so many (20; 0: all)"},
                                          {0}};
const struct ctl_opt ctl_activate_opts[] = {{"family", NULL, "the word is a family: its knowledge base"},
                                            {"force", NULL, "a model that was rejected, too"},
                                            {0}};
const struct ctl_opt ctl_rollback_opts[] = {{"family", NULL, "the word is a family: its knowledge base"}, {0}};

static int list(struct ctl *c, const struct ctl_args *a)
{
    static const char *const heads[] = {"ID",    "ACTIVE",  "ROLE",  "STATE",    "FEATURES", "RECORDS",
                                        "TASKS", "PARENTS", "TOP-1", "PAIRWISE", "AGO",      NULL};
    const char *limit = ctl_get(a, "limit");
    json_t *items = NULL, *x;
    long long most = 20;
    size_t i;
    int rc = limit ? ctl_read_int(c, "--limit", limit, 0, &most) : CTL_OK;

    if (!rc)
        rc = ctl_list(
            c, ctl_path(c, ctl_has(a, "family") ? "/v1/families/%s/models" : "/v1/hardware/%s/models", a->word[0]),
            (size_t)most, &items);
    if (rc)
        return rc;
    if (c->json) {
        ctl_json_out(items);
        json_decref(items);
        return CTL_OK;
    }
    struct ctl_table *t = ctl_table_new(c, heads);
    json_array_foreach(items, i, x)
    {
        const json_t *e = tc_at(x, "/metrics/evaluation/held_out");
        char *parents = json_dumps(tc_at(x, "/parents"), JSON_COMPACT | JSON_ENCODE_ANY);
        if (!json_is_object(e))
            e = tc_at(x, "/metrics/challenger");
        ctl_cell_int(t, x, "/id");
        ctl_cell(t, "%s", json_is_true(tc_at(x, "/active")) ? "yes" : "no");
        ctl_cell_str(t, x, "/role");
        ctl_cell_str(t, x, "/state");
        ctl_cell_str(t, x, "/features_version");
        ctl_cell_int(t, x, "/records");
        ctl_cell_int(t, x, "/tasks");
        ctl_cell(t, "%s", parents && strcmp(parents, "[]") ? parents : "-");
        ctl_cell_num(t, tc_num(e, "/top1_mean"), "%.3f");
        ctl_cell_num(t, tc_num(e, "/pairwise"), "%.3f");
        ctl_cell(t, "%s", ctl_age(c, tc_str(x, "/created")));
        free(parents);
    }
    ctl_table_print(t);
    json_decref(items);
    return CTL_OK;
}

static int show(struct ctl *c, const char *id)
{
    json_t *m = NULL;
    int rc = ctl_call(c, "GET", ctl_path(c, "/v1/models/%s", id), NULL, &m);
    if (!rc)
        ctl_print_object(c, m);
    json_decref(m);
    return rc;
}

static int import(struct ctl *c, const struct ctl_args *a, const char *hw, const char *file)
{
    struct tp_buf b = {0};
    struct tc_reply r = {0};
    int rc = CTL_OK;

    if (tc_read_file(file, &b, &c->err))
        return CTL_FAILED;
    struct tc_request q = {
        .method = "POST",
        .path =
            ctl_path(c, ctl_has(a, "activate") ? "/v1/hardware/%s/models?activate=true" : "/v1/hardware/%s/models", hw),
        .body = b.p ? b.p : "",
        .n = b.n,
        .content_type = "application/octet-stream"};
    if (tc_call(c->http, &q, &r, &c->err))
        rc = ctl_stopped() ? CTL_INTERRUPTED : CTL_NO_ANSWER;
    else if (r.status != 201) {
        rc = ctl_refused(c, &r);
    } else if (c->json) {
        printf("%s\n", r.body.p);
    } else {
        json_t *j = tc_reply_json(&r, NULL);
        printf("model %lld%s\n", (long long)tc_int(j, "/id", 0), ctl_has(a, "activate") ? ", active" : "");
        json_decref(j);
    }
    tc_reply_free(&r);
    tp_buf_free(&b);
    return rc;
}

int ctl_models(struct ctl *c, const struct ctl_args *a)
{
    const char *verb = a->word[0];

    if (a->n == 2 && !strcmp(verb, "show"))
        return show(c, a->word[1]);
    if (a->n == 2 && !strcmp(verb, "weights"))
        return ctl_download(c, "GET", ctl_path(c, "/v1/models/%s/weights", a->word[1]), ctl_get(a, "output"), NULL);
    if (a->n == 3 && !strcmp(verb, "import"))
        return import(c, a, a->word[1], a->word[2]);
    if (a->n == 1)
        return list(c, a);
    return ctl_fail(c, CTL_USAGE, "usage: tclctl models %s", c->command->usage);
}

/* ---- which one answers ---- */

struct owner {
    const char *name;
    bool family;
};

static struct owner owner_of(const struct ctl_args *a)
{
    return (struct owner){.name = a->word[0], .family = ctl_has(a, "family")};
}

static const char *path_of(struct ctl *c, const struct owner *o, const char *below)
{
    return ctl_printf(c, "%s%s", ctl_path(c, o->family ? "/v1/families/%s" : "/v1/hardware/%s", o->name), below);
}

/* model: taken. says: what then answers. */
static int activate(struct ctl *c, const struct owner *o, json_t *model, const char *says)
{
    json_t *m = NULL;
    int rc = ctl_call(c, "POST", path_of(c, o, "/activate"), json_pack("{s:o}", "model", model), &m);

    if (!rc && c->json)
        ctl_json_out(m);
    else if (!rc)
        printf("%s %s %s\n", says, o->family ? "is the knowledge base of" : "answers for", o->name);
    json_decref(m);
    return rc;
}

static int activate_id(struct ctl *c, const struct owner *o, long long id)
{
    return activate(c, o, json_integer(id), ctl_printf(c, "model %lld", id));
}

/* A model that lost against the one of its time is not activated by a slip. */
static int may_answer(struct ctl *c, long long id)
{
    json_t *m = NULL;
    int rc = ctl_call(c, "GET", ctl_printf(c, "/v1/models/%lld", id), NULL, &m);
    const char *state = tc_str(m, "/state");

    if (!rc && state && !strcmp(state, "rejected"))
        rc = ctl_fail(c, CTL_USAGE, "model %lld was rejected when it was trained; --force activates it all the same",
                      id);
    json_decref(m);
    return rc;
}

int ctl_activate(struct ctl *c, const struct ctl_args *a)
{
    const struct owner o = owner_of(a);
    long long id = 0;
    int rc;

    if (!strcmp(a->word[1], "kb") && !o.family)
        return activate(c, &o, json_string("kb"), "the knowledge base");
    rc = ctl_read_int(c, "the id of a model", a->word[1], 1, &id);
    if (!rc && !ctl_has(a, "force"))
        rc = may_answer(c, id);
    return rc ? rc : activate_id(c, &o, id);
}

/* Of models (newest first) that did not lose against the champion of their time: where one is active, of those older
 * than it, the one that answered last, or the newest when tcld does not know of any; where none is, the one that
 * answered last. 0: none. */
static long long model_before(const json_t *items, bool *active)
{
    double latest = NAN;
    const json_t *x;
    long long to = 0;
    bool behind;
    size_t i;

    *active = false;
    json_array_foreach(items, i, x)
    {
        *active |= json_is_true(tc_at(x, "/active"));
    }
    behind = !*active;
    json_array_foreach(items, i, x)
    {
        const char *state = tc_str(x, "/state");
        double at = ctl_time(tc_str(x, "/activated"));
        /* one that was never active may be of an older tcld that did not tell, but not a candidate */
        bool good = behind && state && strcmp(state, "rejected") && !(isnan(at) && !strcmp(state, "candidate"));
        if (good && (isnan(at) ? *active && !to : isnan(latest) || at > latest)) {
            to = tc_int(x, "/id", 0);
            latest = at;
        }
        behind |= json_is_true(tc_at(x, "/active"));
    }
    return to;
}

int ctl_rollback(struct ctl *c, const struct ctl_args *a)
{
    const struct owner o = owner_of(a);
    const char *what = o.family ? "family" : "hardware", *flag = o.family ? " --family" : "";
    json_t *items = NULL;
    bool active;
    int rc = ctl_list(c, path_of(c, &o, "/models"), 0, &items);

    if (rc)
        return rc;
    long long to = model_before(items, &active);
    json_decref(items);
    if (!to && !active)
        return ctl_fail(c, CTL_REFUSED, "%s %s has no active model of its own; tclctl models%s %s lists all", what,
                        o.name, flag, o.name);
    if (!to)
        return ctl_fail(c, CTL_REFUSED, "%s %s has no model before the active one; tclctl models%s %s lists all", what,
                        o.name, flag, o.name);
    return activate_id(c, &o, to);
}
