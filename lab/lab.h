/* build/lab: the libraries without the daemon, for repeatable experiments on log files. One file per command. */
#ifndef TL_LAB_H
#define TL_LAB_H

/* X(name, function, one line) */
#define TL_COMMANDS                                                                                                    \
    X("eval", tl_eval_main, "train on the tasks that are not in a key file, score the ones that are")                  \
    X("compare", tl_compare_main, "the same for tcld and for published models: table, plots, JSON")                    \
    X("ablate", tl_ablate_main, "the same for small changes to the model: what is each part worth")                    \
    X("rdu", tl_rdu_main, "choose programs by each method of the sampler, train on them: what is the choice worth?")   \
    X("ckd", tl_ckd_main, "learn a hardware from what others know: transfers, forgetting, gate")                       \
    X("search", tl_search_main, "replay tuning on measured tasks: how soon each order finds a fast program")           \
    X("kb", tl_kb_main, "starter knowledge: a knowledge base from the logs of several kinds of hardware")

#define X(name, fn, help) int fn(int argc, char **argv);
TL_COMMANDS
#undef X

/* Cores this process may use. */
int tl_cores(void);
/* Monotonic clock. */
double tl_seconds(void);
/* CPU time of the process, all threads. */
double tl_cpu_seconds(void);

#endif
