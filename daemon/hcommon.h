/* What handlers share: control bodies, JSON replies with ETags, the check of a record's target. */
#ifndef TD_HCOMMON_H
#define TD_HCOMMON_H

#include "daemon/jobs.h"
#include "daemon/request.h"
#include "proto/problem.h"
#include "proto/record.h"
#include "proto/target.h"

#include <jansson.h>

/* The control body as a JSON object whose keys are all in `keys` (NULL-terminated); an absent body is an empty object.
 * BAD_BODY, UNKNOWN_KEY with its pointer. *out is the caller's. */
int td_body_object(struct td_request *r, const char *const *keys, json_t **out, struct tp_err *e);
/* Members of it; absent: *v keeps its value. BAD_PARAMETER with the pointer and what is accepted. */
int td_body_int(const json_t *o, const char *key, int64_t min, int64_t max, int64_t *v, struct tp_err *e);
int td_body_num(const json_t *o, const char *key, double min, double max, double *v, struct tp_err *e);
int td_body_enum(const json_t *o, const char *key, const char *const *names, int *v, struct tp_err *e);

/* ?name=true|false; absent: false. BAD_PARAMETER. */
int td_query_bool(const struct td_request *r, const char *name, bool *v, struct tp_err *e);

/* ?name=<identifier>; absent: *v = NULL. BAD_IDENTIFIER. */
int td_query_id(const struct td_request *r, const char *name, const char **v, struct tp_err *e);

/* ?name=<decimal>; absent: *v keeps its value. BAD_PARAMETER. */
int td_query_int(const struct td_request *r, const char *name, int64_t min, int64_t max, int64_t *v, struct tp_err *e);

/* 200 or 202 with the job. */
void td_reply_job(struct td_request *r, int status, int64_t id);
/* Hands a job over and replies. rc, e: what went wrong before; params is freed. */
void td_submit_job(struct td_request *r, int rc, struct tp_err *e, const char *kind, const char *hardware,
                   const char *lane, struct tp_buf *params, td_job_run run);

/* application/json, unless the body ran out of memory. Takes *body. */
void td_reply_json(struct td_request *r, int status, struct tp_buf *body);
/* The same for a GET with a strong ETag: 304 when If-None-Match names it. etag: without quotes; NULL = hash of the
 * body. */
void td_reply_tagged(struct td_request *r, const char *content_type, const char *etag, struct tp_buf *body);
/* Does an If-None-Match list name the tag (without quotes)? Weak comparison, "*" names all. */
bool td_etag_listed(const char *list, const char *etag);

/* Milliseconds since 1970 as a JSON string in RFC 3339 UTC, with milliseconds when there are any; null for 0. */
void td_json_time(struct tp_buf *out, int64_t ms);

/* Does the record's target fit hardware of that kind? Remembers the last target string, for records come in runs.
 * WRONG_TARGET, BAD_TASK; the pointer is filled in, line and index are not. */
struct td_fit {
    size_t n; /* bytes of `last`, 0 none */
    char last[512];
    enum tp_target_kind kind;
};
int td_fit_check(struct td_fit *f, const struct tp_record *rec, enum tp_target_kind hardware, struct tp_err *e);

#endif
