#!/usr/bin/env python3
"""Golden vectors of libtclfeat: a second encoder, written from docs/features.md alone, in double precision.

    python3 tests/golden/features.py            writes tests/golden/features.txt from tests/golden/records.ndjson
    python3 tests/golden/features.py --check    compares instead; exit status 1 when they differ

Records with an odd number (from 0) are encoded with the hardware HW below, the others with nothing known.
Format of features.txt: `V <set> <id> <col>:<value> ...` a distinct row or summary, zeros left out;
`P <record> <set> <summary id or -> <row id> ...` a program. Only the standard library is needed.
"""
import json
import math
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CAP = 2**63 - 1
INT_MAX = 2**31 - 1
KINDS = "AN FU PR RE SP FSP FFSP SA CA CI CR CHR CHW RF".split()
HW_NAMES = ("num_cores clock_ghz vector_unit_bytes cache_line_bytes l1d_bytes l2_bytes l3_bytes memory_bandwidth_gbps peak_gflops "
            "max_shared_memory_per_block max_local_memory_per_block max_threads_per_block max_vthread_extent warp_size sm_count").split()
HW_DIVISOR = [4, 2, 4, 4, 12, 12, 12, 6, 8, 10, 16, 6, 2, 3, 4]
HW_PARAM = {"num_cores": 0, "vector_unit_bytes": 1, "cache_line_bytes": 2, "max_shared_memory_per_block": 3,
            "max_local_memory_per_block": 4, "max_threads_per_block": 5, "max_vthread_extent": 6, "warp_size": 7}
HW = {"num_cores": 48, "clock_ghz": 2.75, "vector_unit_bytes": 32, "l2_bytes": 2097152, "l3_bytes": 35651584.0,
      "memory_bandwidth_gbps": 204.8, "max_shared_memory_per_block": 0, "sm_count": 80}
TARGET_GROUPS = {"llvm": 1, "c": 1, "cuda": 2, "rocm": 2, "opencl": 2, "vulkan": 2, "metal": 2}


def lg(x):
    return math.log2(1 + x)


def prod(xs):
    p = 1
    for x in xs:
        p *= x or 1
    return min(p, CAP)


# ---- replay --------------------------------------------------------------------------------------------------------


class Stage:
    def __init__(self, loops=()):
        self.loops = [[e, 0] for e in loops]  # [extent, annotation]
        self.at = None  # (Stage, loop)
        self.scope = 0
        self.limit = None
        self.inlined = False

    def need(self, i):
        while len(self.loops) <= i:
            self.loops.append([0, 0])

    def extents(self):
        return [e for e, _ in self.loops]


