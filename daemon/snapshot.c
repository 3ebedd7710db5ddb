/* Snapshots: immutable models in memory, counted by references.
 *
 * Invariant: from td_snapshot_new() on nothing but `refs` changes; the holder of the last reference frees. Any thread.
 */
#include "daemon/snapshot.h"

#include "proto/ms.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <nettle/sha2.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Made up for this purpose: a CPU matmul, a CPU reduction with rfactor, a GPU matmul, a naive schedule. Never change
 * them lightly: they are only compared with themselves, but every step family should stay covered. */
static const char *const golden[] = {
    "{\"i\": [[\"[\\\"gemm\\\", 96, 80, 48]\", \"llvm -keys=cpu -mcpu=core-avx2\", [8, 64, 64, 0, 0, 0, 0, 0], \"\", "
    "1, []], "
    "[[], [[\"CHW\", 2, \"local\"], [\"SP\", 2, 0, 96, [3, 4, 2], 1], [\"SP\", 2, 4, 80, [1, 5, 16], 1], [\"SP\", 2, "
    "8, "
    "48, [12], 1], [\"RE\", 2, [0, 4, 1, 5, 8, 2, 6, 9, 3, 7]], [\"FSP\", 3, 0, 1, 2], [\"FSP\", 3, 3, 2, 2], [\"RE\", "
    "3, "
    "[0, 3, 1, 4, 2, 5]], [\"CA\", 2, 3, 3], [\"FU\", 3, [0, 1, 2]], [\"AN\", 3, 0, 3], [\"PR\", 2, 0, "
    "\"auto_unroll_max_step$64\"], [\"AN\", 2, 9, 2]]]]}",
    "{\"i\": [[\"[\\\"norm\\\", 8, 4096]\", \"llvm -keys=cpu\", [4, 32, 64, 0, 0, 0, 0, 0], \"\", 1, []], [[], "
    "[[\"CI\", 1], "
    "[\"SP\", 3, 2, 512, [16], 1], [\"RF\", 3, 3, 2], [\"RE\", 3, [0, 1, 3, 2]], [\"CR\", 5], [\"FU\", 4, [0, 1]], "
    "[\"AN\", "
    "4, 0, 3], [\"PR\", 3, 0, \"auto_unroll_max_step$0\"]]]]}",
    "{\"i\": [[\"[\\\"dense\\\", [8, 64], [32, 64], [8, 32]]\", \"cuda -keys=cuda,gpu -arch=sm_90\", [-1, 16, 64, "
    "49152, "
    "2147483647, 1024, 8, 32], \"llvm -keys=cpu \", 0, []], [[], [[\"SP\", 2, 0, 8, [1, 4, 1, 1], 1], [\"SP\", 2, 5, "
    "32, [1, 8, "
    "2, 1], 1], [\"SP\", 2, 10, 64, [4, 2], 1], [\"RE\", 2, [0, 5, 1, 6, 2, 7, 10, 11, 3, 8, 12, 4, 9]], [\"FU\", 2, "
    "[0, 1]], "
    "[\"AN\", 2, 0, 5], [\"FU\", 2, [1, 2]], [\"AN\", 2, 1, 4], [\"FU\", 2, [2, 3]], [\"AN\", 2, 2, 6], [\"PR\", 2, 0, "
    "\"auto_unroll_max_step$512\"]]]]}",
    "{\"i\": [[\"[\\\"gemm\\\", 96, 80, 48]\", \"llvm\"], [[], [[\"AN\", 2, 0, 3]]]]}",
};
enum { GOLDEN = sizeof golden / sizeof golden[0] };

/* The same of MetaSchedule, as tuning records: a CPU tiling, a CUDA one, inlining with a sampled location, a reduction.
 */
