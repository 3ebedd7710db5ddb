"""MetaSchedule tuning records, composed from the grammar that TVM prints traces by (src/tir/schedule/trace.cc): what the
rules for CPU (multi-level tiling SSRSRS, cache write, parallel-vectorize-unroll and its postprocessor) and for CUDA
(SSSRRSRS, thread binding, cooperative fetching) make of matrix products. Sampled decisions are random; the latencies are
not measured: they come from cost(), a formula of the tiles, so that there is something to be learned from them.

    python3 tests/golden/compose_ms.py     # writes tests/data/metaschedule/*.json.gz, the same bytes each time
"""
import gzip
import json
import math
import os
import random

HERE = os.path.dirname(os.path.abspath(__file__))
CPU = {"kind": "llvm", "tag": "", "keys": ["cpu"], "mcpu": "skylake-avx512", "num-cores": 16}
CUDA = {"kind": "cuda", "tag": "", "keys": ["cuda", "gpu"], "arch": "sm_80", "max_num_threads": 1024,
        "thread_warp_size": 32, "max_threads_per_block": 1024}


class Trace:
    """Names variables as TVM does: a letter and a running number."""

    def __init__(self):
        self.insts, self.decisions, self.n = [], [], 0

    def new(self, letter, count):
        names = [letter + str(self.n + i) for i in range(count)]
        self.n += count
        return names

    def add(self, name, inputs=(), attrs=(), letter="", count=0, decision=None):
        out = self.new(letter, count)
        if decision is not None:
            self.decisions.append([len(self.insts), decision])
        self.insts.append([name, list(inputs), list(attrs), out])
        return out

    def json(self):
        return [self.insts, self.decisions]


def factors(rng, extent, n, innermost):
    """A random perfect tiling."""
    while True:
        left, out = extent, []
        for _ in range(n - 1):
            f = rng.choice([d for d in range(1, left + 1) if left % d == 0])
            out.append(f)
            left //= f
        if left <= innermost:
            return out + [left]


def cpu(rng, n, m, k):
    t = Trace()
    block, = t.add("GetBlock", [], ["matmul", "main"], "b", 1)
    root, = t.add("GetBlock", [], ["root", "main"], "b", 1)
    t.add("Annotate", [block, '"SSRSRS"'], ["meta_schedule.tiling_structure"])
    loops = t.add("GetLoops", [block], [], "l", 3)
    tiles, parts = [], []
    for loop, extent, levels in zip(loops, (n, m, k), (4, 4, 2)):
        decision = factors(rng, extent, levels, 64)
        v = t.add("SamplePerfectTile", [loop], [levels, 64], "v", levels, decision)
        parts.append(t.add("Split", [loop] + v, [1], "l", levels))
        tiles.append(decision)
    i, j, r = parts
    t.add("Reorder", [i[0], j[0], i[1], j[1], r[0], i[2], j[2], r[1], i[3], j[3]])
    write, = t.add("CacheWrite", [block], [0, "global"], "b", 1)
    t.add("ReverseComputeAt", [write, j[rng.randrange(2)]], [1, -1])
    where = rng.choice([-2, -1, 0, 3])
    location, = t.add("SampleComputeLocation", [block], [], "l", 1, where)
    t.add("ComputeAt", [block, location], [1, -1])
    t.add("Annotate", [root, 160], ["meta_schedule.parallel"])
    t.add("Annotate", [root, 64], ["meta_schedule.vectorize"])
    unroll = rng.randrange(4)
    v, = t.add("SampleCategorical", [], [[0, 16, 64, 512], [0.25] * 4], "v", 1, unroll)
    t.add("Annotate", [root, v], ["meta_schedule.unroll_explicit"])
    t.add("EnterPostproc")
    t.add("Unannotate", [root], ["meta_schedule.parallel"])
    children = t.add("GetChildBlocks", [root], [], "b", 2)
    inner = t.add("GetLoops", [children[0]], [], "l", 10)
    fused, = t.add("Fuse", inner[:2], [1], "l", 1)
    t.add("Parallel", [fused])
    if tiles[1][3] > 1:
        t.add("Vectorize", [inner[9]])
    t.add("Annotate", [inner[2], (0, 16, 64, 512)[unroll]], ["pragma_auto_unroll_max_step"])
    return t, cost_cpu(tiles, (0, 16, 64, 512)[unroll])


def cost_cpu(tiles, unroll):
    i, j, r = tiles
    work = math.prod(i) * math.prod(j) * math.prod(r)
    outer = i[0] * j[0]
    vector = min(j[3], 16) if j[3] % 4 == 0 else 1
    inner = i[2] * i[3] * j[2] * j[3]
    footprint = (i[2] * i[3] + j[2] * j[3]) * r[1] + inner
    return (work / (2e9 * vector ** 0.8 * min(outer, 16) ** 0.9) * (1 + max(0, math.log2(footprint / 8192)) * 0.3)
            * (1 + 0.4 * (outer % 16 != 0 and outer > 16)) * (1.3 if unroll == 0 else 1.0) + 5e-6)


