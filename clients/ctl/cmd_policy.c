/* tclctl policy: when hardware retrains by itself. A policy is given whole: what is not named is off. */
#include "clients/ctl/ctl.h"

#include <math.h>
#include <string.h>

const struct ctl_opt ctl_policy_opts[] = {{"measurements", "N", "retrain after so many new measurements"},
                                          {"drift", "X", "retrain when the latency error is X times as large"},
                                          {"cooldown", "SECONDS", "from the start of the last retrain (3600)"},
                                          {"off", NULL, "never"},
                                          {0}};

static void print_policy(struct ctl *c, const char *hw, const json_t *p)
{
    long long n = tc_int(p, "/measurements", 0);
    double drift = tc_num(p, "/drift");

    if (c->json)
        ctl_json_out(p);
    else if (!n && isnan(drift))
        printf("%s never retrains by itself\n", hw);
    else
        printf("%s retrains by itself%s%s%s, at the earliest %lld s after the last retrain began\n", hw,
               n ? ctl_printf(c, " after %lld new measurements", n) : "", n && !isnan(drift) ? ", or" : "",
               isnan(drift) ? "" : ctl_printf(c, " when the error of its latencies has grown %g-fold", drift),
               (long long)tc_int(p, "/cooldown_seconds", 0));
}

int ctl_policy(struct ctl *c, const struct ctl_args *a)
{
    const char *hw = a->word[0];
    bool some = ctl_has(a, "measurements") || ctl_has(a, "drift"), off = ctl_has(a, "off");
    json_t *body, *reply = NULL;
    int rc;

    if ((off && (some || ctl_has(a, "cooldown"))) || (!some && ctl_has(a, "cooldown")))
        return ctl_fail(c, CTL_USAGE,
                        off ? "--off goes with no other option" : "--cooldown goes with --measurements or --drift");
    if (!some && !off) {
        rc = ctl_call(c, "GET", ctl_path(c, "/v1/hardware/%s", hw), NULL, &reply);
        if (!rc)
            print_policy(c, hw, tc_at(reply, "/policy"));
        json_decref(reply);
        return rc;
    }
    body = json_object();
    rc = ctl_put_int(c, a, "measurements", body, "measurements", 1);
    if (!rc)
        rc = ctl_put_num(c, a, "drift", body, "drift");
    if (!rc)
        rc = ctl_put_int(c, a, "cooldown", body, "cooldown_seconds", 0);
    if (rc) {
        json_decref(body);
        return rc;
    }
    rc = ctl_call(c, "PUT", ctl_path(c, "/v1/hardware/%s/policy", hw), body, &reply);
    if (!rc)
        print_policy(c, hw, reply);
    json_decref(reply);
    return rc;
}
