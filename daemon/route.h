/* Request targets and the route table. Pure functions. */
#ifndef TD_ROUTE_H
#define TD_ROUTE_H

#include "daemon/request.h"

enum { TD_SEGMENTS_MAX = 12, TD_QUERY_MAX = 32, TD_PARAMS_MAX = 4, TD_ALLOW_MAX = 96 };

/* A request target taken apart: segments and query parameters, percent-decoded. */
struct td_target {
    char *mem;        /* owned: everything below points into it */
    const char *path; /* as it came, without query */
    int n_segments;   /* -1: more than the table can match */
    const char *segment[TD_SEGMENTS_MAX];
    int n_query;
    struct td_pair {
        const char *name, *value;
    } query[TD_QUERY_MAX];
};
/* Origin form, absolute form ("http://host/path") or "*". BAD_REQUEST: a bad percent-escape, %00, too many parameters;
 * BAD_PARAMETER: one given twice. t->path is set in any case but NO_MEMORY. */
int td_target_parse(const char *raw, struct td_target *t, struct tp_err *e);
void td_target_free(struct td_target *t);
const char *td_target_query(const struct td_target *t, const char *name);

struct td_match {
    const struct td_route *route;
    int n_params;
    const char *param[TD_PARAMS_MAX]; /* point into the target */
    char allow[TD_ALLOW_MAX];         /* methods of the path, "GET, HEAD, OPTIONS" */
};
/* HEAD matches GET. OK, NO_ROUTE, METHOD_NOT_ALLOWED (allow is filled), BAD_IDENTIFIER for {hw} and {family}. A route
 * with fewer parameters wins. */
int td_route_match(const struct td_route *routes, const char *method, const struct td_target *t, struct td_match *m,
                   struct tp_err *e);

/* "application/json; charset=utf-8" is the media type "application/json"? Parameters other than charset=utf-8 do not
 * match. NULL never matches. */
bool td_media_is(const char *content_type, const char *type);

#endif
