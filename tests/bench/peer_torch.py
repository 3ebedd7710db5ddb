#!/usr/bin/python3
"""The cost model in PyTorch, as a peer of the benches: one command a line on stdin, one answer a line on stdout.

  peer_torch.py WEIGHTS ROWS... [-- TLP_ROWS...]    files as bench_export() and tm_weights_save() write them

  chunk NAME I       find the number of programs per call that suits NAME best on batch I; answers it
  time NAME I        seconds of CPU for one pass over batch I
  scores NAME I      scores and ln latencies of batch I, in order
  train THREADS N B  one optimiser step on each of the next N batches of 16 x 32 programs of file 0, B = 0: the whole
                     batch padded to its longest program, else sorted by length and run through in blocks of B;
                     answers CPU seconds, wall seconds, programs
Names: torch (eager, vectorised over all programs of a batch, a loop over the steps), torch_blocked (the same with the
number of programs a call that suits the caches best), torchscript (scripted and frozen, blocked), tlp_transformer (the network of TLP, ASPLOS'23, 610 k parameters, on TLP's rows). Rows are ready-made and padded before
any clock starts. One thread unless told otherwise.
"""
import json
import sys
import time
from typing import List

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
    from torch import Tensor, nn
except ImportError as e:
    print("skip", e, flush=True)
    sys.exit(0)

CHUNKS = (32, 64, 128, 256, 512, 2048)


def read_weights(path):
    """safetensors, by hand: header length, JSON header, little-endian fp32."""
    with open(path, "rb") as f:
        raw = f.read()
    n = int.from_bytes(raw[:8], "little")
    head = json.loads(raw[8:8 + n])
    meta = head.pop("__metadata__")
    out = {}
    for name, t in head.items():
        a, b = t["data_offsets"]
        out[name] = torch.from_numpy(np.frombuffer(raw[8 + n + a:8 + n + b], "<f4").reshape(t["shape"]).copy())
    return out, json.loads(meta.get("calibration", '{"a": 1, "b": 0, "latency_shift": 0}'))


class Data:
    """One file of bench_export(), padded: x [n][L][cols], mask [n][L], summary [n][S]."""

    def __init__(self, path):
        raw = np.fromfile(path, np.uint8)
        n, n_rows, cols, s_cols, n_ids, self.n_tasks = (int(v) for v in raw[:24].view("<u4"))
        at = 24

        def take(count, kind):
            nonlocal at
            size = count * np.dtype(kind).itemsize
            v = raw[at:at + size].view(kind)
            at += size
            return v

        self.n = n
        self.rows = torch.from_numpy(take(n_rows * cols, "<f4").reshape(n_rows, cols).copy())
        self.start = take(n + 1, "<u4").astype(np.int64)
        self.ids = take(n_ids, "<u4").astype(np.int64)
        self.summary = torch.from_numpy(take(n * s_cols, "<f4").reshape(n, s_cols).copy())
        self.task = take(n, "<u4").astype(np.int64)
        self.cost = np.frombuffer(take(8 * n, np.uint8).tobytes(), "<f8")
        self.padded = None

    def pad(self, programs):
        length = self.start[programs + 1] - self.start[programs]
        index = np.minimum(np.arange(length.max())[None], length[:, None] - 1)
        x = self.rows[torch.from_numpy(self.ids[self.start[programs][:, None] + index])]
        mask = torch.from_numpy((np.arange(length.max())[None] < length[:, None]).astype(np.float32))
        return x * mask[:, :, None], mask

    def all(self):
        if self.padded is None:
            self.padded = self.pad(np.arange(self.n))
        return self.padded


