/* What handlers share about hardware: look-up with a helpful 404, and its descriptor as the encoders take it. Pure but
 * for the look-up. */
#ifndef TD_HARDWARE_H
#define TD_HARDWARE_H

#include "proto/tclfeat.h"
#include "store/store.h"

/* Its kind has families that learn from each other. */
bool td_shares_knowledge(const struct st_hardware *h);

/* The model that answers for it: its own active one, else its family's knowledge base; 0 none. IO. */
int td_hardware_answers(struct st_reader *r, const struct st_hardware *h, int64_t *model, struct tp_err *e);

/* kind and descriptor JSON -> *out. Keys that the encoders do not know, and values that are no finite numbers >= 0, are
 * left unknown. */
void td_hardware_feat(const struct st_hardware *h, struct tclfeat_hw *out);

/* st_hardware_get, but UNKNOWN_HARDWARE says which PUT to send first. *out needs st_hardware_clear. */
int td_hardware_find(struct st_reader *r, const char *name, struct st_hardware *out, struct tp_err *e);
int td_hardware_missing(const char *name, struct tp_err *e); /* fills e, returns -TP_E_UNKNOWN_HARDWARE */

/* "cpu", "gpu" or "accelerator" for a target string by the rule of the HTTP interface; BAD_TASK when it does not parse.
 */
int td_hardware_kind(const char *target, const char **kind, struct tp_err *e);

#endif
