/* Leases: what every route does and every way in which it refuses, restarts and full disks.
 *
 * All tests of a case share its daemon and each uses hardware names of its own, so that they do not meet. No clock
 * decides but as a generous upper bound; the one test of expiry waits for a lease of one second. */
#include "tests/http/pool.h"

#include <sys/resource.h>

START_TEST(a_lease_holds_the_highest_scores_as_records)
{
    bb_put_hardware("lease");
    pool("lease", 0, 40);
    const json_t *list = json_object_get(chosen("lease", "{\"budget\": 10}"), "selected");
    struct bb_reply *r = lease("lease", "rack7-n3", 4, 60), *s = lease("lease", "rack7-n4", 100, 60);
    ck_assert_uint_eq(leased(r), 4);
    ck_assert_uint_eq(strlen(tc_str(r->json, "/lease")), 32);
    ck_assert_str_ne(tc_str(r->json, "/lease"), tc_str(s->json, "/lease"));
    ck_assert_uint_eq(strlen(tc_str(r->json, "/expires")) >= 20, 1);
    for (size_t i = 0; i < 4; i++) {
        ck_assert_int_eq(leased_id(r, i), tc_int(json_array_get(list, i), "/id", 0));
        bb_counts(post("lease", "candidates", answer(r, i, "[[1], 0, 1, 1]")), 0, 1, 0);
    }
    ck_assert_uint_eq(leased(s), 5); /* an equal share of 10 by two */
    counts_are("lease", 30, 1, 9, 0, 0);
    struct bb_reply *c = bb_get("/v1/hardware/lease/candidates?state=leased&limit=1");
    ck_assert_ptr_nonnull(strstr(tc_str(c->json, "/items/0/agent"), "rack7-n"));
    ck_assert_ptr_nonnull(tc_str(c->json, "/items/0/expires"));
    ck_assert_ptr_null(strstr(c->body, tc_str(r->json, "/lease"))); /* a token is its holder's alone */
}
END_TEST

START_TEST(nothing_selected_is_an_empty_lease)
{
    bb_put_hardware("idle");
    for (int i = 0; i < 2; i++) {
        struct bb_reply *r = lease("idle", "a", 4, 60);
        ck_assert(json_is_null(json_object_get(r->json, "lease")));
        ck_assert(json_is_array(json_object_get(r->json, "candidates")));
        ck_assert_uint_eq(leased(r), 0);
        if (i == 0)
            pool("idle", 0, 3); /* pooled is not selected */
    }
}
END_TEST

START_TEST(a_measurement_closes_a_lease_whoever_posts_it)
{
    bb_put_hardware("closing");
    pool("closing", 0, 10);
    chosen("closing", "{\"fraction\": 1}");
    struct bb_reply *l = lease("closing", "a", 3, 60);
    struct bb_text good = answer(l, 0, "[[0.001], 0, 0.1, 1700000000]"),
                   bad = answer(l, 1, "[[1e+10], 4, 0.1, 1700000000]");
    bb_counts(post("closing", "measurements?agent=b", good), 1, 0, 0);
    counts_are("closing", 0, 7, 2, 1, 0);
    bb_counts(post("closing", "measurements?agent=a", good), 0, 1, 0); /* no answer came: posted again */
    bb_counts(post("closing", "measurements", bad), 1, 0, 0);
    counts_are("closing", 0, 7, 1, 1, 1);
    bb_counts(post("closing", "measurements", answer(l, 2, "[[0.002], 0, 0.1, 1700000000]")), 1, 0, 0);
    counts_are("closing", 0, 7, 0, 2, 1);
    bb_problem(bb_json("POST", "", "/v1/leases/%s/renew", tc_str(l->json, "/lease")), 404, "unknown-lease");
    bb_counts(post("closing", "candidates", good), 0, 1, 0);
    bb_counts(post("closing", "candidates", bad), 0, 1, 0);
    ck_assert_uint_eq(leased(lease("closing", "a", 100, 60)), 7);
}
END_TEST

