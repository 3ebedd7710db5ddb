/* Lingering close: after a reply that was sent without reading the request's body, what the client still sends is read
 * and thrown away for a moment. A close at once would answer it with a reset, and the reset can overtake the reply. On
 * the control loop; td_linger_add from any thread. */
#ifndef TD_LINGER_H
#define TD_LINGER_H

#include <uv.h>

enum { TD_LINGER_MAX = 64, TD_LINGER_MS = 3000, TD_LINGER_BYTES = 64 << 20 };

struct td_linger;
struct td_linger *td_linger_new(uv_loop_t *loop); /* NULL when out of memory */
void td_linger_free(struct td_linger *l);         /* closes what is left; the loop must run once more */
/* Takes ownership of fd (a duplicate: libmicrohttpd closes its own). Closes it at once when TD_LINGER_MAX linger
 * already. */
void td_linger_add(struct td_linger *l, int fd);

#endif
