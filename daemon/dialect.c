/* See the header. */
#include "daemon/dialect.h"

#include "proto/body.h"
#include "proto/ms.h"

#include <stdio.h>
#include <string.h>

bool td_dialect_is_ms(const char *name)
{
    size_t n = strlen(name), k = strlen(TD_MS_SUFFIX);

    return n > k && strcmp(name + n - k, TD_MS_SUFFIX) == 0;
}

enum tclfeat_set td_dialect_features(const char *hw)
{
    return td_dialect_is_ms(hw) ? TCLFEAT_TCLM_1 : TCLFEAT_TCLF_1;
}

/* What a client that forgot Content-Encoding sends; neither begins JSON or a line of it. */
static const char *packing(const char *p, size_t n)
{
    return n >= 2 && memcmp(p, "\x1f\x8b", 2) == 0           ? "gzip"
           : n >= 4 && memcmp(p, "\x28\xb5\x2f\xfd", 4) == 0 ? "zstd"
                                                             : NULL;
}

int td_dialect_hardware(const struct td_request *r, char name[ST_ID_MAX + 1], struct tp_err *e)
{
    const char *given = td_req_param(r, 0), *bytes, *packed;
    size_t n;
    bool twin;

    bytes = td_req_body(r, &n);
    if ((packed = packing(bytes, n)) != NULL)
        return tp_fail(e, TP_E_BAD_ENCODING,
                       "the body is packed with %s, and no header says so; send Content-Encoding: %s", packed, packed);
    twin = !td_req_body_is_ndjson(r) && tp_body_is_metaschedule(bytes, n) && !td_dialect_is_ms(given);
    if (strlen(given) + (twin ? strlen(TD_MS_SUFFIX) : 0) > ST_ID_MAX)
        return tp_fail(e, TP_E_BAD_IDENTIFIER, "the name of the hardware leaves no room for \"" TD_MS_SUFFIX "\"");
    snprintf(name, ST_ID_MAX + 1, "%s%s", given, twin ? TD_MS_SUFFIX : "");
    return 0;
}

int td_dialect_check(const struct tp_record *rec, const char *hw, struct tp_err *e)
{
    bool ms = td_dialect_is_ms(hw);

    if (rec->n_steps == 0 ? !ms : tp_ms_is(rec) == ms)
        return 0;
    return tp_fail_at(e, TP_E_BAD_STATE, "/i/1/1", "hardware \"%s\" takes %s", hw,
                      ms ? "MetaSchedule traces only"
                         : "steps of auto_scheduler; MetaSchedule traces go to its twin "
                           "(\"format\": \"metaschedule\")");
}