class Replay:
    def __init__(self, steps):
        self.steps = steps
        self.stages = []  # position -> Stage or None
        self.facts = []
        self.limits = [0]
        for k, step in enumerate(steps):
            fact = {"kind": step[0], "stage": step[1], "own": None}
            getattr(self, step[0])(fact, *step[1:])
            if fact["own"] is not None:
                fact["n_loops"] = len(fact["own"].loops)
            self.facts.append(fact)

    def stage(self, i):
        while len(self.stages) <= i:
            self.stages.append(None)
        if self.stages[i] is None:
            self.stages[i] = Stage()
        return self.stages[i]

    def peek(self, i):
        return self.stages[i] if i < len(self.stages) else None

    def insert(self, i, stage):
        while len(self.stages) < i:
            self.stages.append(None)
        self.stages.insert(i, stage)

    def attached_to(self, stage):
        return [s for s in self.stages if s is not None and s.at is not None and s.at[0] is stage]

    def cut(self, f, stage, i, extent, lengths, outwards):
        """Split loop i; outwards: the inferred part is the outermost."""
        stage.need(i)
        total = prod(lengths)
        rest = -(-extent // total) if extent else 0
        parts = [rest] + lengths if outwards else lengths + [rest]
        stage.loops[i:i + 1] = [[e, 0] for e in parts]
        for s in self.attached_to(stage):
            if s.at[1] >= i:
                s.at = (stage, s.at[1] + len(lengths))
        f.update(iter=i, extent=extent, parts=parts[:5], padded=min(total * rest, CAP), own=stage)

    def around(self, f, stage, i, with_itself):
        e = stage.extents()
        f.update(extent=e[i], outer=prod(e[:i + (1 if with_itself else 0)]), inner=prod(e[i + 1:]), inside=len(e) - i - 1)

    def SP(self, f, s, i, extent, lengths, outwards):
        st = self.stage(s)
        st.need(i)
        self.cut(f, st, i, extent or st.loops[i][0], list(lengths), outwards)

    def FSP(self, f, s, i, src, n):
        st = self.stage(s)
        st.need(i)
        lengths = self.steps[src][4]
        self.cut(f, st, i, st.loops[i][0] or self.facts[src]["extent"], lengths[:n - 1] + [prod(lengths[n - 1:])], 1)

    def FFSP(self, f, s, i, srcs, level, factor):
        st = self.stage(s)
        f.update(iter=i, own=st)
        if any(level >= len(self.steps[q][4]) for q in srcs):
            return
        st.need(i)
        self.cut(f, st, i, st.loops[i][0], [prod(self.steps[q][4][level] for q in srcs)], factor)

    def FU(self, f, s, ids):
        st = self.stage(s)
        a, b = (ids[0], ids[-1]) if ids else (0, -1)
        if ids:
            st.need(b)
        e = st.extents()[a:b + 1]
        fused = 0 if 0 in e else prod(e)
        st.loops[a:b + 1] = [[fused, 0]]
        for x in self.attached_to(st):
            if x.at[1] > b:
                x.at = (st, x.at[1] - (b - a))
            elif x.at[1] >= a:
                x.at = (st, a)
        f.update(iter=a, extent=fused, own=st)

    def RE(self, f, s, perm):
        st = self.stage(s)
        st.need(len(perm) - 1)
        st.loops = [st.loops[p] for p in perm]
        for x in self.attached_to(st):
            if x.at[1] in perm:
                x.at = (st, perm.index(x.at[1]))
        e = st.extents()
        f.update(extent=e[0] if e else 0, parts=e[::-1][:4], own=st)

    def AN(self, f, s, i, code):
        st = self.stage(s)
        st.need(i)
        st.loops[i][1] = code
        f.update(iter=i, own=st)
        self.around(f, st, i, False)

    def PR(self, f, s, i, pragma):
        st = self.stage(s)
        f.update(iter=i, extent=0, outer=0, inner=0, inside=0, own=st)
        head, _, n = pragma.partition("$")
        if head == "auto_unroll_max_step" and n:
            f["unroll"] = st.limit = int(n)
            self.limits.append(int(n))
        if i < len(st.loops):
            self.around(f, st, i, False)

    def SA(self, f, s, i, factor, offset):
        st = self.stage(s)
        st.need(i)
        f.update(iter=i, extent=st.loops[i][0], parts=[factor, abs(offset)], own=st)

    def CA(self, f, s, t, i):
        st, target = self.stage(s), self.stage(t)
        target.need(i)
        f.update(iter=i, target=t, own=st)
        self.around(f, target, i, True)
        st.inlined = False
        st.at = (target, i)
        f["moved"] = prod(st.extents())

    def CR(self, f, s):
        st = self.stage(s)
        st.at, st.inlined = None, False
        f.update(moved=prod(st.extents()), own=st)

    def CI(self, f, s):
        st = self.stage(s)
        st.at, st.inlined = None, True
        f["own"] = st

    def made(self, f, at, scope, loops=()):
        new = Stage(loops)
        new.scope = {"": 0, "local": 1, "shared": 2, "global": 3}.get(scope, 4)
        self.insert(at, new)
        f.update(scope=new.scope, own=new)

    def CHR(self, f, s, scope, readers):
        f["target"] = readers[0] if readers else 0
        self.made(f, s + 1, scope)

    def CHW(self, f, s, scope):
        old = self.peek(s)
        if old is not None:
            old.loops, old.limit, old.inlined = [], None, False
        self.made(f, s, scope)

    def RF(self, f, s, i, at):
        st = self.stage(s)
        st.need(i)
        e = st.extents()
        at = min(at, len(e))
        # "L without f, and f inserted at place at": places count in L, so one less when f came from before it
        rest = [(j, x) for j, x in enumerate(e) if j != i]
        new = [x for j, x in rest if j < at] + [e[i]] + [x for j, x in rest if j >= at]
        f.update(iter=i, extent=e[i])
        st.loops = [[x, 0] for j, x in rest if j < at] + [[e[i], 0]]
        st.limit, st.inlined = None, False
        self.made(f, s, "", new)


# ---- tclf-1 --------------------------------------------------------------------------------------------------------


def hw_row(task, hw):
    row = [0.0] * 64
    row[14] = 1
    params = task[2] if len(task) > 2 and task[2] else [-1] * 8
    for i, name in enumerate(HW_NAMES):
        p = params[HW_PARAM[name]] if name in HW_PARAM else -1
        v = p if 0 < p < INT_MAX else hw.get(name)
        if v is not None and v >= 0:
            row[16 + i] = lg(v) / HW_DIVISOR[i]
            row[31 + i] = 1
    target = task[1].strip()
    kind = json.loads(target)["kind"] if target.startswith("{") else target.split()[0]
    kind = {"nvidia": "cuda", "aws": "llvm", "raspberry-pi": "llvm", "apple": "metal"}.get(kind.split("/")[0], kind)
    row[46 + TARGET_GROUPS.get(kind, 0 if "/" in kind else 3)] = 1  # HW names no kind
    return row


def numbers(x):
    if isinstance(x, list):
        return [v for y in x for v in numbers(y)]
    return [float(x)] if isinstance(x, (bool, int, float)) else []


def task_row(task):
    row = [0.0] * 64
    row[15] = 1
    try:
        key = json.loads(task[0])
    except ValueError:
        key = []
    args = key[1:] if isinstance(key, list) else []
    flat = [max(-2.0**40, min(2.0**40, v)) for v in numbers(args)]
    for i, v in enumerate(flat[:24]):
        row[16 + i] = math.copysign(lg(abs(v)), v) / 6
    row[40] = min(len(flat), 64) / 16
    layout = task[4] if len(task) > 4 else 0
    if layout in (1, 2):
        row[40 + layout] = 1
    for i, a in enumerate(args[:5]):
        row[43 + i] = min(len(numbers(a)), 16) / 4
    return row


def divisible(row, at, x):
    for i, d in enumerate((4, 8, 16, 32)):
        row[at + i] = 1 if x and x % d == 0 else 0
    row[at + 4] = 1 if x == 1 else 0


def step_row(step, f):
    row = [0.0] * 64
    kind = step[0]
    row[KINDS.index(kind)] = 1
    if kind == "AN":
        row[16 + step[3]] = 1
    if f.get("scope"):
        row[28 + f["scope"] - 1] = 1
    row[32] = min(step[1], 127) / 8
    row[33] = min(f.get("iter", 0), 127) / 8
    row[34] = min(f.get("target", 0), 127) / 8
    plain = kind != "PR"
    extent = min(f.get("extent", 0), INT_MAX) if plain else 0
    row[35] = lg(extent) / 4
    parts = [min(p, INT_MAX) for p in f.get("parts", [])]
    for i, p in enumerate(parts):
        row[36 + i] = lg(p) / 4
    if kind in ("AN", "CA"):
        row[41] = lg(f["outer"]) / 10
        row[42] = lg(f["inner"]) / 10
        row[44] = min(f["inside"], 127) / 8
    row[43] = lg(f.get("moved", 0)) / 10
    if "unroll" in f:
        row[46] = lg(min(f["unroll"], INT_MAX)) / 5
        row[47] = 1 if f["unroll"] == 0 else 0
    if f.get("padded"):
        row[48] = min(math.log2(f["padded"] / f["extent"]), 4) / 2
    row[49] = 1 if plain and "iter" in f and f.get("extent", 0) == 0 else 0
    divisible(row, 50, extent)
    if kind in ("SP", "FSP", "FFSP") and parts:
        divisible(row, 55, parts[-1])
        row[60] = len(parts) / 8
    if kind == "RE":
        row[45] = min(f["n_loops"], 127) / 16
        divisible(row, 55, parts[0] if parts else 0)
        for i, p in enumerate(step[2][::-1][:2]):
            row[61 + i] = min(p, 127) / 16
    if kind == "FU":
        row[60] = min(len(step[2]), 127) / 8
    if kind == "CHR":
        row[60] = min(len(step[3]), 127) / 8
    if kind == "FFSP":
        row[63] = min(step[4], 127) / 8
    if kind == "RF":
        row[63] = min(step[3], 127) / 8
    return row


def nest(stage):
    out = [0.0] * 32
    loops = stage.loops[::-1]  # innermost first
    for i, (e, _) in enumerate(loops[:14]):
        out[i] = lg(e) / 6
    for i in range(6):
        out[14 + i] = math.log2(prod(e for e, _ in loops[:2 * i + 2])) / 10
    for col, div, codes in ((20, 6, [3]), (21, 6, [2]), (23, 6, [1]), (24, 6, [4]), (25, 10, [5, 7, 9]), (26, 6, [6, 8, 10])):
        es = [e for e, a in loops if a in codes]
        out[col] = lg(prod(es)) / div if es else 0
    where = [i for i, (_, a) in enumerate(loops) if a == 2]
    out[22] = min(where[0], 32) / 4 if where else 0
    limit = stage.limit
    if stage.at is not None:
        target, i = stage.at
        out[27] = 1
        if not target.inlined and i < len(target.loops):
            out[28] = lg(prod(target.extents()[:i + 1])) / 10
        if limit is None and not target.inlined:
            limit = target.limit
    out[29] = lg(prod(stage.extents())) / 16
    out[30] = min(len(loops), 127) / 16
    done = 1
    if limit is not None:
        for e, a in loops:
            if a in (0, 1):
                if done * (e or 1) > limit:
                    break
                done *= e or 1
    out[31] = math.log2(done) / 6
    return out


def summary(rp):
    live = [s for s in rp.stages if s is not None and s.loops and not s.inlined]
    order = sorted(live, key=lambda s: -prod(s.extents()))  # stable: lower stage id first
    nests = [nest(s) for s in order[:2]] + [[0.0] * 32] * 2
    out = nests[0] + nests[1] + [0.0] * 8
    count = lambda *kinds: sum(s[0] in kinds for s in rp.steps)
    out[64] = lg(min(max(rp.limits), CAP)) / 5
    out[65] = min(sum(s is not None for s in rp.stages), 127) / 8
    out[66] = min(sum(s is not None and s.at is not None for s in rp.stages), 127) / 4
    out[67] = len(rp.steps) / 32
    out[68] = lg(min(sum(prod(s.extents()) for s in live if s.scope == 2), CAP)) / 10
    out[69] = min(count("CHR", "CHW", "RF"), 127) / 4
    out[70] = min(count("CI"), 127) / 8
    pads = [math.log2(f["padded"] / f["extent"]) for f in rp.facts if f["kind"] == "SP" and f["extent"]]
    out[71] = min(sum(pads), 8) / 2
    return out


def tclf1(rec, hw):
    task, steps = rec["i"][0], rec["i"][1][1]
    rp = Replay(steps)
    rows = [hw_row(task, hw), task_row(task)] + [step_row(s, f) for s, f in zip(steps, rp.facts)]
    return rows, summary(rp)


# ---- TLP -----------------------------------------------------------------------------------------------------------

TLP = {
    "tlp-cpu-1": (25, 22, "CI RE AN RF CHW SP CR CA FU FSP PR".split(), {"16": 1, "0": 2, "512": 3, "64": 4}),
    "tlp-gpu-1": (40, 20, "AN CHR CHW CI CA FFSP SP FU RE PR FSP".split(), {"0": 1, "16": 2, "64": 3, "1024": 4, "512": 5}),
}


def tlp(rec, name):
    n_steps, width, slots, unroll = TLP[name]
    pragmas = {"auto_unroll_max_step$" + k: v for k, v in unroll.items()}
    words = {"PR": pragmas, "CHW": {"local": 1, "shared": 2, "global": 3}, "CHR": {"shared": 1}}
    rows = []
    for step in rec["i"][1][1][:n_steps]:
        row = [1.0 if slot == step[0] else 0.0 for slot in slots]
        for x in step[1:]:
            row += [float(v) for v in x] if isinstance(x, list) else [float(words[step[0]].get(x, 0) if isinstance(x, str) else x)]
        rows.append((row + [0.0] * width)[:width])
    return rows or [[0.0] * width]


# ---- file ----------------------------------------------------------------------------------------------------------


def vectors(path):
    lines, ids = [], {}

    def vector(name, values):
        text = " ".join("%d:%.9g" % (i, v) for i, v in enumerate(values) if v)
        if (name, text) not in ids:
            ids[name, text] = len(ids)
            lines.append("V %s %d %s" % (name, ids[name, text], text))
        return str(ids[name, text])

    for n, line in enumerate(open(path)):
        rec = json.loads(line)
        rows, total = tclf1(rec, HW if n % 2 else {})
        program = ["P %d tclf-1" % n, vector("summary", total)] + [vector("tclf-1", r) for r in rows]
        lines.append(" ".join(program))
        for name in TLP:
            lines.append(" ".join(["P %d %s -" % (n, name)] + [vector(name, r) for r in tlp(rec, name)]))
    return "".join(x.rstrip() + "\n" for x in lines)


def main():
    text = vectors(os.path.join(HERE, "records.ndjson"))
    path = os.path.join(HERE, "features.txt")
    if "--check" in sys.argv[1:]:
        same = open(path).read() == text
        print("features.txt is", "up to date" if same else "not what this script makes")
        return 0 if same else 1
    with open(path, "w") as f:
        f.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