class Model(nn.Module):
    """docs/model.md section 2."""

    def __init__(self, w):
        super().__init__()
        p = {k: nn.Parameter(v.clone()) for k, v in w.items()}
        self.e0, self.e0b, self.e1, self.e1b = (p["embed." + k] for k in ("0.weight", "0.bias", "1.weight", "1.bias"))
        self.norm, self.norm_f = p["norm.weight"], p["norm_f.weight"]
        self.w_in, self.w_out = p["mixer.in_proj.weight"], p["mixer.out_proj.weight"]
        self.conv, self.conv_b = p["mixer.conv1d.weight"], p["mixer.conv1d.bias"]
        self.w_x, self.w_dt, self.b_dt = p["mixer.x_proj.weight"], p["mixer.dt_proj.weight"], p["mixer.dt_proj.bias"]
        self.a_log, self.d = p["mixer.A_log"], p["mixer.D"]
        self.s0, self.s0b = p["summary.0.weight"], p["summary.0.bias"]
        self.s1, self.s1b = p["summary.1.weight"], p["summary.1.bias"]
        self.h0, self.h0b = p["head.0.weight"], p["head.0.bias"]
        self.h1, self.h1b = p["head.1.weight"], p["head.1.bias"]
        self.h2, self.h2b = p["head.2.weight"], p["head.2.bias"]

    def rms(self, x: Tensor, w: Tensor) -> Tensor:
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * w

    def forward(self, rows: Tensor, mask: Tensor, summary: Tensor) -> Tensor:
        n, length = rows.shape[0], rows.shape[1]
        h = F.relu(F.linear(F.relu(F.linear(rows, self.e0, self.e0b)), self.e1, self.e1b))
        x, z = F.linear(self.rms(h, self.norm), self.w_in).chunk(2, -1)
        x = F.conv1d(x.transpose(1, 2), self.conv, self.conv_b, padding=3, groups=128)[:, :, :length].transpose(1, 2)
        x = F.silu(x)
        tau, b, c = torch.split(F.linear(x, self.w_x), [8, 8, 8], -1)
        delta = F.softplus(F.linear(tau, self.w_dt, self.b_dt))
        a = -torch.exp(self.a_log)
        dx = delta * x
        state = torch.zeros([n, 128, 8], dtype=rows.dtype)
        y = torch.jit.annotate(List[Tensor], [])
        for t in range(length):
            state = torch.addcmul(dx[:, t, :, None] * b[:, t, None, :], torch.exp(delta[:, t, :, None] * a), state)
            y.append(torch.bmm(state, c[:, t, :, None])[:, :, 0])
        q = (torch.stack(y, 1) + self.d * x) * F.silu(z)
        q = torch.bmm(mask[:, None, :], q)[:, 0]
        total = torch.bmm(mask[:, None, :], h)[:, 0] + F.linear(q, self.w_out)
        g = F.relu(F.linear(F.relu(F.linear(summary, self.s0, self.s0b)), self.s1, self.s1b))
        v = torch.cat([self.rms(total, self.norm_f), g], 1)
        v = F.relu(F.linear(F.relu(F.linear(v, self.h0, self.h0b)), self.h1, self.h1b))
        return F.linear(v, self.h2, self.h2b)


class Transformer(nn.Module):
    """TLP's network, sizes as published: embedding to 256, one attention layer of 8 heads, two residual layers."""

    def __init__(self, cols):
        super().__init__()

        def mlp(*w):
            return nn.Sequential(*(m for i in range(len(w) - 1) for m in (nn.Linear(w[i], w[i + 1]), nn.ReLU())))

        self.embed = mlp(cols, 64, 128, 256, 256)
        self.attention = nn.MultiheadAttention(256, 8, batch_first=True)
        self.l0, self.l1 = mlp(256, 256), mlp(256, 256)
        self.head = nn.Sequential(mlp(256, 256, 128, 64), nn.Linear(64, 1))

    def forward(self, rows, mask, summary):
        u = self.embed(rows)
        u = u + self.attention(u, u, u, need_weights=False)[0]
        u = u + self.l0(u)
        u = u + self.l1(u)
        return self.head(u).squeeze(-1).mul(mask).sum(1)


