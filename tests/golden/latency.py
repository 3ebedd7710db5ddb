#!/usr/bin/python3
"""Golden values for model/latency.c, by definition and brute force (numpy only).

Usage: python3 tests/golden/latency.py > tests/golden/latency.inc
Medians without one program are taken over lists without it, the slope by trying all, the Laplace fit by gradient
descent, quantiles by counting weights.
"""
import numpy as np

rng = np.random.default_rng(20241101)
INF = float("inf")
MIN, TASKS, SEEN = 5, 14, (1, 4, 9)
SHIFT = 0.25


def make():
    """Fourteen tasks of 3 to 40 programs, shuffled together; the error grows as the score falls; some failures."""
    rows = []
    for t in range(TASKS):
        n = 3 if t == 2 else 5 if t == 3 else int(rng.integers(8, 41))
        level, ln = rng.normal(0, 0.6), rng.normal(-7, 0.7, n)
        score = rng.uniform(0.02, 0.98, n)
        true = -7 + level + 0.7 * (ln + 7) + rng.normal(0, 0.15, n) * np.exp(1.5 * (0.5 - score))
        cost = np.exp(true)
        cost[rng.uniform(size=n) < 0.08] = INF
        rows += [(t, c, s, l) for c, s, l in zip(cost, score, ln)]
    rng.shuffle(rows)
    return [np.array(c) for c in zip(*rows)]


def weighted_quantile(x, w, q):
    order = np.argsort(x)
    return x[order][np.searchsorted(np.cumsum(w[order]), q * w.sum() * (1 - 1e-12))]


def spread(r, score, w):
    r, z, w = np.abs(r), 0.5 - score, w / w.sum()
    c, d, vc, vd = np.log(np.sum(w * r)), 0.0, 0.0, 0.0
    for _ in range(60000):
        e = w * r * np.exp(-c - d * z)
        vc, vd = 0.9 * vc + np.sum(w - e), 0.9 * vd + np.sum((w - e) * z)
        c, d = c - 0.02 * vc, d - 0.05 * vd
    u = r / np.exp(c + d * z)
    return [float(np.exp(c) * np.sqrt(weighted_quantile(u, w, 0.6827) * 0.5 * weighted_quantile(u, w, 0.9545))), float(d)]


def main():
    task, cost, score, ln = make()
    task = task.astype(int)
    ok = np.isfinite(cost)
    lc = np.where(ok, np.log(np.where(ok, cost, 1)), np.nan)
    rows = lambda t: np.flatnonzero((task == t) & ok)
    many = [t for t in range(TASKS) if len(rows(t)) > MIN]

    # spread of tasks that are new
    plain = lc - ln
    levels = {t: np.median(plain[rows(t)]) for t in range(TASKS) if t not in SEEN and len(rows(t))}
    r, s, w = [], [], []
    for t in levels:
        other = np.median([v for k, v in levels.items() if k != t])
        for i in rows(t):
            r.append(plain[i] - other), s.append(score[i]), w.append(1 / len(rows(t)))
    unknown = spread(np.array(r), np.array(s), np.array(w))

    # slope within tasks
    def deviation(slope):
        x = lc - SHIFT - slope * (ln - SHIFT)
        return np.mean([np.mean(np.abs(x[rows(t)] - np.median(x[rows(t)]))) for t in many])
    slope = min((k / 20 for k in range(8, 25)), key=deviation)

    # spread of tasks with an offset
    x = lc - SHIFT - slope * (ln - SHIFT)
    r, s, w = [], [], []
    for t in many:
        for i in rows(t):
            others = np.array([x[j] for j in rows(t) if j != i])
            r.append((x[i] - np.median(others)) / np.sqrt(1 + np.pi / 2 / len(others)))
            s.append(score[i]), w.append(1 / len(rows(t)))
    known = spread(np.array(r), np.array(s), np.array(w))
    offsets = [float(np.median(x[rows(t)])) for t in range(TASKS)]

    def c_num(v):
        return "INFINITY" if np.isinf(v) else repr(float(v))

    def array(ctype, name, v, f):
        print(f"static const {ctype} {name}[] = {{")
        v = [f(x) for x in v]
        for i in range(0, len(v), 6):
            print("    " + ", ".join(v[i:i + 6]) + ",")
        print("};")

    print("/* Made by tests/golden/latency.py: do not edit. */\n#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n")
    print(f"enum {{ GOLDEN_TASKS = {TASKS} }};")
    array("uint32_t", "golden_task", task, str)
    array("double", "golden_cost", cost, c_num)
    array("double", "golden_score", score, c_num)
    print("/* l + shift */")
    array("double", "golden_ln_latency", ln, c_num)
    array("bool", "golden_seen", [t in SEEN for t in range(TASKS)], lambda v: "true" if v else "false")
    print("/* shift, known_slope, latency_std, latency_tilt, known_std, known_tilt */")
    array("double", "golden_fit", [SHIFT, slope] + unknown + known, c_num)
    print("/* of each task, with that slope */")
    array("double", "golden_offset", offsets, c_num)
    array("uint32_t", "golden_offset_n", [len(rows(t)) for t in range(TASKS)], str)


main()
