/* Two tuners, two dialects: auto_scheduler's steps and MetaSchedule's traces. What is known of one says nothing about
 * the other, so hardware has a twin for MetaSchedule: "xeon" and "xeon.ms" are two rows with tasks, candidates, jobs
 * and models of their own, and so are their families "cpu" and "cpu.ms". Whoever sends MetaSchedule records to "xeon"
 * means its twin. Pure functions. */
#ifndef TD_DIALECT_H
#define TD_DIALECT_H

#include "daemon/request.h"
#include "proto/record.h"
#include "proto/tclfeat.h"
#include "store/store.h"

#define TD_MS_SUFFIX ".ms"

bool td_dialect_is_ms(const char *name);              /* of hardware or of a family */
enum tclfeat_set td_dialect_features(const char *hw); /* what its programs are encoded by */
/* The hardware that a body of records is for: the one in the path, or its twin. BAD_IDENTIFIER: too long.
 * BAD_ENCODING: the body is packed, and no header said so. */
int td_dialect_hardware(const struct td_request *r, char name[ST_ID_MAX + 1], struct tp_err *e);
/* Is the record of the dialect of that hardware? BAD_STATE; pointer filled in. */
int td_dialect_check(const struct tp_record *rec, const char *hw, struct tp_err *e);

#endif
