/* The route table, made from routes.def. */
#include "daemon/handlers.h"

const struct td_route td_routes[] = {
#define R(method, path, handler, role, body, where, summary)                                                           \
    {method, path, handler, TD_ROLE_##role, TD_BODY_##body, TD_##where, summary},
#include "daemon/routes.def"
#undef R
    {0}};