def cuda_tiles(rng, n, m, k):
    """Most of them with as many threads as can run: the search's postprocessor drops the others."""
    while True:
        tiles = [factors(rng, extent, levels, 64) for extent, levels in ((n, 5), (m, 5), (k, 3))]
        if 32 <= tiles[0][2] * tiles[1][2] <= 1024 or rng.random() < 0.01:
            return tiles


def cuda(rng, n, m, k):
    t = Trace()
    block, = t.add("GetBlock", [], ["matmul", "main"], "b", 1)
    root, = t.add("GetBlock", [], ["root", "main"], "b", 1)
    t.add("Annotate", [block, '"SSSRRSRS"'], ["meta_schedule.tiling_structure"])
    loops = t.add("GetLoops", [block], [], "l", 3)
    tiles, parts = cuda_tiles(rng, n, m, k), []
    for loop, decision in zip(loops, tiles):
        levels = len(decision)
        v = t.add("SamplePerfectTile", [loop], [levels, 64], "v", levels, decision)
        parts.append(t.add("Split", [loop] + v, [1], "l", levels))
    i, j, r = parts
    t.add("Reorder", [i[0], j[0], i[1], j[1], i[2], j[2], r[0], r[1], i[3], j[3], r[2], i[4], j[4]])
    for level, thread in enumerate(("blockIdx.x", "vthread.x", "threadIdx.x")):
        fused, = t.add("Fuse", [i[level], j[level]], [1], "l", 1)
        t.add("Bind", [fused], [thread])
    t.add("Annotate", [block, 32], ["meta_schedule.thread_extent_low_inclusive"])
    t.add("Annotate", [block, 1024], ["meta_schedule.thread_extent_high_inclusive"])
    write, = t.add("CacheWrite", [block], [0, "local"], "b", 1)
    t.add("ReverseComputeAt", [write, fused], [1, -1])
    for operand in (0, 1):
        read, = t.add("CacheRead", [block], [operand, "shared"], "b", 1)
        t.add("ComputeAt", [read, r[0]], [1, -1])
        fetch = rng.randrange(4)
        v, = t.add("SampleCategorical", [], [[1, 2, 3, 4], [0.25] * 4], "v", 1, fetch)
        t.add("Annotate", [read, v], ["meta_schedule.cooperative_fetch"])
    unroll = rng.randrange(5)
    v, = t.add("SampleCategorical", [], [[0, 16, 64, 512, 1024], [0.2] * 5], "v", 1, unroll)
    t.add("Annotate", [root, v], ["meta_schedule.unroll_explicit"])
    t.add("EnterPostproc")
    i, j, r = tiles
    threads, blocks = i[2] * j[2], i[0] * j[0]
    ok = 32 <= threads <= 1024
    seconds = (math.prod(i) * math.prod(j) * math.prod(r) / (1e11 * (min(threads, 256) / 256) ** 0.7 * min(1, blocks / 108))
               * (1 + 0.2 * max(0, math.log2(i[3] * i[4] * j[3] * j[4] / 64))) + 3e-6)
    return t, seconds if ok else None


def compose(make, target, shapes, count, seed):
    rng = random.Random(seed)
    workloads, lines = [], []
    for index, (n, m, k) in enumerate(shapes):
        workloads.append([str(rng.getrandbits(64)), ""])
        args = [["TENSOR", "float32", [n, k]], ["TENSOR", "float32", [k, m]], ["TENSOR", "float32", [n, m]]]
        for _ in range(count):
            trace, seconds = make(rng, n, m, k)
            runs = [1e10] if seconds is None else [float("%.6g" % (seconds * rng.uniform(0.98, 1.02))) for _ in range(3)]
            lines.append([index, [trace.json(), runs, target, args]])
    return {"format": "metaschedule", "workloads": workloads, "records": lines}


def main():
    shapes = [(128, 128, 128), (256, 256, 256), (512, 512, 64), (64, 768, 768), (1024, 64, 256), (192, 384, 96)]
    for name, make, target, seed in (("cpu", cpu, CPU, 1), ("cuda", cuda, CUDA, 2)):
        text = json.dumps(compose(make, target, shapes, 80, seed))
        path = os.path.join(HERE, "..", "data", "metaschedule", name + ".json.gz")
        with open(path, "wb") as f, gzip.GzipFile("", "wb", 9, f, mtime=0) as z:
            z.write(text.encode())


if __name__ == "__main__":
    main()
