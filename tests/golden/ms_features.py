"""tclm-1 again, in Python, from the formulas of proto/tclfeat_ms_columns.def: an encoder of its own for comparison.

    python3 tests/golden/ms_features.py > tests/golden/ms_features.txt

One line per row of the first records of tests/data/metaschedule: R record row col:value ..., and S record col:value ...
Only rows of instructions; hardware and task rows are those of tclf-1 (features.py), moved by 8 columns.
"""
import gzip
import json
import math
import os

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "metaschedule")
KINDS = ("SPLIT FUSE REORDER LOOP BIND CACHE_READ CACHE_WRITE COMPUTE_AT REVERSE_COMPUTE_AT INLINE REDUCTION ANNOTATE "
         "TENSORIZE STORAGE LAYOUT POSTPROC OTHER").split()
KIND = {"Split": "SPLIT", "Fuse": "FUSE", "Reorder": "REORDER", "Parallel": "LOOP", "Vectorize": "LOOP",
        "Unroll": "LOOP", "Bind": "BIND", "CacheRead": "CACHE_READ", "CacheWrite": "CACHE_WRITE",
        "ComputeAt": "COMPUTE_AT", "ReverseComputeAt": "REVERSE_COMPUTE_AT", "Annotate": "ANNOTATE",
        "EnterPostproc": "POSTPROC"}
SILENT = {"GetBlock", "GetLoops", "GetChildBlocks", "SamplePerfectTile", "SampleCategorical", "SampleComputeLocation",
          "Unannotate"}
KEYS = ["parallel", "vectorize", "unroll_explicit", "unroll_implicit", "cooperative_fetch", "thread_extent",
        "tiling_structure"]
SCOPES = ["local", "shared", "global"]


def lg(x):
    return math.log2(1 + x)


def thread(name):
    if name.startswith("blockIdx"):
        return 0
    if name.startswith("threadIdx"):
        return 1 if name == "threadIdx.x" else 2
    return 3 if name.startswith("vthread") else 4


def key_of(name):
    name = name[len("meta_schedule."):] if name.startswith("meta_schedule.") else name
    name = "thread_extent" if name.startswith("thread_extent") else name
    return KEYS.index(name) if name in KEYS else 7


def encode(trace):
    insts, decisions = trace
    decided = dict((i, d) for i, d in decisions)
    loops, numbers, places = {}, {}, {}
    blocks, after = 0, False
    rows, s = [], [0.0] * 72
    largest, made, bound, counts, sides = [0.0] * 4, [0.0] * 3, [0.0] * 5, [0] * 17, [0, 0]

    def value(x):
        if isinstance(x, (int, float)):
            return x
        return numbers.get(x, loops.get(x, places.get(x, 0)))

    for index, (name, inputs, attrs, outputs) in enumerate(insts):
        d = decided.get(index)
        if name == "GetLoops":
            loops.update((o, 0) for o in outputs)
        elif name == "SamplePerfectTile":
            numbers.update(zip(outputs, d))
            loops[inputs[0]] = loops[inputs[0]] or math.prod(d)
        elif name == "SampleCategorical":
            numbers[outputs[0]] = attrs[0][d]
        elif name == "SampleComputeLocation":
            places[outputs[0]] = d
            sides[d >= 0] += 1
        blocks += sum(o[0] == "b" for o in outputs)
        if name in SILENT:
            continue
        kind = KINDS.index(KIND.get(name, "OTHER"))
        row, parts, innermost = {kind: 1}, [], 0
        extent = unknown = total = None
        shown = None  # the value
        touched = [loops[x] for x in inputs if isinstance(x, str) and x in loops]
        if name == "Split":
            parts = [value(x) for x in inputs[1:]]
            extent = loops[inputs[0]] or math.prod(parts)
            total, innermost = math.prod(parts), parts[-1]
            loops.update(zip(outputs, parts))
            first = 0 if len(parts) >= 4 else 5
            for i, p in enumerate(reversed(parts)):
                s[first + i] += lg(p) / 10
            row[48] = len(parts) / 8
        elif name == "Fuse":
            extent = total = math.prod(loops[x] for x in inputs)
            loops[outputs[0]] = extent
            row[48] = len(inputs) / 8
        elif name == "Reorder":
            parts = [loops[x] for x in reversed(inputs)]
            extent = innermost = parts[0]
            total = math.prod(p or 1 for p in parts)
            row[48] = len(inputs) / 8
        elif name in ("Parallel", "Vectorize", "Unroll"):
            which = ["Parallel", "Vectorize", "Unroll"].index(name)
            row[24 + which] = 1
            extent = touched[0]
            made[which] += lg(extent) if extent else 0
        elif name == "Bind":
            row[32 + thread(attrs[0])] = 1
            extent = touched[0]
            bound[thread(attrs[0])] += lg(extent) if extent else 0
        elif name == "Annotate":
            row[24 + key_of(attrs[0])] = 1
            extent = touched[0] if touched else None
            if isinstance(inputs[1], (int, float)) or inputs[1] in numbers:
                shown = value(inputs[1])
                row[56] = shown == 0
                slot = {0: 0, 1: 1, 2: 2, 3: 2, 4: 3}.get(key_of(attrs[0]))
                if slot is not None:
                    largest[slot] = max(largest[slot], shown)
        elif name in ("CacheRead", "CacheWrite"):
            row[37 + (SCOPES.index(attrs[1]) if attrs[1] in SCOPES else 3)] = 1
        elif name in ("ComputeAt", "ReverseComputeAt"):
            if inputs[1] in places:
                shown = places[inputs[1]] + 2
                row[56] = shown < 2
            else:
                extent = touched[0]
        elif name == "EnterPostproc":
            after = True
        row[41] = min(blocks, 127) / 8
        if extent is not None:
            row[42] = lg(extent) / 4
            row[57] = extent == 0
        for i, p in enumerate(parts[:5]):
            row[43 + i] = lg(p) / 4
        for i, by in enumerate((4, 8, 16, 32)):
            row[49 + i] = innermost > 0 and innermost % by == 0
        row[53] = innermost == 1
        if shown is not None:
            row[54], row[55] = lg(shown) / 5, 1
        row[58] = after
        row[59] = lg(total) / 10 if total else 0
        row[60] = len(inputs) / 8
        rows.append(row)
        counts[kind] += 1
    for i, (v, by) in enumerate(zip(largest, (8, 4, 5, 4))):
        s[10 + i] = lg(v) / by
    s[14:17] = [v / 6 for v in made]
    s[17:22] = [v / 8 for v in bound]
    s[22:39] = [c / 16 for c in counts]
    s[39] = len(insts) / 64
    s[40:42] = [c / 8 for c in sides]
    return rows, s


def show(items):
    return " ".join("%d:%.9g" % (i, v) for i, v in sorted(items) if v)


def main():
    for name in ("cpu", "cuda"):
        with gzip.open(os.path.join(DATA, name + ".json.gz")) as f:
            records = json.loads(f.read().decode())["records"]
        for number, (_, record) in enumerate(records[:120:6]):
            rows, summary = encode(record[0])
            for i, row in enumerate(rows):
                print("R", name, number * 6, i, show(row.items()))
            print("S", name, number * 6, len(rows), show(enumerate(summary)))


if __name__ == "__main__":
    main()