START_TEST(a_duplicate_of_its_agent_closes_a_lease_too)
{
    bb_put_hardware("again");
    bb_counts(post("again", "measurements", bb_records(0, 1)), 1, 0, 0);
    bb_counts(post("again", "candidates?repeat=2", unmeasured(0, 1)), 1, 0, 0);
    chosen("again", "{\"budget\": 1}");
    ck_assert_uint_eq(leased(lease("again", "a", 1, 60)), 1);
    bb_counts(post("again", "measurements", bb_records(0, 1)), 0, 1, 0); /* a log that is read again, say */
    counts_are("again", 0, 0, 1, 0, 0);
    bb_counts(post("again", "measurements?agent=a", bb_records(0, 1)), 0, 1, 0);
    counts_are("again", 0, 1, 0, 0, 0);
    struct bb_reply *l = lease("again", "a", 1, 60);
    ck_assert_uint_eq(leased(l), 1);
    bb_counts(post("again", "measurements", answer(l, 0, "[[0.5], 0, 0.1, 1700000001]")), 1, 0, 0);
    counts_are("again", 0, 0, 0, 1, 0);
}
END_TEST

/* a got no answer and posts again, while b measures once more. */
START_TEST(a_duplicate_of_another_agent_leaves_a_lease_alone)
{
    bb_put_hardware("twice");
    bb_counts(post("twice", "candidates?repeat=2", unmeasured(0, 1)), 1, 0, 0);
    chosen("twice", "{\"budget\": 1}");
    ck_assert_uint_eq(leased(lease("twice", "a", 1, 60)), 1);
    bb_counts(post("twice", "measurements?agent=a", bb_records(0, 1)), 1, 0, 0);
    ck_assert_uint_eq(leased(lease("twice", "b", 1, 60)), 1);
    bb_counts(post("twice", "measurements?agent=a", bb_records(0, 1)), 0, 1, 0);
    counts_are("twice", 0, 0, 1, 0, 0);
    ck_assert_uint_eq(leased(lease("twice", "c", 1, 60)), 0);
    bb_counts(post("twice", "measurements?agent=b", bb_records(0, 1)), 0, 1, 0); /* its own */
    counts_are("twice", 0, 1, 0, 0, 0);
}
END_TEST

START_TEST(a_returned_lease_can_be_taken_at_once)
{
    bb_put_hardware("returning");
    pool("returning", 0, 6);
    chosen("returning", "{\"fraction\": 1}");
    struct bb_reply *l = lease("returning", "a", 6, 600);
    bb_counts(post("returning", "measurements", answer(l, 0, "[[0.001], 0, 0.1, 1]")), 1, 0, 0);
    struct bb_reply *r = bb_delete("/v1/leases/%s", tc_str(l->json, "/lease"));
    bb_status(r, 200);
    ck_assert_int_eq(tc_int(r->json, "/returned", -1), 5);
    counts_are("returning", 0, 5, 0, 1, 0);
    bb_problem(bb_delete("/v1/leases/%s", tc_str(l->json, "/lease")), 404, "unknown-lease");
    ck_assert_uint_eq(leased(lease("returning", "b", 6, 600)), 5);
}
END_TEST

START_TEST(a_lease_that_runs_out_gives_back_and_a_renewed_one_does_not)
{
    bb_put_hardware("expiring");
    pool("expiring", 0, 8);
    chosen("expiring", "{\"fraction\": 1}");
    struct bb_reply *dies = lease("expiring", "a", 3, 1), *lives = lease("expiring", "b", 3, 1);
    struct bb_reply *r =
        bb_json("POST", "{\"ttl_seconds\": 600}", "/v1/leases/%s/renew", tc_str(lives->json, "/lease"));
    bb_status(r, 200);
    ck_assert_str_eq(tc_str(r->json, "/lease"), tc_str(lives->json, "/lease"));
    ck_assert_str_gt(tc_str(r->json, "/expires"), tc_str(lives->json, "/expires"));
    ck_assert_int_eq(tc_int(r->json, "/open", -1), 3);
    for (int i = 0; i < 300; i++) { /* the sweep sees to it, without anybody asking for a lease */
        tc_sleep(0.1);
        r = bb_get("/v1/hardware/expiring");
        if (tc_int(r->json, "/counts/candidates/leased", -1) == 3)
            break;
    }
    counts_are("expiring", 0, 5, 3, 0, 0);
    bb_problem(bb_json("POST", "", "/v1/leases/%s/renew", tc_str(dies->json, "/lease")), 404, "unknown-lease");
    bb_problem(bb_delete("/v1/leases/%s", tc_str(dies->json, "/lease")), 404, "unknown-lease");
    r = bb_get("/metrics");
    ck_assert_ptr_nonnull(strstr(r->body, "tcld_leased_candidates_total{event=\"expired\"} 3"));
    /* a measurement that comes late counts all the same */
    bb_counts(post("expiring", "measurements", answer(dies, 0, "[[0.001], 0, 0.1, 1]")), 1, 0, 0);
    counts_are("expiring", 0, 4, 3, 1, 0);
}
END_TEST

