/* How far an import has come, so that the same command goes on where it was interrupted.
 *
 * One JSON file per daemon, hardware and kind of import below $XDG_STATE_HOME (or ~/.local/state)/tclctl. It knows for
 * each log how many bytes of its text tcld has answered for: logs only grow, so a file that is longer now is continued,
 * and one that is shorter or another (inode, beginning, end) is read anew. The hardware's time of creation is part of
 * the name: hardware that was removed and made again starts from nothing. The file imported last stands last. */
#ifndef CTL_JOURNAL_H
#define CTL_JOURNAL_H

#include "clients/client.h"

struct jn_mark {
    long long offset, lines; /* of the unpacked text */
    long long size;          /* of the file when it was opened */
    bool whole;              /* it was read to its end, and (from jn_find) is as long as it was then */
};

struct jn_journal;
/* `what` names the import ("http://… measurements xeon-8272 2026-…"). forget: start from nothing. NULL + *e: its place
 * cannot be made or it cannot be read. */
struct jn_journal *jn_open(const char *what, bool forget, struct tc_err *e);
void jn_close(struct jn_journal *j);
/* How far `path` is; all zero when it is not known, or is another file now. */
struct jn_mark jn_find(struct jn_journal *j, const char *path);
void jn_set(struct jn_journal *j, const char *path, struct jn_mark mark);
/* The one of `files` (NULL-terminated) that was imported last, wholly or in part; NULL: none was. */
const char *jn_latest(struct jn_journal *j, char *const *files);
void jn_forget(struct jn_journal *j);                /* every file */
int jn_save(struct jn_journal *j, struct tc_err *e); /* by a rename */

#endif
