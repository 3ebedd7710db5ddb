/* tclctl lease: what a measurement agent asks for, by hand, and the end of what an agent that is gone holds. The
 * records go to stdout as log lines. */
#include "clients/ctl/ctl.h"

#include <string.h>

const struct ctl_opt ctl_lease_opts[] = {{"agent", "NAME", "who takes them, needed; end: whose leases (all)"},
                                         {"max", "N", "at most so many (64)"},
                                         {"ttl", "SECONDS", "how long the lease lasts"},
                                         {0}};

static int take(struct ctl *c, const struct ctl_args *a)
{
    json_t *body = json_object(), *lease = NULL, *x;
    const char *token;
    size_t i;
    int rc = ctl_put_int(c, a, "max", body, "max", 1);

    ctl_put_str(a, "agent", body, "agent");
    if (!rc)
        rc = ctl_put_num(c, a, "ttl", body, "ttl_seconds");
    if (rc) {
        json_decref(body);
        return rc;
    }
    rc = ctl_call(c, "POST", ctl_path(c, "/v1/hardware/%s/leases", a->word[0]), body, &lease);
    if (rc)
        return rc;
    token = tc_str(lease, "/lease");
    if (c->json) {
        ctl_json_out(lease);
    } else {
        json_array_foreach(tc_at(lease, "/candidates"), i, x)
        {
            ctl_json_out(tc_at(x, "/record"));
        }
        if (token)
            ctl_note(c, "lease %s, %zu candidates, until %s", token, json_array_size(tc_at(lease, "/candidates")),
                     tc_str(lease, "/expires"));
        else
            ctl_note(c, "nothing is selected: tclctl select chooses");
    }
    json_decref(lease);
    return CTL_OK;
}

static int renew(struct ctl *c, const struct ctl_args *a, const char *lease, json_t **reply)
{
    json_t *body = json_object();
    int rc = ctl_put_num(c, a, "ttl", body, "ttl_seconds");

    if (!rc)
        return ctl_call(c, "POST", ctl_path(c, "/v1/leases/%s/renew", lease), body, reply);
    json_decref(body);
    return rc;
}

static int end(struct ctl *c, const struct ctl_args *a, const char *hw, json_t **reply)
{
    const char *agent = ctl_get(a, "agent"), *path = agent ? ctl_path(c, "/v1/hardware/%s/leases?agent=%s", hw, agent)
                                                           : ctl_path(c, "/v1/hardware/%s/leases", hw);

    return ctl_call(c, "DELETE", path, NULL, reply);
}

int ctl_lease(struct ctl *c, const struct ctl_args *a)
{
    const char *verb = a->word[0], *of = a->n == 2 ? a->word[1] : NULL;
    json_t *reply = NULL;
    int rc;

    if (!of && strcmp(verb, "return") && strcmp(verb, "renew") && strcmp(verb, "end"))
        return take(c, a);
    if (of && !strcmp(verb, "return"))
        rc = ctl_call(c, "DELETE", ctl_path(c, "/v1/leases/%s", of), NULL, &reply);
    else if (of && !strcmp(verb, "renew"))
        rc = renew(c, a, of, &reply);
    else if (of && !strcmp(verb, "end"))
        rc = end(c, a, of, &reply);
    else
        return ctl_fail(c, CTL_USAGE, "usage: tclctl lease %s", c->command->usage);
    if (!rc)
        ctl_print_object(c, reply);
    json_decref(reply);
    return rc;
}
