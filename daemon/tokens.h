/* Bearer tokens: the file that lists them by hash, how one is recognised, its quotas, and how a new one is made.
 *
 * A token is "tcld_" and 43 letters of base64url: 256 random bits, so a plain SHA-256 is hash enough. The file holds
 * one token per line, "HASH ROLE NAME [QUOTA=N ...]", where HASH is the SHA-256 of the token in hex; empty lines and
 * lines that start with # are skipped. The token itself stands nowhere. All functions but load, new and free are
 * thread-safe. */
#ifndef TD_TOKENS_H
#define TD_TOKENS_H

#include "proto/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum td_role { TD_ROLE_NONE, TD_ROLE_PREDICT, TD_ROLE_MEASURE, TD_ROLE_OPERATE, TD_ROLES };
const char *td_role_name(enum td_role r); /* "none", "predict", "measure", "operate" */
/* One of predict, measure, operate; -1 for everything else. */
int td_role_by_name(const char *name, size_t n);

enum {
    TD_TOKENS_MAX = 1024,
    TD_TOKEN_LEN = 48,      /* "tcld_" and 43 letters */
    TD_TOKEN_NAME_MAX = 63, /* an identifier, st_id_valid() */
    TD_TOKEN_FILE_MAX = 1 << 20
};

struct td_tokens;
struct td_token; /* shared: the list and each request that goes on hold a reference */

/* An empty list. NULL: no memory. */
struct td_tokens *td_tokens_new(void);
void td_tokens_free(struct td_tokens *t);
/* Replaces the list by what the file says; use of quotas is kept for tokens that stay. CONFIG with "FILE:LINE: ...",
 * and then the list is as it was. Refuses a file that others than its owner and group can read. */
int td_tokens_load(struct td_tokens *t, const char *path, struct tp_err *e);
size_t td_tokens_count(struct td_tokens *t);

/* The token with this text, or NULL. Every listed hash is compared, each in constant time, and one more that matches
 * nothing, so that the time tells nothing about the list. `given` may be any bytes. The caller releases what it gets.
 */
struct td_token *td_tokens_find(struct td_tokens *t, const char *given, size_t n);
void td_token_release(struct td_token *k); /* NULL is fine */
enum td_role td_token_role(const struct td_token *k);
void td_token_name(const struct td_token *k, char name[TD_TOKEN_NAME_MAX + 1]);

/* A request begins: counts against requests_per_minute and in_flight. TOO_MANY when a quota (body_bytes_per_minute too)
 * is used up, *wait_s is then how long until it is not. Quotas are buckets that hold a minute's worth. now_us:
 * monotonic. */
int td_token_take(struct td_token *k, int64_t now_us, int *wait_s, struct tp_err *e);
/* It ended, and its body had that many bytes. Once for each td_token_take() that returned 0. */
void td_token_done(struct td_token *k, size_t body_bytes);

/* A new token and its line for the file (with the newline). name NULL: ROLE-<8 hex of the hash>. INTERNAL: no random
 * bytes. */
int td_token_make(enum td_role role, const char *name, char token[TD_TOKEN_LEN + 1], char line[192], struct tp_err *e);
/* Adds the line to the file, which is made with mode 0600 when it is not there, and syncs it. CONFIG. */
int td_token_append(const char *path, const char *line, struct tp_err *e);

#endif
