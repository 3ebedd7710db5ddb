/* libtclfeat: the one function that encodes a program for ingest, training, selection and serving.
 *
 * A program becomes a sequence of rows (tclf-1: one hardware row, one task row, one row per transform step; TLP sets:
 * one row per step, cropped as TLP crops; tclm-1: hardware row, task row, one row per instruction of a MetaSchedule
 * trace that changes the program) and, for tclf-1 and tclm-1, one summary. Encoding has two stages so that equal rows
 * are found before any float is made: record -> keys  (32 int32 per row; equal rows have equal keys, a row is a pure
 * function of its key) key    -> row   (n_cols floats) Every weights file carries the version and the CRC of the
 * tables; a mismatch is refused. Sources: loop replay MODEL (docs/features.md); TLP encodings: zhaiyi000/tlp
 * src/auto_scheduler/feature.cc, scripts/tlp_make_dataset.py.
 *
 * Threads: a `tclfeat_encoder` belongs to one thread at a time; the rest is pure. */
#ifndef TCLFEAT_H
#define TCLFEAT_H

#include "proto/record.h"
#include "proto/target.h"

#include <stdbool.h>
#include <stdint.h>

enum tclfeat_set { TCLFEAT_TCLF_1, TCLFEAT_TLP_CPU_1, TCLFEAT_TLP_GPU_1, TCLFEAT_TCLM_1, TCLFEAT_SETS };

enum {
    TCLFEAT_KEY = 32,      /* int32 per row key */
    TCLFEAT_MAX_COLS = 64, /* floats per row, at most */
    TCLFEAT_MAX_SUMMARY = 72,
    TCLFEAT_MAX_ROWS = TP_MAX_STEPS + 2,
    TCLFEAT_HW = 15 /* descriptor values */
};

/* Descriptor order = API.md: num_cores, clock_ghz, vector_unit_bytes, cache_line_bytes, l1d_bytes, l2_bytes, l3_bytes,
 * memory_bandwidth_gbps, peak_gflops, max_shared_memory_per_block, max_local_memory_per_block, max_threads_per_block,
 * max_vthread_extent, warp_size, sm_count. proto/descriptor.def */
struct tclfeat_hw {
    enum tp_target_kind kind; /* used when a record's target does not tell */
    double value[TCLFEAT_HW];
    uint32_t known; /* bit i: value[i] is known */
};
const char *tclfeat_hw_name(int i); /* "num_cores" */

const char *tclfeat_version(enum tclfeat_set s); /* "tclf-1", "tlp-cpu-1", "tlp-gpu-1", "tclm-1" */
int tclfeat_by_version(const char *version);     /* enum tclfeat_set, or -1 */
uint32_t tclfeat_crc(enum tclfeat_set s);        /* CRC-32 of the tables that define the encoding */
int tclfeat_cols(enum tclfeat_set s);            /* 64 or less, 22, 20, 64 */
int tclfeat_summary_cols(enum tclfeat_set s);    /* 72, 0, 0, 72 */

struct tclfeat_key {
    int32_t k[TCLFEAT_KEY];
};

struct tclfeat_encoder;
struct tclfeat_encoder *tclfeat_encoder_new(enum tclfeat_set s);
void tclfeat_encoder_free(struct tclfeat_encoder *e);

/* Encode one record. keys must have room for TCLFEAT_MAX_ROWS; summary for tclfeat_summary_cols() floats (may be NULL
 * then). hw may be NULL (nothing known). Returns the number of rows (> 0), or -TP_E_x (BAD_TASK: target that does not
 * parse; BAD_STATE: a MetaSchedule trace for a set that encodes auto_scheduler's steps, or the other way round).
 * tclf-1: the record's own hw_params win over *hw where both are known. */
int tclfeat_encode(struct tclfeat_encoder *e, const struct tp_record *r, const struct tclfeat_hw *hw,
                   struct tclfeat_key *keys, float *summary, struct tp_err *err);

/* The row of a key: row[0 .. tclfeat_cols(s)). */
void tclfeat_row(enum tclfeat_set s, const struct tclfeat_key *key, float *row);

/* For callers outside tcld (ctypes): one log line -> dense rows [rows][cols], at most max_rows of them, and the
 * summary. Returns the number of rows or -TP_E_x with the text in detail[0..detail_n). */
int tclfeat_encode_line(enum tclfeat_set s, const char *line, size_t n, float *rows, int max_rows, float *summary,
                        char *detail, size_t detail_n);

#endif
