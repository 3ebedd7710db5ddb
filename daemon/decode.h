/* Content codings of request bodies: identity, gzip (any number of members), zstd (any number of frames). Decoded as it
 * comes, never more than a limit. One owner, one thread. */
#ifndef TD_DECODE_H
#define TD_DECODE_H

#include "proto/buf.h"
#include "proto/err.h"

enum td_coding { TD_IDENTITY, TD_GZIP, TD_ZSTD };
enum { TD_ZSTD_WINDOW_LOG = 23 /* 8 MiB: what RFC 9659 lets a sender use */ };

/* A Content-Encoding value (NULL = absent) -> enum td_coding, or -TP_E_MEDIA_TYPE. */
int td_coding_parse(const char *header, struct tp_err *e);

struct td_decoder;
/* limit: decoded bytes accepted; encoded bytes too, so that a body of nothing but empty members ends. NULL when out of
 * memory. */
struct td_decoder *td_decoder_new(enum td_coding c, size_t limit);
void td_decoder_free(struct td_decoder *d);
/* Appends what p[0..n) decodes to. BODY_TOO_LARGE, BAD_ENCODING, NO_MEMORY; after an error only td_decoder_free may
 * follow. */
int td_decoder_push(struct td_decoder *d, const void *p, size_t n, struct tp_buf *out, struct tp_err *e);
int td_decoder_end(struct td_decoder *d, struct tp_err *e); /* BAD_ENCODING when the body stopped in the middle */

#endif
