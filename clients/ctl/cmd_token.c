/* tclctl token: a new bearer token, and the line of it for tcld's tokens_file. Made here: tcld never sees it before it
 * is used, and the file holds its SHA-256 alone. */
#include "clients/ctl/ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <nettle/base64.h>
#include <nettle/sha2.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define PREFIX "tcld_"
enum { SECRET = 32 /* bytes of chance */, LETTERS = 43 /* of base64url */ };

const struct ctl_opt ctl_token_opts[] = {{"name", "NAME", "how logs call it (by default ROLE- and 8 digits)"},
                                         {"output", "FILE", "the tokens_file, which gets the line (also -o)"},
                                         {"secret-file", "FILE", "a new file for the token, instead of stdout"},
                                         {0}};

static int make(struct ctl *c, const char *role, const char *name, char token[64], char line[256])
{
    uint8_t secret[SECRET], digest[SHA256_DIGEST_SIZE];
    char text[BASE64_ENCODE_RAW_LENGTH(SECRET) + 1] = "", hex[2 * SHA256_DIGEST_SIZE + 1], made_up[80];
    struct sha256_ctx sha;

    if (getrandom(secret, sizeof secret, 0) != (ssize_t)sizeof secret)
        return ctl_fail(c, CTL_FAILED, "no random bytes: %s", strerror(errno));
    base64_encode_raw(text, sizeof secret, secret);
    for (char *p = text; *p && p < text + LETTERS; p++) /* RFC 4648, 5 */
        *p = *p == '+' ? '-' : *p == '/' ? '_' : *p;
    snprintf(token, 64, PREFIX "%.*s", LETTERS, text);
    sha256_init(&sha);
    sha256_update(&sha, strlen(token), (const uint8_t *)token);
    sha256_digest(&sha, sizeof digest, digest);
    for (size_t i = 0; i < sizeof digest; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    snprintf(made_up, sizeof made_up, "%s-%.8s", role, hex);
    snprintf(line, 256, "%s %s %s\n", hex, role, name ? name : made_up);
    return CTL_OK;
}

/* how: O_APPEND, or O_EXCL: the file must be new. */
static int put_line(struct ctl *c, const char *file, int how, const char *line)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC | how, 0600), rc = CTL_OK;
    size_t n = strlen(line);

    if (fd < 0 || write(fd, line, n) != (ssize_t)n || fsync(fd))
        rc = ctl_fail(c, CTL_FAILED, "cannot write %s: %s", file, strerror(errno));
    if (fd >= 0)
        close(fd);
    return rc;
}

static void print_json(const char *key, const char *value, const char *line)
{
    json_t *j = json_pack("{s:s, s:s%}", key, value, "line", line, strlen(line) - 1);
    ctl_json_out(j);
    json_decref(j);
}

static bool is_identifier(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789._-");
    return n && !s[n] && n <= 63 && !strchr("._-", *s);
}

int ctl_token(struct ctl *c, const struct ctl_args *a)
{
    const char *role = a->word[0], *name = ctl_get(a, "name"), *file = ctl_get(a, "output"),
               *secret = ctl_get(a, "secret-file");
    char token[64], line[256];
    int rc;

    if (strcmp(role, "predict") && strcmp(role, "measure") && strcmp(role, "operate"))
        return ctl_fail(c, CTL_USAGE, "\"%s\" is no role; accepted are predict, measure and operate", role);
    if (name && !is_identifier(name))
        return ctl_fail(c, CTL_USAGE, "--name %s: a name matches [a-z0-9][a-z0-9._-]{0,62}", name);
    rc = make(c, role, name, token, line);
    if (!rc && secret)
        rc = put_line(c, secret, O_EXCL, ctl_printf(c, "%s\n", token));
    if (!rc && file && (rc = put_line(c, file, O_APPEND, line)) && secret)
        unlink(secret);
    if (rc)
        return rc;
    if (c->json)
        print_json(secret ? "secret_file" : "token", secret ? secret : token, line);
    else if (!secret)
        printf("%s\n", token);
    if (file)
        ctl_note(c, "its hash is in %s; SIGHUP makes a running tcld know it", file);
    else if (!c->json)
        ctl_note(c, "put this line into tcld's tokens_file:\n%.*s", (int)strlen(line) - 1, line);
    if (secret)
        ctl_note(c, "the token is in %s: tclctl --token-file reads it", secret);
    else if (file || !c->json)
        ctl_note(c, "the token is shown this once");
    return CTL_OK;
}
