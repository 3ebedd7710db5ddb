/* The table of commands, made from commands.def. */
#include "clients/ctl/ctl.h"

#include <string.h>

const struct ctl_opt ctl_no_opts[] = {{0}};

const struct ctl_command ctl_commands[] = {
#define C(name, function, opts, min, max, usage, summary) {name, usage, summary, min, max, opts, function},
#include "clients/ctl/commands.def"
#undef C
    {0}};

const struct ctl_command *ctl_command_find(const char *name)
{
    for (const struct ctl_command *k = ctl_commands; k->name; k++)
        if (!strcmp(k->name, name))
            return k;
    return NULL;
}
