#!/usr/bin/python3
"""Golden vectors of continual distillation from PyTorch: python3 tests/golden/ckd.py > tests/golden/ckd.bin

Fisher information of the order of programs (Bradley-Terry), and the distillation loss, both by autograd in float64 on the
network, weights and programs of model.py. Format and sampling: model.py.
"""
import itertools
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import numpy as np
import torch
from model import COLS, DISTINCT, LENGTHS, S, TENSORS, f32, forward, make_weights, sample, stream, write


def fisher():
    w = make_weights()
    rows = torch.tensor(f32(stream(1, DISTINCT * COLS).reshape(DISTINCT, COLS)))
    pick = np.floor((stream(2, sum(LENGTHS)) + 1) / 2 * DISTINCT).astype(int)
    summary = torch.tensor(f32(stream(3, len(LENGTHS) * S).reshape(-1, S)))
    score, at = [], 0
    for i, length in enumerate(LENGTHS):
        score.append(forward(w, rows[pick[at:at + length]], summary[i])[0])
        at += length
    names = [n for n, *_ in TENSORS]
    total = {n: torch.zeros_like(w[n]) for n in names}
    pairs = [p for task in (range(4), range(4, 8)) for p in itertools.combinations(task, 2)]
    for i, j in pairs:
        p = torch.sigmoid(score[i] - score[j]).detach()
        grads = torch.autograd.grad(score[i] - score[j], [w[n] for n in names], retain_graph=True)
        for n, g in zip(names, grads):
            total[n] += p * (1 - p) * g * g / len(pairs)
    for n in names:
        write("max " + n[:27], [total[n].max()])
        write(n, sample(total[n]))


def distillation():
    s = torch.tensor(f32(3 * stream(5, 12)), requires_grad=True)
    t = torch.tensor(f32(stream(7, 12)))
    z = (s - s.mean()) / s.std(unbiased=False)
    loss = 0.25 * ((z - (t - t.mean()) / t.std(unbiased=False)) ** 2).sum()
    loss.backward()
    write("loss distil", [loss.detach()])
    write("grad distil", s.grad)


if __name__ == "__main__":
    fisher()
    distillation()
