/* tclctl completion: a bash script made from the tables, so that it knows what tclctl knows. */
#include "clients/ctl/ctl.h"

#include <string.h>

static void print_opts(const struct ctl_opt *o)
{
    for (; o->name; o++)
        printf(" --%s", o->name);
}

/* The lower-case words of "list HW | add HW FILE": what may stand first. */
static void print_verbs(const char *usage)
{
    bool first = true;
    for (const char *p = usage; *p;) {
        size_t n = strcspn(p, " |[]");
        if (n && first && strspn(p, "abcdefghijklmnopqrstuvwxyz") == n)
            printf(" %.*s", (int)n, p);
        first = n ? false : first;
        p += n;
        if (*p == '|' && (p == usage || p[-1] == ' ' || p[1] == ' '))
            first = true;
        p += *p != '\0';
    }
}

int ctl_complete(struct ctl *c, const struct ctl_args *a)
{
    (void)c;
    (void)a;
    printf("# bash completion of tclctl: source <(tclctl completion)\n"
           "_tclctl()\n{\n"
           "    local cur=${COMP_WORDS[COMP_CWORD]} cmd= words= i\n"
           "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
           "        [[ ${COMP_WORDS[i]} == -* || ${COMP_WORDS[i-1]} == --url || ${COMP_WORDS[i-1]} == --config ]] && "
           "continue\n"
           "        cmd=${COMP_WORDS[i]}; break\n"
           "    done\n"
           "    local common=\"");
    print_opts(ctl_global_opts);
    printf("\"\n    case $cmd in\n    '') words=\"");
    for (const struct ctl_command *k = ctl_commands; k->name; k++)
        printf("%s%s", k == ctl_commands ? "" : " ", k->name);
    printf("\";;\n");
    for (const struct ctl_command *k = ctl_commands; k->name; k++) {
        printf("    %s) words=\"", k->name);
        print_verbs(k->usage);
        print_opts(k->opts);
        printf("\";;\n");
    }
    printf("    esac\n"
           "    COMPREPLY=($(compgen -W \"$words $common\" -- \"$cur\"))\n"
           "    [[ -n $cmd && $cur != -* ]] && COMPREPLY+=($(compgen -f -- \"$cur\"))\n"
           "}\n"
           "complete -o filenames -F _tclctl tclctl\n");
    return CTL_OK;
}