static struct bb_reply *ends(const char *hw, const char *query, int leases, int returned)
{
    struct bb_reply *r = bb_delete("/v1/hardware/%s/leases%s", hw, query);
    bb_status(r, 200);
    ck_assert_int_eq(tc_int(r->json, "/leases", -1), leases);
    ck_assert_int_eq(tc_int(r->json, "/returned", -1), returned);
    return r;
}

START_TEST(the_leases_of_an_agent_that_is_gone_are_ended_without_their_tokens)
{
    bb_put_hardware("ending");
    pool("ending", 0, 12);
    chosen("ending", "{\"fraction\": 1}");
    struct bb_reply *one = lease("ending", "gone", 2, 86400), *two = lease("ending", "gone", 1, 60),
                    *lives = lease("ending", "lives", 3, 60);
    bb_counts(post("ending", "measurements", answer(one, 0, "[[0.001], 0, 0.1, 1]")), 1, 0, 0);
    struct bb_reply *r = ends("ending", "?agent=gone", 2, 2);
    ck_assert_ptr_null(strstr(r->body, tc_str(lives->json, "/lease")));
    counts_are("ending", 0, 8, 3, 1, 0);
    bb_problem(bb_json("POST", "", "/v1/leases/%s/renew", tc_str(one->json, "/lease")), 404, "unknown-lease");
    bb_problem(bb_delete("/v1/leases/%s", tc_str(two->json, "/lease")), 404, "unknown-lease");
    bb_status(bb_json("POST", "", "/v1/leases/%s/renew", tc_str(lives->json, "/lease")), 200);
    /* it lives after all: what it measures counts, and nobody measures that again */
    bb_counts(post("ending", "measurements?agent=gone", answer(one, 1, "[[0.001], 0, 0.1, 1]")), 1, 0, 0);
    counts_are("ending", 0, 7, 3, 2, 0);
    ends("ending", "?agent=gone", 0, 0);
    r = bb_get("/metrics");
    ck_assert_ptr_nonnull(strstr(r->body, "tcld_leased_candidates_total{event=\"ended\"} 2"));
}
END_TEST

START_TEST(all_leases_of_a_hardware_are_ended_and_no_others)
{
    bb_put_hardware("all");
    bb_put_hardware("others");
    pool("all", 0, 6);
    pool("others", 0, 6);
    chosen("all", "{\"fraction\": 1}");
    chosen("others", "{\"fraction\": 1}");
    lease("all", "a", 2, 60);
    lease("all", "b", 2, 60);
    lease("others", "a", 2, 60);
    ends("all", "", 2, 4);
    counts_are("all", 0, 6, 0, 0, 0);
    counts_are("others", 0, 4, 2, 0, 0);
    ck_assert_uint_eq(leased(lease("all", "c", 9, 60)), 6);
}
END_TEST

START_TEST(bad_ends_of_leases_are_refused)
{
    bb_put_hardware("held");
    pool("held", 0, 3);
    chosen("held", "{\"fraction\": 1}");
    lease("held", "a", 3, 60);
    bb_problem(bb_delete("/v1/hardware/held/leases?agent=A"), 400, "bad-identifier");
    bb_problem(bb_delete("/v1/hardware/held/leases?agent="), 400, "bad-identifier"); /* not all of them */
    bb_problem(bb_delete("/v1/hardware/held/leases?name=a"), 400, "bad-parameter");
    bb_problem(bb_delete("/v1/hardware/none-such/leases"), 404, "unknown-hardware");
    bb_problem(bb_delete("/v1/hardware/No/leases"), 400, "bad-identifier");
    struct bb_reply *r = bb_get("/v1/hardware/held/leases");
    bb_problem(r, 405, "method-not-allowed");
    ck_assert_str_eq(bb_header(r, "Allow"), "POST, DELETE, OPTIONS");
    counts_are("held", 0, 0, 3, 0, 0);
}
END_TEST