static const char *const golden_ms[GOLDEN] = {
    "[[[[\"GetBlock\", [], [\"C\", \"main\"], [\"b0\"]], [\"GetLoops\", [\"b0\"], [], [\"l1\"]], "
    "[\"SamplePerfectTile\", [\"l1\"], [4, 64], [\"v2\", \"v3\", \"v4\", \"v5\"]], [\"Split\", [\"l1\", \"v2\", "
    "\"v3\", "
    "\"v4\", \"v5\"], [1], [\"l6\", \"l7\", \"l8\", \"l9\"]], [\"Reorder\", [\"l6\", \"l9\", \"l8\", \"l7\"], [], []], "
    "[\"Fuse\", [\"l6\", \"l9\"], [1], [\"l10\"]], [\"Parallel\", [\"l10\"], [], []], [\"Annotate\", [\"b0\", 64], "
    "[\"meta_schedule.vectorize\"], []]], [[2, [4, 2, 8, 2]]]], null, \"llvm\"]",
    "[[[[\"GetBlock\", [], [\"C\", \"main\"], [\"b0\"]], [\"GetLoops\", [\"b0\"], [], [\"l1\", \"l2\"]], [\"Bind\", "
    "[\"l1\"], [\"blockIdx.x\"], []], [\"Bind\", [\"l2\"], [\"threadIdx.x\"], []], [\"CacheRead\", [\"b0\"], [0, "
    "\"shared\"], [\"b3\"]], [\"SampleCategorical\", [], [[1, 2, 4], [0.3, 0.3, 0.4]], [\"v4\"]], [\"Annotate\", "
    "[\"b3\", "
    "\"v4\"], [\"meta_schedule.cooperative_fetch\"], []]], [[5, 2]]], null, \"cuda\"]",
    "[[[[\"GetBlock\", [], [\"P\", \"main\"], [\"b0\"]], [\"SampleComputeLocation\", [\"b0\"], [], [\"l1\"]], "
    "[\"ComputeAt\", [\"b0\", \"l1\"], [1, -1], []], [\"ComputeInline\", [\"b0\"], [], []], [\"EnterPostproc\", [], "
    "[], "
    "[]]], [[1, -1]]], null, \"llvm\"]",
    "[[[[\"GetBlock\", [], [\"R\", \"main\"], [\"b0\"]], [\"GetLoops\", [\"b0\"], [], [\"l1\"]], [\"RFactor\", "
    "[\"l1\"], "
    "[0], [\"b2\"]], [\"StorageAlign\", [\"b2\"], [0, -2, 32, 16], []], [\"Tensorize\", [\"b0\"], [\"dot\", 1], []]], "
    "[]], null, \"llvm\"]"};

int td_snapshot_new(struct tm_model *m, const struct tm_provenance *p, const struct st_model *row, uint64_t checksum,
                    struct td_snapshot **out, struct tp_err *e)
{
    struct td_snapshot *s = calloc(1, sizeof *s);

    if (s == NULL)
        goto oom;
    s->plan = tm_plan_new(m);
    if (s->plan == NULL)
        goto oom;
    s->model = m;
    s->provenance = *p;
    s->id = row->id;
    memcpy(s->role, row->role, sizeof s->role);
    memcpy(s->owner, row->owner, sizeof s->owner);
    s->calibration = row->calibration;
    s->checksum = checksum;
    atomic_init(&s->refs, 1);
    *out = s;
    return 0;
oom:
    free(s);
    tm_model_free(m);
    return tp_fail(e, TP_E_NO_MEMORY, "no memory for model %lld", (long long)row->id);
}

int td_snapshot_with_offsets(const struct td_snapshot *old, int64_t hw, const struct st_offset *o, size_t n,
                             struct td_snapshot **out, struct tp_err *e)
{
    struct st_model row = {.id = old->id, .calibration = old->calibration};
    struct tm_model *m = tm_model_clone(old->model);
    struct td_snapshot *s = NULL;
    int rc;

    if (m == NULL)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for model %lld", (long long)old->id);
    memcpy(row.role, old->role, sizeof row.role);
    memcpy(row.owner, old->owner, sizeof row.owner);
    rc = td_snapshot_new(m, &old->provenance, &row, old->checksum, &s, e);
    if (rc == 0)
        rc = td_offsets_with(old->offsets, hw, o, n, &s->offsets, e);
    if (rc != 0) {
        td_registry_release(s);
        return rc;
    }
    *out = s;
    return 0;
}

struct td_snapshot *td_snapshot_ref(struct td_snapshot *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void td_registry_release(struct td_snapshot *s)
{
    if (s == NULL || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    tm_plan_free(s->plan);
    tm_model_free(s->model);
    td_offsets_free(s->offsets);
    free(s);
}

int td_weights_bytes(const char *path, struct tp_buf *out, struct tp_err *e)
{
    int fd = -1, rc;
    struct stat st;
    struct tp_buf b = {0};

    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        rc = errno == ENOENT ? tp_fail(e, TP_E_BAD_WEIGHTS, "the weights file of this model is gone")
                             : tp_fail(e, TP_E_IO, "cannot open the weights file: %s", strerror(errno));
        goto out;
    }
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > TM_WEIGHTS_MAX) {
        rc = tp_fail(e, TP_E_BAD_WEIGHTS, "the weights file of this model is not a file of at most %d bytes",
                     TM_WEIGHTS_MAX);
        goto out;
    }
    if (tp_buf_grow(&b, (size_t)st.st_size + 1) == NULL) {
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for a weights file of %lld bytes", (long long)st.st_size);
        goto out;
    }
    while (b.n < (size_t)st.st_size) {
        ssize_t k = read(fd, b.p + b.n, (size_t)st.st_size - b.n);

        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0) {
            rc = tp_fail(e, TP_E_IO, "cannot read the weights file: %s", strerror(errno));
            goto out;
        }
        if (k == 0)
            break; /* shorter than it said: the reader of the format complains */
        b.n += (size_t)k;
    }
    *out = b;
    b = (struct tp_buf){0};
    rc = 0;
