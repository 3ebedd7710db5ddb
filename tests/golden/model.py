#!/usr/bin/python3
"""Golden vectors of the cost model from PyTorch: python3 tests/golden/model.py > tests/golden/model.bin

An independent implementation of docs/model.md section 2 (float64, dense loops, autograd), of the losses and of Adam.
Inputs are not stored: both sides make them from one counter-based generator (splitmix64), so the file holds results only.
Format, little endian, repeated: name (32 bytes, NUL padded), count (uint32), float32[count].
A tensor of more than 1024 entries is sampled: entries k * (size // 1024), k < 1024; its largest magnitude stands before it.
"""
import struct
import sys

import numpy as np
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)

COLS, EMBED, D, N, K, R, S, SW, H1, H2 = 64, 64, 128, 8, 4, 8, 72, 64, 64, 32
CAT = D + SW
# name, shape, centre, spread: the order of model/tensors.def
TENSORS = [
    ("embed.0.weight", (EMBED, COLS), 0, 0.2), ("embed.0.bias", (EMBED,), 0, 0.2),
    ("embed.1.weight", (D, EMBED), 0, 0.2), ("embed.1.bias", (D,), 0, 0.2),
    ("norm.weight", (D,), 1, 0.3), ("mixer.in_proj.weight", (2 * D, D), 0, 0.1),
    ("mixer.conv1d.weight", (D, 1, K), 0, 0.5), ("mixer.conv1d.bias", (D,), 0, 0.5),
    ("mixer.x_proj.weight", (R + 2 * N, D), 0, 0.1), ("mixer.dt_proj.weight", (D, R), 0, 0.35),
    ("mixer.dt_proj.bias", (D,), -3, 2), ("mixer.A_log", (D, N), None, 0.3),
    ("mixer.D", (D,), 1, 0.3), ("mixer.out_proj.weight", (D, D), 0, 0.1), ("norm_f.weight", (D,), 1, 0.3),
    ("summary.0.weight", (SW, S), 0, 0.12), ("summary.0.bias", (SW,), 0, 0.12),
    ("summary.1.weight", (SW, SW), 0, 0.12), ("summary.1.bias", (SW,), 0, 0.12),
    ("head.0.weight", (H1, CAT), 0, 0.1), ("head.0.bias", (H1,), 0, 0.1),
    ("head.1.weight", (H2, H1), 0, 0.15), ("head.1.bias", (H2,), 0, 0.15),
    ("head.2.weight", (2, H2), 0, 0.2), ("head.2.bias", (2,), 0, 0.2),
]
LENGTHS = [1, 2, 3, 5, 23, 37, 12, 4]  # rows of each program
DISTINCT = 29


