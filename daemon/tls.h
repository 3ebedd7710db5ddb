/* The certificate of tls_listen: loaded from two PEM files, replaced while connections go on. */
#ifndef TD_TLS_H
#define TD_TLS_H

#include "proto/err.h"

#include <gnutls/abstract.h>

struct td_tls;
/* Both files are read and must fit together. CONFIG, NO_MEMORY. */
int td_tls_new(const char *cert, const char *key, struct td_tls **out, struct tp_err *e);
void td_tls_free(struct td_tls *t);
/* Reads the files again; new connections get what they hold. On an error the old ones stay in use. Control thread. */
int td_tls_reload(struct td_tls *t, const char *cert, const char *key, struct tp_err *e);
/* Unix seconds at which the first certificate ends. Any thread. */
long long td_tls_expires(struct td_tls *t);

/* For MHD_OPTION_HTTPS_CERT_CALLBACK2: GnuTLS asks it at every handshake. It finds its td_tls by way of the connection
 * (td_server_tls_of), which libmicrohttpd 0.9.75 keeps as the pointer of the session; without it the handshake fails,
 * which a test would tell. */
gnutls_certificate_retrieve_function3 td_tls_retrieve;

#endif
