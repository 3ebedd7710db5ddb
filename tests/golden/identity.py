#!/usr/bin/env python3
"""Golden values of tests/unit/test_proto_identity.c and test_proto_steps_pack.c, from the standard library only.

Prints, for each line of a log on stdin: task id, canonical identity, packed steps (hex), program hash.
The identity is what json.dumps makes of the decoded workload key; the packing follows docs/records.md.
"""
import hashlib
import json
import sys

KINDS = "AN FU PR RE SP FSP FFSP SA CA CI CR CHR CHW RF".split()
SHORT = ["local", "shared", "global", "debug_skip_region"] + [f"auto_unroll_max_step${n}" for n in (0, 16, 64, 512, 1024)]


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def identity(task):
    key = task[0]
    try:
        decoded = json.loads(key)
        if not isinstance(decoded, list) or not decoded:
            decoded = key
    except ValueError:
        decoded = key
    kind = json.loads(task[1])["kind"] if task[1].lstrip().startswith("{") else task[1].split()[0]
    return compact([decoded, kind, task[4] if len(task) > 4 else 0])


def varint(value):
    value &= 0xFFFFFFFF
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def pack(steps):
    out = b"\x01" + varint(len(steps))
    for tag, *operands in steps:
        out += bytes([KINDS.index(tag)])
        for v in operands:
            if isinstance(v, int):
                out += varint(v)
            elif isinstance(v, list):
                out += varint(len(v)) + b"".join(varint(x) for x in v)
            elif v in SHORT:
                out += varint(SHORT.index(v))
            else:
                raw = v.encode()
                out += varint(len(raw) + 16) + raw
    return out


for line in sys.stdin:
    task, (_, steps) = json.loads(line)["i"]
    canonical = identity(task)
    task_id = hashlib.sha256(canonical.encode()).hexdigest()[:16]
    packed = pack(steps)
    print(task_id, canonical, packed.hex(), hashlib.sha256(task_id.encode() + b"\0" + packed).hexdigest()[:32], sep="\t")
