/* Figures over time: evaluations of a hardware's models, and how the best latency of each task fell. On the api pool.
 */
#include "daemon/handlers.h"
#include "daemon/hardware.h"
#include "daemon/hcommon.h"

#include <string.h>

/* ---- evaluations ---- */
static int put_evaluation(void *arg, const struct st_evaluation *v)
{
    struct td_page *p = arg;

    if (!td_page_add(p, v->id))
        return 1;
    tp_buf_printf(&p->out, "{\"id\": %lld, \"model\": %lld, \"job\": ", (long long)v->id, (long long)v->model);
    if (v->job > 0)
        tp_buf_i64(&p->out, v->job);
    else
        tp_buf_puts(&p->out, "null");
    tp_buf_puts(&p->out, ", \"created\": ");
    td_json_time(&p->out, v->created);
    tp_buf_printf(&p->out, ", \"result\": %s}", v->result);
    return 0;
}

void td_h_evaluations(struct td_request *r)
{
    static const char *const query[] = {"limit", "cursor", NULL};
    struct td_page p = {0};
    struct st_hardware hw = {0};
    struct tp_err e = {0};
    int64_t before;
    int rc;

    if (!td_req_only_query(r, query) || !td_req_page_id(r, &p.limit, &before))
        return;
    rc = td_hardware_find(td_req_reader(r), td_req_param(r, 0), &hw, &e);
    if (rc == 0) {
        tp_buf_puts(&p.out, "{\"items\": [");
        rc = st_evaluation_list(td_req_reader(r), hw.id, 0, before, p.limit + 1, put_evaluation, &p, &e);
    }
    st_hardware_clear(&hw);
    if (rc != 0) {
        tp_buf_free(&p.out);
        td_reply_problem(r, &e);
        return;
    }
    td_page_end_id(&p);
    td_reply_tagged(r, "application/json", NULL, &p.out);
}

/* ---- best so far ---- */
struct steps {
    struct tp_buf out;
    int n;
};

static int put_step(void *arg, int64_t nth, double seconds)
{
    struct steps *s = arg;

    tp_buf_printf(&s->out, "%s{\"measurement\": %lld, \"best_seconds\": ", s->n++ > 0 ? ", " : "", (long long)nth);
    tp_buf_json_num(&s->out, seconds, 9);
    tp_buf_putc(&s->out, '}');
    return 0;
}

void td_h_best_so_far(struct td_request *r)
{
    static const char *const query[] = {NULL};
    const char *task = td_req_param(r, 1);
    struct steps s = {0};
    struct st_hardware hw = {0};
    struct tp_err e = {0};
    int64_t n = 0;
    int rc;

    if (!td_req_only_query(r, query))
        return;
    rc = td_hardware_find(td_req_reader(r), td_req_param(r, 0), &hw, &e);
    if (rc == 0) {
        tp_buf_puts(&s.out, "{\"task\": ");
        tp_buf_json_str(&s.out, task, strlen(task));
        tp_buf_puts(&s.out, ", \"items\": [");
        rc = st_best_so_far(td_req_reader(r), hw.id, task, put_step, &s, &n, &e);
    }
    st_hardware_clear(&hw);
    if (rc != 0) {
        tp_buf_free(&s.out);
        td_reply_problem(r, &e);
        return;
    }
    tp_buf_printf(&s.out, "], \"measurements\": %lld}", (long long)n);
    td_reply_json(r, 200, &s.out);
}