out:
    tp_buf_free(&b);
    if (fd >= 0)
        close(fd);
    return rc;
}

uint64_t td_sha256(const void *bytes, size_t n, char hex[65])
{
    static const char digit[] = "0123456789abcdef";
    struct sha256_ctx ctx;
    uint8_t sum[SHA256_DIGEST_SIZE];
    uint64_t first = 0;

    sha256_init(&ctx);
    sha256_update(&ctx, n, bytes);
    sha256_digest(&ctx, sizeof sum, sum);
    for (int i = 0; i < SHA256_DIGEST_SIZE; i++) {
        hex[2 * i] = digit[sum[i] >> 4];
        hex[2 * i + 1] = digit[sum[i] & 15];
    }
    hex[64] = '\0';
    for (int i = 0; i < 8; i++)
        first = first << 8 | sum[i];
    return first;
}

int td_snapshot_load(const char *path, const struct st_model *row, struct td_snapshot **out, struct tp_err *e)
{
    struct tp_buf bytes = {0};
    struct tm_model *m = NULL;
    struct tm_provenance p;
    uint64_t checksum;
    char hex[65];
    int rc;

    rc = td_weights_bytes(path, &bytes, e);
    if (rc != 0)
        return rc;
    checksum = td_sha256(bytes.p, bytes.n, hex);
    if (row->sha256[0] != '\0' && strcmp(row->sha256, hex) != 0)
        rc = tp_fail(e, TP_E_BAD_WEIGHTS,
                     "the weights file of model %lld is not the one that was published (SHA-256 differs)",
                     (long long)row->id);
    else
        rc = tm_weights_read(bytes.p, bytes.n, &m, &p, e);
    tp_buf_free(&bytes);
    if (rc != 0)
        return rc;
    return td_snapshot_new(m, &p, row, checksum, out, e);
}

static int read_golden(struct tp_record *r, int i, bool ms, struct tp_err *e)
{
    static const char workload[] = "\"golden\"", shapes[] = "[[\"TENSOR\", \"float32\", [96, 80]]]";
    const struct tp_ms_context c = {.workload = {workload, sizeof workload - 1},
                                    .args_info = {shapes, sizeof shapes - 1}};
    struct tp_buf text = {0};
    int rc;

    if (!ms)
        return tp_record_parse(r, golden[i], strlen(golden[i]), e);
    rc = tp_ms_convert(&c, golden_ms[i], strlen(golden_ms[i]), &text, e);
    if (rc == 0)
        rc = tp_record_parse(r, text.p, text.n, e);
    tp_buf_free(&text);
    return rc;
}

static int predict_golden(const struct td_snapshot *s, double out[3][GOLDEN], struct tp_err *e)
{
    struct tm_batch *b = tm_batch_new();
    struct tp_record r;
    int rc;

    tp_record_init(&r);
    rc = b == NULL ? tp_fail(e, TP_E_NO_MEMORY, "no memory to check a model") : tm_batch_begin(b, s->plan);
    for (int i = 0; i < GOLDEN && rc == 0; i++) {
        rc = read_golden(&r, i, s->model->features == TCLFEAT_TCLM_1, e);
        if (rc == 0)
            rc = tm_batch_add(b, &r, NULL, e);
        rc = rc > 0 ? 0 : rc;
    }
    if (rc == 0)
        rc = tm_batch_run(b, out[0], out[1], out[2]);
    tp_record_free(&r);
    tm_batch_free(b);
    return rc;
}

int td_snapshot_same(const struct td_snapshot *a, const struct td_snapshot *b, struct tp_err *e)
{
    double x[3][GOLDEN], y[3][GOLDEN];
    int rc;

    rc = predict_golden(a, x, e);
    if (rc == 0)
        rc = predict_golden(b, y, e);
    if (rc != 0)
        return rc;
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < GOLDEN; i++) {
            if (!isfinite(x[k][i]))
                return tp_fail(e, TP_E_BAD_WEIGHTS, "the model predicts no finite number for golden program %d", i);
            if (memcmp(&x[k][i], &y[k][i], sizeof x[k][i]) != 0)
                return tp_fail(e, TP_E_INTERNAL,
                               "the weights file does not reproduce the model: golden program %d differs", i);
        }
    return 0;
}
