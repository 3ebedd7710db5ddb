/* The certificate of tls_listen.
 *
 * Invariant: cert and key are PEM texts that were seen to fit together. Each handshake gets objects of its own, which
 * GnuTLS frees at its end, so a reload never takes away what a handshake uses. That costs the parsing of a small file
 * beside the handshake's own signature. */
#include "daemon/tls.h"

#include "daemon/request_int.h"

#include <gnutls/x509.h>

#include <stdlib.h>
#include <string.h>

enum { CHAIN_MAX = 8 };

struct td_tls {
    pthread_rwlock_t lock; /* guards what follows */
    gnutls_datum_t cert, key;
    long long expires;
};

static void wipe(gnutls_datum_t *d)
{
    if (d->data)
        explicit_bzero(d->data, d->size);
    gnutls_free(d->data);
    d->data = NULL;
    d->size = 0;
}

/* The certificates' objects; *n of them, for the caller. */
static int parse_certs(const gnutls_datum_t *pem, gnutls_pcert_st **out, unsigned *n)
{
    gnutls_pcert_st *list = gnutls_calloc(CHAIN_MAX, sizeof *list);
    int rc;

    *n = CHAIN_MAX;
    if (!list)
        return GNUTLS_E_MEMORY_ERROR;
    rc = gnutls_pcert_list_import_x509_raw(list, n, pem, GNUTLS_X509_FMT_PEM, GNUTLS_X509_CRT_LIST_SORT);
    if (rc < 0)
        gnutls_free(list);
    else
        *out = list;
    return rc;
}

static long long ends(const gnutls_datum_t *pem)
{
    gnutls_x509_crt_t crt;
    long long t = 0;

    if (gnutls_x509_crt_init(&crt) < 0)
        return 0;
    if (gnutls_x509_crt_import(crt, pem, GNUTLS_X509_FMT_PEM) >= 0)
        t = (long long)gnutls_x509_crt_get_expiration_time(crt);
    gnutls_x509_crt_deinit(crt);
    return t;
}

int td_tls_reload(struct td_tls *t, const char *cert, const char *key, struct tp_err *e)
{
    gnutls_datum_t c = {0}, k = {0};
    gnutls_certificate_credentials_t both = NULL;
    gnutls_pcert_st *list = NULL;
    unsigned n = 0;
    const char *what = "tls_cert";
    int rc = gnutls_load_file(cert, &c);

    if (rc >= 0)
        rc = parse_certs(&c, &list, &n);
    if (rc >= 0) {
        what = "tls_key";
        rc = gnutls_load_file(key, &k);
    }
    if (rc >= 0)
        rc = gnutls_certificate_allocate_credentials(&both);
    if (rc >= 0)
        rc = gnutls_certificate_set_x509_key_mem(both, &c, &k, GNUTLS_X509_FMT_PEM);
    if (rc >= 0) {
        pthread_rwlock_wrlock(&t->lock);
        gnutls_datum_t old_c = t->cert, old_k = t->key;
        t->cert = c;
        t->key = k;
        t->expires = ends(&c);
        pthread_rwlock_unlock(&t->lock);
        c = old_c;
        k = old_k;
        rc = 0;
    } else {
        rc = tp_fail(e, TP_E_CONFIG, "%s %.120s: %.80s", what, what[4] == 'c' ? cert : key, gnutls_strerror(rc));
    }
    for (unsigned i = 0; list && i < n; i++)
        gnutls_pcert_deinit(&list[i]);
    gnutls_free(list);
    if (both)
        gnutls_certificate_free_credentials(both);
    wipe(&c);
    wipe(&k);
    return rc;
}

int td_tls_new(const char *cert, const char *key, struct td_tls **out, struct tp_err *e)
{
    struct td_tls *t = calloc(1, sizeof *t);
    int rc;

    if (!t)
        return tp_fail(e, TP_E_NO_MEMORY, "out of memory");
    pthread_rwlock_init(&t->lock, NULL);
    if ((rc = td_tls_reload(t, cert, key, e)) != 0) {
        td_tls_free(t);
        return rc;
    }
    *out = t;
    return 0;
}

void td_tls_free(struct td_tls *t)
{
    if (!t)
        return;
    wipe(&t->cert);
    wipe(&t->key);
    pthread_rwlock_destroy(&t->lock);
    free(t);
}

long long td_tls_expires(struct td_tls *t)
{
    pthread_rwlock_rdlock(&t->lock);
    long long v = t->expires;
    pthread_rwlock_unlock(&t->lock);
    return v;
}

int td_tls_retrieve(gnutls_session_t session, const struct gnutls_cert_retr_st *info, gnutls_pcert_st **certs,
                    unsigned int *n_certs, gnutls_ocsp_data_st **ocsp, unsigned int *n_ocsp, gnutls_privkey_t *key,
                    unsigned int *flags)
{
    struct td_tls *t = td_server_tls_of(gnutls_session_get_ptr(session));
    gnutls_privkey_t own = NULL;
    gnutls_pcert_st *list = NULL;
    unsigned n = 0;
    int rc;

    (void)info;
    if (!t)
        return -1;
    pthread_rwlock_rdlock(&t->lock);
    rc = parse_certs(&t->cert, &list, &n);
    if (rc >= 0)
        rc = gnutls_privkey_init(&own);
    if (rc >= 0)
        rc = gnutls_privkey_import_x509_raw(own, &t->key, GNUTLS_X509_FMT_PEM, NULL, 0);
    pthread_rwlock_unlock(&t->lock);
    if (rc < 0) {
        for (unsigned i = 0; list && i < n; i++)
            gnutls_pcert_deinit(&list[i]);
        gnutls_free(list);
        if (own)
            gnutls_privkey_deinit(own);
        return -1;
    }
    *certs = list;
    *n_certs = n;
    *ocsp = NULL;
    *n_ocsp = 0;
    *key = own;
    *flags |= GNUTLS_CERT_RETR_DEINIT_ALL;
    return 0;
}
