/* build/lab COMMAND ...: see lab.h for the commands. Exit status: 0 done, 1 failed, 2 wrong usage. */
#include "lab/lab.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
#define X(name, fn, help) {name, fn, help},
    TL_COMMANDS
#undef X
};

int main(int argc, char **argv)
{
    size_t n = sizeof commands / sizeof *commands;
    for (size_t i = 0; argc > 1 && i < n; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    FILE *out = argc > 1 && strcmp(argv[1], "--help") == 0 ? stdout : stderr;
    if (argc > 1 && out == stderr)
        fprintf(stderr, "lab: there is no command \"%s\"\n", argv[1]);
    fprintf(out, "usage: lab COMMAND [OPTION...]\n\ncommands (each has --help):\n");
    for (size_t i = 0; i < n; i++)
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].help);
    return out == stdout ? 0 : 2;
}