def stream(seed, n):
    """n uniforms in [-1, 1): splitmix64 started at seed * 2^32."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed << 32) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1


def f32(a):
    return np.asarray(a).astype(np.float32).astype(np.float64)


def make_weights():
    w = {}
    for i, (name, shape, centre, spread) in enumerate(TENSORS):
        u = stream(100 + i, int(np.prod(shape))).reshape(shape)
        c = np.log(np.arange(1, N + 1)) if centre is None else centre
        w[name] = torch.tensor(f32(c + spread * u), requires_grad=True)
    return w


def linear(w, name, x, bias=True):
    y = x @ w[name + ".weight"].T
    return y + w[name + ".bias"] if bias else y


def rmsnorm(x, g):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * g


def forward(w, rows, summary):
    """One program: rows [T][COLS], summary [S] -> (s, l)."""
    h = torch.relu(linear(w, "embed.1", torch.relu(linear(w, "embed.0", rows))))
    u = rmsnorm(h, w["norm.weight"])
    x, z = linear(w, "mixer.in_proj", u, bias=False).chunk(2, -1)
    x = F.conv1d(F.pad(x.T[None], (K - 1, 0)), w["mixer.conv1d.weight"], w["mixer.conv1d.bias"], groups=D)[0].T
    x = F.silu(x)
    tau, b, c = linear(w, "mixer.x_proj", x, bias=False).split([R, N, N], -1)
    delta = F.softplus(linear(w, "mixer.dt_proj", tau))
    a = -torch.exp(w["mixer.A_log"])
    state, total = torch.zeros(D, N), torch.zeros(D)
    for t in range(len(rows)):
        state = torch.exp(delta[t][:, None] * a) * state + (delta[t] * x[t])[:, None] * b[t][None]
        y = (state * c[t][None]).sum(-1) + w["mixer.D"] * x[t]
        total = total + linear(w, "mixer.out_proj", y * F.silu(z[t]), bias=False) + h[t]
    pooled = rmsnorm(total, w["norm_f.weight"])
    g = torch.relu(linear(w, "summary.1", torch.relu(linear(w, "summary.0", summary))))
    v = torch.relu(linear(w, "head.0", torch.cat([pooled, g])))
    return linear(w, "head.2", torch.relu(linear(w, "head.1", v)))


def pairwise(s, y):
    up = (y[:, None] > y[None]).double() * (y[:, None] - y[None])
    return (up * F.softplus(-(s[:, None] - s[None]))).sum()


def lambdarank(s, y):
    n = len(s)
    rank = torch.empty(n)
    rank[torch.argsort(s, descending=True)] = torch.arange(1, n + 1).double()
    best = torch.sort(y, descending=True)[0]
    ideal = ((2**best - 1) / torch.log2(1 + torch.arange(1, n + 1).double())).sum().clamp(min=1e-10)
    gain, discount = (2**y - 1) / ideal, 1 / torch.log2(1 + rank)
    weight = (discount[:, None] - discount[None]).abs() * (gain[:, None] - gain[None]).abs()
    return (weight * (y[:, None] > y[None]) * F.softplus(-(s[:, None] - s[None]))).sum() / np.log(2)


def write(name, values):
    v = np.asarray(values, dtype="<f4").ravel()
    sys.stdout.buffer.write(name.encode().ljust(32, b"\0") + struct.pack("<I", v.size) + v.tobytes())


def sample(t):
    v = t.detach().numpy().ravel()
    return v if v.size <= 1024 else v[np.arange(1024) * (v.size // 1024)]


def main():
    w = make_weights()
    rows = torch.tensor(f32(stream(1, DISTINCT * COLS).reshape(DISTINCT, COLS)))
    pick = np.floor((stream(2, sum(LENGTHS)) + 1) / 2 * DISTINCT).astype(int)
    summary = torch.tensor(f32(stream(3, len(LENGTHS) * S).reshape(-1, S)))
    up = torch.tensor(f32(stream(4, 2 * len(LENGTHS)).reshape(-1, 2)))

    out, at = [], 0
    for i, length in enumerate(LENGTHS):
        out.append(forward(w, rows[pick[at:at + length]], summary[i]))
        at += length
    out = torch.stack(out)
    (out * up).sum().backward()
    write("s", out[:, 0].detach())
    write("l", out[:, 1].detach())
    for name, *_ in TENSORS:
        write("max " + name[:27], [w[name].grad.abs().max()])
        write(name, sample(w[name].grad))

    # losses of one task: twelve programs, a tie in y, two failures
    s = torch.tensor(f32(3 * stream(5, 12)), requires_grad=True)
    y = (stream(6, 12) + 1) / 2
    y[3], y[4], y[5], y[6] = y[2], 0, 0, 1
    y = torch.tensor(f32(y))
    for name, loss in ("pairwise", pairwise), ("lambda", lambdarank):
        s.grad = None
        value = loss(s, y)
        value.backward()
        write("loss " + name, [value.detach()])
        write("grad " + name, s.grad)
    target = torch.tensor(f32(stream(7, 12)))
    s.grad = None
    value = F.huber_loss(s, target, reduction="sum")
    value.backward()
    write("loss huber", [value.detach()])
    write("grad huber", s.grad)

    # five clipped steps of Adam with a strong weight decay; the gradient of step t is a stream of its own
    w = make_weights()
    exempt = {n for n, shape, *_ in TENSORS if len(shape) == 1 or n == "mixer.A_log"}
    adam = torch.optim.Adam([
        {"params": [w[n] for n, *_ in TENSORS if n not in exempt], "weight_decay": 0.02},
        {"params": [w[n] for n, *_ in TENSORS if n in exempt], "weight_decay": 0},
    ], lr=3e-3)
    for step in range(5):
        for i, (name, shape, *_) in enumerate(TENSORS):
            w[name].grad = torch.tensor(f32(stream(1000 + 100 * step + i, int(np.prod(shape))).reshape(shape)))
        torch.nn.utils.clip_grad_norm_(list(w.values()), 1.0)
        adam.step()
    for name, *_ in TENSORS:
        v = w[name].detach().numpy().ravel()
        write("adam " + name[:26], v[:min(v.size, 64)])


if __name__ == "__main__":
    main()
