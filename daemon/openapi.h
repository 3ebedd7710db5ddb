/* The API description, OpenAPI 3.1, made from routes.def and openapi.json. Pure functions, any thread. */
#ifndef TD_OPENAPI_H
#define TD_OPENAPI_H

#include "proto/buf.h"

/* The whole document as JSON. */
void td_openapi_write(struct tp_buf *out);

#endif
