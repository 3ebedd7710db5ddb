/* libFuzzer: configuration files and tokens files. The first byte chooses ('t': tokens). A configuration that is
 * accepted prints as one that is accepted and says the same; no error text holds a control character.
 * Build: clang -fsanitize=fuzzer,address,undefined; corpus: tests/fuzz/corpus/config. */
#include "daemon/config.h"
#include "daemon/tokens.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A file in memory, by name. */
static const char *file_of(const void *p, size_t n)
{
    static int fd = -1;
    static char name[64];
    if (fd < 0) {
        fd = memfd_create("fuzz", 0);
        if (fd < 0 || fchmod(fd, 0600))
            abort();
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    }
    if (ftruncate(fd, 0) || pwrite(fd, p, n, 0) != (ssize_t)n)
        abort();
    return name;
}

static void tokens(const uint8_t *data, size_t size)
{
    struct td_tokens *t = td_tokens_new();
    struct tp_err e;
    if (!t)
        return;
    if (td_tokens_load(t, file_of(data, size), &e) == 0 && td_tokens_count(t) > size / 64)
        abort(); /* each needs 64 digits */
    td_token_release(td_tokens_find(t, (const char *)data, size));
    td_tokens_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct td_config c, again;
    struct tp_buf first = {0}, second = {0};
    struct tp_err e;
    if (size == 0)
        return 0;
    if (data[0] == 't') {
        tokens(data + 1, size - 1);
        return 0;
    }
    if (td_config_defaults(&c) || td_config_defaults(&again))
        abort();
    if (td_config_read_file(&c, file_of(data + 1, size - 1), &e) == 0) {
        td_config_check(&c, &e);
        td_config_print(&c, &first);
        if (td_config_read_file(&again, file_of(first.p, first.n), &e))
            abort();
        td_config_print(&again, &second);
        if (first.n != second.n || memcmp(first.p, second.p, first.n) != 0)
            abort();
    }
    tp_buf_free(&first);
    tp_buf_free(&second);
    td_config_free(&c);
    td_config_free(&again);
    return 0;
}