class Bench:
    def __init__(self, weights, files, tlp_files):
        w, self.calibration = read_weights(weights)
        torch.manual_seed(1)
        self.data = {"torch": [Data(f) for f in files]}
        self.data["torch_blocked"] = self.data["torchscript"] = self.data["torch"]
        self.data["tlp_transformer"] = [Data(f) for f in tlp_files]
        model = Model(w).eval()
        self.trained = Model(w)
        self.net = {"torch": model, "torch_blocked": model, "torchscript": torch.jit.freeze(torch.jit.script(model).eval())}
        if tlp_files:
            self.net["tlp_transformer"] = Transformer(self.data["tlp_transformer"][0].rows.shape[1]).eval()
        self.chunk = {}
        self.optimizer = None

    def forward(self, name, i, chunk):
        data, net = self.data[name][i], self.net[name]
        x, mask = data.all()
        with torch.inference_mode():
            return torch.cat([net(x[k:k + chunk], mask[k:k + chunk], data.summary[k:k + chunk])
                              for k in range(0, data.n, chunk)])

    def find_chunk(self, name, i):
        """Chunks that win on a few hundred programs win on all: try them there, after a warm-up."""
        data, net = self.data[name][i], self.net[name]
        x, mask = data.all()
        best = None
        for chunk in (data.n,) if name == "torch" else CHUNKS:
            part = [slice(k, k + chunk) for k in range(0, min(data.n, max(chunk, 512)), chunk)]
            with torch.inference_mode():
                for _ in range(3):
                    net(x[part[0]], mask[part[0]], data.summary[part[0]])
                start = time.process_time()
                for p in part:
                    net(x[p], mask[p], data.summary[p])
                each = (time.process_time() - start) / min(data.n, part[-1].stop)
            if best is None or each < best[0]:
                best = each, chunk
        self.chunk[name, i] = best[1]
        return best[1]

    def time(self, name, i):
        start = time.process_time()
        self.forward(name, i, self.chunk[name, i])
        return time.process_time() - start

    def scores(self, name, i):
        out = self.forward(name, i, self.chunk[name, i]).double()
        s = torch.sigmoid(self.calibration["a"] * out[:, 0] + self.calibration["b"]).clamp(1e-6, 1 - 1e-6)
        return " ".join("%.9g %.9g" % (a, b) for a, b in zip(s.tolist(), out[:, 1].tolist()))

    # ---- training: the loss, batches and optimiser of docs/model.md section 4 ----

    def begin_training(self):
        d = self.data["torch"][0]
        best = np.full(d.n_tasks, 1e30)  # of tasks without a valid program
        np.minimum.at(best, d.task, d.cost)
        self.y = torch.from_numpy((best[d.task] / d.cost).astype(np.float32))
        self.ln_cost = torch.from_numpy(np.log(d.cost).astype(np.float32))
        rng, chunks = np.random.default_rng(1), []
        for t in range(d.n_tasks):
            own = rng.permutation(np.flatnonzero(d.task == t))
            if len(own) >= 2:
                chunks += [c for c in np.array_split(own, -(-len(own) // 32)) if len(c)]
        order = rng.permutation(len(chunks))
        self.batches = [[chunks[k] for k in order[i:i + 16]] for i in range(0, len(order) - 15, 16)]
        self.next_batch = 0
        decays = [p for n, p in self.trained.named_parameters() if p.dim() > 1 and n != "a_log"]
        rest = [p for n, p in self.trained.named_parameters() if not (p.dim() > 1 and n != "a_log")]
        self.optimizer = torch.optim.Adam([{"params": decays, "weight_decay": 1e-6}, {"params": rest}], lr=7e-4)

    def outputs(self, programs, block):
        d = self.data["torch"][0]
        order = np.argsort(d.start[programs + 1] - d.start[programs], kind="stable")
        out = []
        for k in range(0, len(order), block):
            x, mask = d.pad(programs[order[k:k + block]])
            out.append(self.trained(x, mask, d.summary[programs[order[k:k + block]]]))
        return torch.cat(out)[torch.from_numpy(np.argsort(order, kind="stable"))]

    def step(self, chunks, block):
        programs = np.concatenate(chunks)
        out = self.outputs(programs, block or len(programs))
        y, s = self.y[programs], out[:, 0]
        task = torch.from_numpy(np.repeat(np.arange(len(chunks)), [len(c) for c in chunks]))
        weight = (y[:, None] - y[None]).clamp(min=0) * (task[:, None] == task[None])
        rank = (weight * F.softplus(s[None] - s[:, None])).sum() / weight.sum().clamp(min=1e-6)
        valid = torch.isfinite(self.ln_cost[programs])
        loss = rank + 0.1 * F.huber_loss(out[:, 1][valid], self.ln_cost[programs][valid])
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.trained.parameters(), 1.0)
        self.optimizer.step()
        return len(programs)

    def train(self, threads, n, block):
        if self.optimizer is None:
            self.begin_training()
        torch.set_num_threads(threads)
        cpu, wall, programs = time.process_time(), time.perf_counter(), 0
        for _ in range(n):
            programs += self.step(self.batches[self.next_batch % len(self.batches)], block)
            self.next_batch += 1
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        torch.set_num_threads(1)
        return "%.9g %.9g %d" % (cpu, wall, programs)


def main():
    args = sys.argv[1:]
    tlp = args[args.index("--") + 1:] if "--" in args else []
    torch.set_num_threads(1)
    bench = Bench(args[0], args[1:args.index("--") if "--" in args else len(args)], tlp)
    capability = [x.split(":")[1].strip() for x in torch.__config__.show().split("\n") if "CPU capability" in x]
    print("ready PyTorch %s, CPU capability %s" % (torch.__version__, " ".join(capability)), flush=True)
    for line in sys.stdin:
        what, *rest = line.split()
        if what == "chunk":
            print(bench.find_chunk(rest[0], int(rest[1])), flush=True)
        elif what == "time":
            print("%.9g" % bench.time(rest[0], int(rest[1])), flush=True)
        elif what == "scores":
            print(bench.scores(rest[0], int(rest[1])), flush=True)
        elif what == "train":
            print(bench.train(*map(int, rest)), flush=True)
        else:
            print("unknown command", flush=True)


if __name__ == "__main__":
    main()