START_TEST(bad_leases_are_refused)
{
    static const struct {
        const char *body, *slug, *says;
    } bad[] = {
        {"", "bad-parameter", "agent"},
        {"{\"max\": 3}", "bad-parameter", "agent"},
        {"{\"agent\": \"A\"}", "bad-identifier", "/agent"},
        {"{\"agent\": \"a\\u0000b\"}", "bad-identifier", "/agent"},
        {"{\"agent\": 7}", "bad-identifier", "/agent"},
        {"{\"agent\": \"a\", \"max\": 0}", "bad-parameter", "/max"},
        {"{\"agent\": \"a\", \"max\": 1025}", "bad-parameter", "1024"},
        {"{\"agent\": \"a\", \"max\": \"all\"}", "bad-parameter", "/max"},
        {"{\"agent\": \"a\", \"ttl_seconds\": 0}", "bad-parameter", "/ttl_seconds"},
        {"{\"agent\": \"a\", \"ttl_seconds\": 86401}", "bad-parameter", "86400"},
        {"{\"agent\": \"a\", \"ttl\": 60}", "unknown-key", "/ttl"},
        {"{\"agent\": \"a\"", "bad-body", ""},
    };
    bb_put_hardware("unleased");
    pool("unleased", 0, 3);
    chosen("unleased", "{\"fraction\": 1}");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct bb_reply *r = bb_json("POST", bad[i].body, "/v1/hardware/unleased/leases");
        bb_problem(r, 400, bad[i].slug);
        ck_assert_msg(strstr(r->body, bad[i].says) != NULL, "%s: %s", bad[i].body, r->body);
    }
    bb_problem(bb_json("POST", "{\"agent\": \"a\"}", "/v1/hardware/none-such/leases"), 404, "unknown-hardware");
    bb_problem(bb_json("POST", "{\"agent\": \"a\"}", "/v1/hardware/unleased/leases?max=3"), 400, "bad-parameter");
    counts_are("unleased", 0, 3, 0, 0, 0);
    struct bb_reply *l = lease("unleased", "a", 1, 60);
    const char *token = tc_str(l->json, "/lease");
    bb_problem(bb_json("POST", "{\"ttl_seconds\": 0}", "/v1/leases/%s/renew", token), 400, "bad-parameter");
    bb_problem(bb_json("POST", "{\"ttl_seconds\": 86401}", "/v1/leases/%s/renew", token), 400, "bad-parameter");
    bb_problem(bb_json("POST", "{\"max\": 1}", "/v1/leases/%s/renew", token), 400, "unknown-key");
    bb_problem(bb_json("POST", "{", "/v1/leases/%s/renew", token), 400, "bad-body");
    bb_problem(bb_json("POST", "", "/v1/leases/%s/renew?x=1", token), 400, "bad-parameter");
    bb_problem(bb_delete("/v1/leases/%s?x=1", token), 400, "bad-parameter");
    bb_problem(bb_json("POST", "", "/v1/leases/0123/renew"), 404, "unknown-lease");
    bb_problem(bb_delete("/v1/leases/%%27%%20or%%201=1"), 404, "unknown-lease");
    bb_problem(bb_get("/v1/leases/%s", token), 405, "method-not-allowed");
    bb_problem(bb_get("/v1/leases/%s/renew", token), 405, "method-not-allowed");
    control_bodies_only("/v1/hardware/unleased/leases");
    control_bodies_only(bb_printf("/v1/leases/%s/renew", token).p);
    counts_are("unleased", 0, 2, 1, 0, 0);
}
END_TEST

START_TEST(deleting_hardware_takes_pool_and_leases_along)
{
    bb_put_hardware("gone");
    pool("gone", 0, 6);
    chosen("gone", "{\"budget\": 4}");
    struct bb_reply *l = lease("gone", "a", 2, 60);
    bb_counts(post("gone", "measurements", answer(l, 0, "[[0.001], 0, 0.1, 1]")), 1, 0, 0);
    bb_problem(bb_delete("/v1/hardware/gone"), 409, "conflict");
    bb_status(bb_delete("/v1/hardware/gone?purge=true"), 204);
    bb_problem(bb_delete("/v1/leases/%s", tc_str(l->json, "/lease")), 404, "unknown-lease");
    bb_put_hardware("gone");
    counts_are("gone", 0, 0, 0, 0, 0);
    pool("gone", 0, 6);
}
END_TEST

START_TEST(pool_selection_and_leases_survive_a_restart)
{
    char *dir = bb_path("kept");
    struct tc_daemon *d = bb_start(dir, NULL);
    bb_put_hardware("kept");
    pool("kept", 0, 9);
    chosen("kept", "{\"budget\": 6}");
    struct bb_reply *l = lease("kept", "a", 2, 600);
    tc_daemon_signal(d, SIGKILL);
    tc_daemon_wait(d, 30);
    tc_daemon_free(d);
    d = bb_start(dir, NULL);
    counts_are("kept", 3, 4, 2, 0, 0);
    bb_status(bb_json("POST", "", "/v1/leases/%s/renew", tc_str(l->json, "/lease")), 200);
    bb_counts(post("kept", "measurements", answer(l, 0, "[[0.001], 0, 0.1, 1]")), 1, 0, 0);
    counts_are("kept", 3, 4, 1, 1, 0);
    ends("kept", "?agent=a", 1, 1);
    bb_status(bb_delete("/v1/hardware/kept/candidates?state=pooled"), 200);
    bb_status(bb_delete("/v1/hardware/kept/candidates?state=selected"), 200);
    tc_daemon_signal(d, SIGKILL);
    tc_daemon_wait(d, 30);
    tc_daemon_free(d);
    d = bb_start(dir, NULL);
    counts_are("kept", 5, 0, 0, 1, 0);
    bb_stop(d);
}
END_TEST

