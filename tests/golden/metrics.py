#!/usr/bin/python3
"""Golden values for model/metrics.c and model/calibrate.c, by definition and brute force (numpy only).

Usage: python3 tests/golden/metrics.py > tests/golden/metrics.inc
Pairs are counted one by one, the expectation of a random top-k by listing every subset, Spearman as Pearson's
correlation of mid-ranks, the logistic fit by plain gradient descent with momentum on the unnormalised problem.
"""
import itertools
import numpy as np

rng = np.random.default_rng(20240607)
INF, NAN = float("inf"), float("nan")


def make():
    """Six tasks: plain, ties, failures, everything failed, one program, all costs equal; programs shuffled together."""
    rows = []
    for t, n in enumerate((24, 21, 15, 4, 1, 5)):
        cost = np.exp(rng.normal(-7, 0.8, n))
        score = -np.log(cost) + rng.normal(0, 1.5, n)
        lat = cost * np.exp(rng.normal(0.1, 0.3, n))
        if t == 1:
            cost = np.round(cost, 4) + 1e-4
            score = np.round(score)
        if t == 2:
            cost[[0, 3, 4]] = INF
            score[4] = score.max() + 1  # a failure is ranked first
            score[6] = NAN
        if t == 3:
            cost[:] = INF
        if t == 5:
            cost[:] = 0.25
            score[2] = NAN
        rows += [(t, c, s, l) for c, s, l in zip(cost, score, lat)]
    rng.shuffle(rows)
    return [np.array(c) for c in zip(*rows)]


def midrank(v):
    return np.array([(v < x).sum() + 0.5 * ((v == x).sum() + 1) for x in v])


def task_metrics(c, s, l):
    valid = np.isfinite(c)
    s = np.where(np.isnan(s), -1e300, s)
    order = sorted(range(len(c)), key=lambda i: -s[i])  # stable
    T, r = c.min(), {}
    r["T"] = T
    for k in (1, 5):
        b = min(c[i] for i in order[:k])
        r[f"top{k}"] = T / b if np.isfinite(b) else 0.0
        r[f"best{k}"] = b if np.isfinite(b) else c[valid].max()
        subsets = [min(x) for x in itertools.combinations(c, min(k, len(c)))]
        r[f"random{k}"] = float(np.mean([T / x if np.isfinite(x) else 0.0 for x in subsets]))
    for name, f in (("pairwise", 1.0), ("pairwise_10pct", 1.1)):
        n = good = 0
        for i, j in itertools.permutations(range(len(c)), 2):
            if c[i] * f < c[j]:
                n += 1
                good += 1 if s[i] > s[j] else 0.5 if s[i] == s[j] else 0
        r[name] = good / n if n else NAN
    big = np.where(valid, c, 1e300)
    x, y = midrank(s), midrank(-big)
    r["spearman"] = float(np.corrcoef(x, y)[0, 1]) if x.std() > 0 and y.std() > 0 else NAN
    r["mape"] = list(np.abs(l[valid] - c[valid]) / c[valid])
    r["ln"] = list(np.abs(np.log(l[valid] / c[valid])))
    return r


def metrics(task, cost, score, lat, n_tasks, min_programs):
    per, skipped, programs = [], 0, 0
    for t in range(n_tasks):
        m = task == t
        if np.isfinite(cost[m]).sum() < max(1, min_programs):
            skipped += 1
            continue
        programs += int(m.sum())
        per.append(task_metrics(cost[m], score[m], lat[m]))
    mean = lambda k: float(np.nanmean([p[k] for p in per]))
    tot = lambda k: sum(p[k] for p in per)
    return [len(per), skipped, programs, mean("top1"), mean("top5"), tot("T") / tot("best1"), tot("T") / tot("best5"), mean("pairwise"),
            mean("pairwise_10pct"), mean("random1"), mean("random5"), mean("spearman"), float(np.mean(sum((p["mape"] for p in per), []))),
            float(np.median(sum((p["ln"] for p in per), [])))] + [float(np.mean(np.array(sum((p["ln"] for p in per), [])) <= np.log(f)))
                                                                  for f in (1.25, 1.5, 2)]


def calibrate(task, cost, s, l, n_tasks):
    ok = np.isfinite(s) & np.isfinite(l)
    best = np.array([cost[task == t].min() for t in range(n_tasks)])
    ok &= np.isfinite(best[task])
    y = np.where(np.isfinite(cost[ok]), best[task][ok] / cost[ok], 0.0)
    x = s[ok]
    a = b = va = vb = 0.0
    for _ in range(400000):
        q = 1 / (1 + np.exp(-(a * x + b)))
        va = 0.9 * va + np.mean((q - y) * x)
        vb = 0.9 * vb + np.mean(q - y)
        a, b = a - 0.02 * va, b - 0.02 * vb
    m = ok & np.isfinite(cost)
    r = np.log(cost[m]) - l[m]
    shift = np.median(r)
    return [a, b, float(shift)]


def c_num(v):
    return "NAN" if np.isnan(v) else "INFINITY" if np.isinf(v) else repr(float(v))


def array(ctype, name, v, f):
    print(f"static const {ctype} {name}[] = {{")
    v = [f(x) for x in v]
    for i in range(0, len(v), 6):
        print("    " + ", ".join(v[i:i + 6]) + ",")
    print("};")


task, cost, score, lat = make()
task = task.astype(int)
print("/* Made by tests/golden/metrics.py: do not edit. */\n#include <math.h>\n#include <stdint.h>\n")
array("uint32_t", "golden_task", task, str)
array("double", "golden_cost", cost, c_num)
array("double", "golden_score", score, c_num)
array("double", "golden_latency", lat, c_num)
print("/* in the order of struct tm_metrics: tasks, tasks_skipped, programs, ... */")
array("double", "golden_all", metrics(task, cost, score, lat, 6, 1), c_num)
array("double", "golden_min6", metrics(task, cost, score, lat, 6, 6), c_num)
print("/* a, b, shift; the scores shrunk so that the fit is not the identity */")
array("double", "golden_calibration", calibrate(task, cost, 0.3 * score - 4, np.log(lat), 6), c_num)
