/* Every handler that routes.def names. */
#ifndef TD_HANDLERS_H
#define TD_HANDLERS_H

#include "daemon/request.h"

#define R(method, path, handler, role, body, where, summary) void handler(struct td_request *r);
#include "daemon/routes.def"
#undef R

/* h_backup.c: copies that a crash left in the state directory. At start. */
void td_backup_sweep(const char *dir);

/* h_models.c: the model as GET /v1/models/{id} shows it, appended. UNKNOWN_MODEL. */
int td_model_json(struct st_reader *r, int64_t id, struct tp_buf *out, struct tp_err *e);

#endif