static void limit_files(const struct tc_daemon *d, rlim_t bytes)
{
    struct rlimit l = {bytes, RLIM_INFINITY};
    ck_assert_int_eq(prlimit(tc_daemon_pid(d), RLIMIT_FSIZE, &l, NULL), 0);
}

/* No file can grow any more: every write is refused as 507, nothing is half done, and all goes on when there is room.
 */
START_TEST(a_full_disk_refuses_every_write_and_loses_nothing)
{
    struct tc_daemon *d = bb_start(bb_path("full"), NULL);
    bb_put_hardware("full");
    pool("full", 0, 9);
    chosen("full", "{\"budget\": 6}");
    struct bb_reply *l = lease("full", "a", 2, 600);
    const char *token = tc_str(l->json, "/lease");
    limit_files(d, 1);
    bb_problem(post("full", "candidates", unmeasured(100, 2)), 507, "disk-full");
    bb_problem(bb_json("POST", "{\"budget\": 1}", "/v1/hardware/full/selections"), 507, "disk-full");
    bb_problem(bb_json("POST", "{\"agent\": \"b\"}", "/v1/hardware/full/leases"), 507, "disk-full");
    bb_problem(bb_json("POST", "{\"ttl_seconds\": 700}", "/v1/leases/%s/renew", token), 507, "disk-full");
    bb_problem(bb_delete("/v1/leases/%s", token), 507, "disk-full");
    bb_problem(bb_delete("/v1/hardware/full/leases"), 507, "disk-full");
    bb_problem(bb_delete("/v1/hardware/full/candidates?state=selected"), 507, "disk-full");
    bb_problem(bb_delete("/v1/hardware/full/candidates?state=pooled"), 507, "disk-full");
    bb_problem(post("full", "measurements", answer(l, 0, "[[0.001], 0, 0.1, 1]")), 507, "disk-full");
    bb_status(bb_get("/v1/hardware/full/candidates"), 200);
    counts_are("full", 3, 4, 2, 0, 0);
    limit_files(d, RLIM_INFINITY);
    bb_counts(post("full", "measurements", answer(l, 0, "[[0.001], 0, 0.1, 1]")), 1, 0, 0);
    bb_status(bb_delete("/v1/leases/%s", token), 200);
    pool("full", 100, 2);
    chosen("full", "{\"budget\": 1}");
    counts_are("full", 4, 6, 0, 1, 0);
    bb_stop(d);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("http/leases");
    TCase *tc = bb_case(s, "leases", 60);
    tcase_add_test(tc, a_lease_holds_the_highest_scores_as_records);
    tcase_add_test(tc, nothing_selected_is_an_empty_lease);
    tcase_add_test(tc, a_measurement_closes_a_lease_whoever_posts_it);
    tcase_add_test(tc, a_duplicate_of_its_agent_closes_a_lease_too);
    tcase_add_test(tc, a_duplicate_of_another_agent_leaves_a_lease_alone);
    tcase_add_test(tc, a_returned_lease_can_be_taken_at_once);
    tcase_add_test(tc, a_lease_that_runs_out_gives_back_and_a_renewed_one_does_not);
    tcase_add_test(tc, the_leases_of_an_agent_that_is_gone_are_ended_without_their_tokens);
    tcase_add_test(tc, all_leases_of_a_hardware_are_ended_and_no_others);
    tcase_add_test(tc, bad_ends_of_leases_are_refused);
    tcase_add_test(tc, bad_leases_are_refused);
    tcase_add_test(tc, deleting_hardware_takes_pool_and_leases_along);
    tc = bb_case_own(s, "daemons of their own", 60);
    tcase_add_test(tc, pool_selection_and_leases_survive_a_restart);
    tcase_add_test(tc, a_full_disk_refuses_every_write_and_loses_nothing);
    return bb_main(s);
}
