/* tclctl export, best, backup: what tcld has, into files. */
#include "clients/ctl/ctl.h"

#include <string.h>

const struct ctl_opt ctl_export_opts[] = {{"task", "ID", "only this task (16 hex digits)"},
                                          {"output", "FILE", "instead of stdout; packed when it ends in .gz (also -o)"},
                                          {0}};
const struct ctl_opt ctl_best_opts[] = {{"output", "FILE", "instead of stdout; packed when it ends in .gz (also -o)"},
                                        {0}};
const struct ctl_opt ctl_backup_opts[] = {{"output", "FILE", "where to; needed (also -o)"}, {0}};

static int download(struct ctl *c, const struct ctl_args *a, const char *method, const char *path)
{
    const char *file = ctl_get(a, "output");
    long long bytes = 0;
    int rc = ctl_download(c, method, path, file, &bytes);

    if (!rc && file && strcmp(file, "-")) {
        if (c->json)
            printf("{\"file\": \"%s\", \"bytes\": %lld}\n", file, bytes);
        else
            ctl_note(c, "%s: %lld bytes", file, bytes);
    }
    return rc;
}

int ctl_export(struct ctl *c, const struct ctl_args *a)
{
    const char *task = ctl_get(a, "task");
    return download(c, a, "GET",
                    task ? ctl_path(c, "/v1/hardware/%s/measurements?task=%s", a->word[0], task)
                         : ctl_path(c, "/v1/hardware/%s/measurements", a->word[0]));
}

int ctl_best(struct ctl *c, const struct ctl_args *a)
{
    return download(c, a, "GET", ctl_path(c, "/v1/hardware/%s/best", a->word[0]));
}

int ctl_backup(struct ctl *c, const struct ctl_args *a)
{
    if (!ctl_get(a, "output"))
        return ctl_fail(c, CTL_USAGE, "backup: --output FILE says where to; \"-\" is stdout");
    return download(c, a, "POST", "/v1/admin/backup");
}
