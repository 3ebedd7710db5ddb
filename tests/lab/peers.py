#!/usr/bin/python3
"""The published models that `lab compare` puts beside tcld: trained on the arrays of lab/export.h, asked for scores.

  peers.py describe NAME [KEY=NUMBER...]     its settings, as JSON on standard output
  peers.py run NAME DATA OUT SEED THREADS [KEY=NUMBER...]
                                             train on the folder DATA, write OUT.npy (scores of the test programs, higher =
                                             faster) and OUT.json (what it took)
KEY=NUMBER changes a setting. bf16=1: products of matrices in bf16 while training (sums, weights, the last layer and all
predictions stay in fp32): three times as fast where the CPU has it.
Exit status 77: a Python package is missing; the reason is on standard error.

  tlp    TLP, ASPLOS'23, github zhaiyi000/tlp scripts/tlp_train.py: attention over its own rows
  mlp    TenSet, NeurIPS'21, github tlc-pack/tenset cost_model/mlp_model.py: SegmentSumMLP over tclf-1 rows
  xgb    TenSet and Ansor, cost_model/xgb_model.py: boosted trees, squared error of the normalised throughput
  xgbrank  the same trees with XGBoost's own pairwise objective

All get the same training programs, the same label (best cost of the task / cost, 0 for a failure) and choose the epoch by
the pairwise accuracy within the same validation tasks.
"""
import importlib.util
import json
import math
import os
import sys
import time

PEERS = {
    "tlp": dict(
        title="TLP's transformer", rows="tlp", package="torch", version=1, epochs=50, batch=256, bf16=0, lr=7e-4,
        weight_decay=1e-6, clip=0.5,
        notes="4 linear layers to 256, 8 heads, 2 residual layers, 4 layers to one number a row, summed; LambdaRank over "
              "shuffled batches, Adam 7e-4, weight decay 1e-6, gradient clip 0.5, as published; batches of {batch} (published: "
              "1,024, of 8.6 million programs), {epochs} epochs (published: 50)"),
    "mlp": dict(
        title="TenSet's MLP", rows="tclf-1", package="torch", version=1, epochs=50, batch=256, bf16=0, lr=7e-4,
        weight_decay=1e-6, clip=0.5,
        notes="2 layers of 256 a row, summed over the rows, 2 residual layers, one number; LambdaRank over shuffled "
              "batches of {batch} (published: 512, of millions of programs), {epochs} epochs (published: 50), Adam 7e-4, weight decay 1e-6, "
              "gradient clip 0.5, columns divided by their largest value, as published; tclf-1's rows and loop summary stand in for TenSet's features, which need "
              "a compiler"),
    "xgb": dict(
        title="XGBoost", rows="tclf-1", package="xgboost", version=1, epochs=300, objective="reg:squarederror",
        notes="depth 6, eta 0.2, gamma 0.003, min_child_weight 2, 300 rounds, squared error, as published by TenSet and "
              "Ansor; on the sum of a program's tclf-1 step rows, its task row and its loop summary"),
    "xgbrank": dict(
        title="XGBoost, pairwise", rows="tclf-1", package="xgboost", version=1, epochs=300, objective="rank:pairwise",
        notes="the same trees and inputs, objective rank:pairwise grouped by task"),
}
VALID_PER_TASK = 400  # programs of a validation task that are compared with each other


def say(*words):
    print(*words, file=sys.stderr, flush=True)


class Data:
    def __init__(self, folder):
        def load(name):
            path = os.path.join(folder, name + ".npy")
            return np.load(path) if os.path.exists(path) else None

        self.rows, self.start, self.ids, self.summary = (load(n) for n in ("rows", "start", "ids", "summary"))
        self.task, self.cost = load("task"), load("cost")
        self.train, self.valid, self.test = (load(n) for n in ("train", "valid", "test"))
        self.start = self.start.astype(np.int64)
        self.label = np.zeros(len(self.task))
        for part in (self.train, self.valid):
            best = np.full(self.task.max() + 1, np.inf)
            np.minimum.at(best, self.task[part], self.cost[part])
            with np.errstate(invalid="ignore"):
                self.label[part] = np.nan_to_num(best[self.task[part]] / self.cost[part])
        self.valid_tasks = []  # places in `valid` of each task, labels
        order = np.argsort(self.task[self.valid], kind="stable")
        for at in np.split(order, np.flatnonzero(np.diff(self.task[self.valid][order])) + 1):
            at = at[:VALID_PER_TASK]
            self.valid_tasks.append((at, self.label[self.valid[at]]))

    def valid_pairwise(self, score):
        """Mean over the validation tasks of the share of pairs in the right order; equal labels are no pair."""
        out = []
        for at, y in self.valid_tasks:
            s = score[at]
            above = y[:, None] > y[None]
            n = above.sum()
            if n:
                out.append(((s[:, None] > s[None]) & above).sum() / n + ((s[:, None] == s[None]) & above).sum() / n / 2)
        return float(np.mean(out))


# ---- PyTorch ---------------------------------------------------------------------------------------------------------
def lambda_rank(score, label):
    """As both publish it (allRank's): sum over the pairs of the batch, whichever task they are of."""
    s, order = score.sort(descending=True)
    y = label[order]
    place = torch.log2(1 + torch.arange(1, len(s) + 1, dtype=torch.float32))
    best = ((2 ** label.sort(descending=True)[0] - 1) / place).sum().clamp(min=1e-10)
    gain = (2 ** y - 1) / best
    weight = (1 / place[:, None] - 1 / place[None]).abs() * (gain[:, None] - gain[None]).abs()
    weight *= y[:, None] > y[None]
    p = F.logsigmoid(s[:, None] - s[None]).clamp(min=math.log(1e-10))
    return -(weight * p).sum() / math.log(2)


def linears(*widths, last=True):
    layers = []
    for i, o in zip(widths, widths[1:]):
        layers += [nn.Linear(i, o), nn.ReLU()]
    return nn.Sequential(*(layers if last else layers[:-1]))


def tlp_net(data):
    class Tlp(nn.Module):
        """TLP's AttentionModule without the layer that it makes and never uses. The published code pads each program with zero
        rows, which attend and are summed like others. Here a program's padding is one row with a weight, and what depends
        on a row alone is computed once per distinct row: the same numbers with a third of the work."""

        HEADS, AT_ONCE = 8, 64

        def __init__(self):
            super().__init__()
            self.encoder = linears(data.rows.shape[1], 64, 128, 256, 256)
            self.attention = nn.MultiheadAttention(256, self.HEADS)
            self.residual = nn.ModuleList(linears(256, 256) for _ in range(2))
            self.decoder = linears(256, 256, 128, 64, 1, last=False)
            self.steps = 25 if data.rows.shape[1] == 22 else 40
            pad = len(data.rows)
            self.rows = torch.from_numpy(np.vstack([data.rows, np.zeros_like(data.rows[:1])]))
            n = np.diff(data.start).clip(max=self.steps)
            self.length = torch.from_numpy(n)
            ids = np.full((len(n), self.steps), pad, np.int64)
            for i, k in enumerate(n):
                ids[i, :k] = data.ids[data.start[i]:data.start[i] + k]
            self.ids = torch.from_numpy(ids)

        def forward(self, programs):
            ids = self.ids[programs]
            distinct, where = torch.unique(ids, return_inverse=True)
            h = self.encoder(self.rows[distinct])
            qkv = F.linear(h, self.attention.in_proj_weight, self.attention.in_proj_bias)
            parts = zip(self.length[programs].split(self.AT_ONCE), where.split(self.AT_ONCE))
            return torch.cat([self.attend(n, w, h, qkv).float() for n, w in parts])

        def attend(self, n, where, h, qkv):
            """The scores of n.shape[0] programs: few at a time, so that they stay in the caches."""
            width = min(int(n.max()) + 1, self.steps)
            where = where[:, :width]
            weight = (torch.arange(width)[None] < n[:, None]).float()
            last = n < self.steps
            weight[last, n[last]] = (self.steps - n[last]).float()
            q, k, v = F.embedding(where, qkv).view(len(n), width, 3, self.HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
            w = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + weight.log()[:, None, None]
            x = (w.softmax(-1) @ v).transpose(1, 2).reshape(len(n) * width, -1)
            real = weight.view(-1).nonzero().squeeze(1)
            x = self.attention.out_proj(x[real]) + F.embedding(where.reshape(-1)[real], h)
            for layer in self.residual:
                x = layer(x) + x
            x = self.decoder[:-1](x)
            with torch.autocast("cpu", enabled=False):
                x = self.decoder[-1](x.float()).squeeze(1) * weight.view(-1)[real]
            return torch.zeros(len(n)).index_add(0, real.div(width, rounding_mode="floor"), x)

    return Tlp()


def padded_tlp(net, data, programs):
    """The same net as TLP's code runs it: every program padded with zero rows to the full number of steps."""
    x = torch.zeros(len(programs), net.steps, data.rows.shape[1])
    for i, p in enumerate(programs.tolist()):
        ids = data.ids[data.start[p]:data.start[p + 1]][:net.steps]
        x[i, :len(ids)] = torch.from_numpy(data.rows[ids])
    x = net.encoder(x).transpose(0, 1)
    x = net.attention(x, x, x)[0] + x
    for layer in net.residual:
        x = layer(x) + x
    return net.decoder(x).sum(0).squeeze(1)


def mlp_net(data):
    class Mlp(nn.Module):
        """SegmentSumMLPModule. The loop summary is one more row, in columns of its own. Distinct rows are encoded once."""

        def __init__(self):
            super().__init__()
            cols, s_cols = data.rows.shape[1], data.summary.shape[1]
            self.encoder = linears(cols + s_cols, 256, 256)
            self.residual = nn.ModuleList(linears(256, 256) for _ in range(2))
            self.decoder = nn.Linear(256, 1)
            seen = np.zeros(len(data.rows), bool)
            for i in data.train:
                seen[data.ids[data.start[i]:data.start[i + 1]]] = True

            def scaled(v, by):
                top = by.max(0)
                return v / np.where(top > 0, top, 1)

            self.rows = torch.from_numpy(np.pad(scaled(data.rows, data.rows[seen]), ((0, 0), (0, s_cols))))
            self.summary = torch.from_numpy(
                np.pad(scaled(data.summary, data.summary[data.train]), ((0, 0), (cols, 0))))
            self.start, self.ids = torch.from_numpy(data.start), torch.from_numpy(data.ids.astype(np.int64))

        def forward(self, programs):
            begin, n = self.start[programs], self.start[programs + 1] - self.start[programs]
            first = torch.cumsum(n, 0) - n
            flat = torch.arange(int(n.sum())) + torch.repeat_interleave(begin - first, n)
            distinct, where = torch.unique(self.ids[flat], return_inverse=True)
            x = F.embedding_bag(where, self.encoder(self.rows[distinct]).float(), first, mode="sum")
            x = x + self.encoder(self.summary[programs])
            for layer in self.residual:
                x = layer(x) + x
            with torch.autocast("cpu", enabled=False):
                return self.decoder(x.float()).squeeze(1)

    return Mlp()


def run_torch(name, s, data, seed, threads):
    epochs = s["epochs"]
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    net = {"tlp": tlp_net, "mlp": mlp_net}[name](data)
    if name == "tlp":
        with torch.no_grad():
            few = torch.arange(min(64, len(data.task)))
            assert torch.allclose(net(few), padded_tlp(net, data, few), rtol=1e-4, atol=1e-4), "not TLP's network"
    train, valid, test = (torch.from_numpy(v.astype(np.int64)) for v in (data.train, data.valid, data.test))
    label = torch.from_numpy(data.label.astype(np.float32))
    adam = torch.optim.Adam(net.parameters(), s["lr"], weight_decay=s["weight_decay"])

    def predict(programs):
        with torch.no_grad():
            return torch.cat([net(p) for p in programs.split(512)]).double().numpy()

    curve, best, kept = [], -1.0, None
    began = time.process_time()
    for epoch in range(epochs):
        total = 0.0
        for batch in train[torch.randperm(len(train))].split(s["batch"]):
            adam.zero_grad(set_to_none=True)
            with torch.autocast("cpu", torch.bfloat16, enabled=bool(s["bf16"])):
                score = net(batch)
            loss = lambda_rank(score, label[batch])
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), s["clip"])
            adam.step()
            total += loss.item()
        curve.append(data.valid_pairwise(predict(valid)))
        if curve[-1] > best:
            best, kept = curve[-1], {k: v.clone() for k, v in net.state_dict().items()}
        say("  %s, seed %d: epoch %2d/%d  loss %.4f  valid pairwise %.4f  %.0f CPU s" %
            (name, seed, epoch + 1, epochs, total, curve[-1], time.process_time() - began))
    spent = time.process_time() - began
    net.load_state_dict(kept)
    torch.set_num_threads(1)
    began = time.process_time()
    score = predict(test)
    return score, curve, spent, time.process_time() - began, sum(p.numel() for p in net.parameters())


# ---- XGBoost ---------------------------------------------------------------------------------------------------------
def xgb_inputs(data):
    """[n][64 + 64 + 72]: sum of the step rows, the task row, the loop summary (the hardware row is one for all)."""
    x = np.zeros((len(data.task), 2 * data.rows.shape[1] + data.summary.shape[1]), np.float32)
    cols = data.rows.shape[1]
    for i in range(len(x)):
        ids = data.ids[data.start[i]:data.start[i + 1]]
        x[i, :cols] = data.rows[ids[2:]].sum(0)
        x[i, cols:2 * cols] = data.rows[ids[1]]
    x[:, 2 * cols:] = data.summary
    return x


def run_xgb(name, s, data, seed, threads):
    epochs = s["epochs"]
    x = xgb_inputs(data)
    order = np.argsort(data.task[data.train], kind="stable")  # a task's programs together
    train = xgboost.DMatrix(x[data.train[order]], label=data.label[data.train[order]])
    if s["objective"].startswith("rank"):
        train.set_group(np.unique(data.task[data.train[order]], return_counts=True)[1])
    valid, test = xgboost.DMatrix(x[data.valid]), xgboost.DMatrix(x[data.test])
    params = dict(max_depth=6, eta=0.2, gamma=0.003, min_child_weight=2, objective=s["objective"], seed=seed,
                  nthread=threads, tree_method="hist", verbosity=0)
    began = time.process_time()
    trees = xgboost.train(params, train, num_boost_round=epochs)
    curve = [data.valid_pairwise(trees.predict(valid, iteration_range=(0, r + 1))) for r in range(epochs)]
    spent = time.process_time() - began
    best = int(np.argmax(curve)) + 1
    say("  %s, seed %d: %d rounds, best %d  valid pairwise %.4f  %.0f CPU s" % (name, seed, epochs, best, max(curve), spent))
    trees.set_param({"nthread": 1})
    began = time.process_time()
    score = trees.predict(test, iteration_range=(0, best)).astype(np.float64)
    nodes = sum(t.count('"nodeid"') for t in trees.get_dump(dump_format="json")[:best])
    return score, curve, spent, time.process_time() - began, nodes


# ---- what lab calls --------------------------------------------------------------------------------------------------
def main(argv):
    n = {"describe": 3, "run": 7}.get(argv[1] if len(argv) > 2 else None, 0)
    if not n or len(argv) < n or argv[2] not in PEERS:
        say(__doc__)
        return 2
    name, settings = argv[2], dict(PEERS[argv[2]])
    for change in argv[n:]:
        key, _, value = change.partition("=")
        if key in settings:
            settings[key] = int(value)
    for package in ("numpy", settings["package"]):
        if importlib.util.find_spec(package) is None:
            say("python package %s is not installed" % package)
            return 77
    if argv[1] == "describe":
        notes = settings["notes"].format(**settings)
        if settings.get("bf16"):
            notes += "; products of matrices in bf16 while training (published: fp32)"
        print(json.dumps(dict(settings, name=name, notes=notes), sort_keys=True))
        return 0
    folder, out, seed, threads = argv[3], argv[4], int(argv[5]), int(argv[6])
    # large arrays from the heap, not fresh pages from the system each time
    keep = dict(MALLOC_MMAP_MAX_="0", MALLOC_TRIM_THRESHOLD_="17179869184")
    if any(k not in os.environ for k in keep):
        os.environ.update(keep, OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads))
        os.execv(sys.executable, [sys.executable] + argv)
    globals()["np"] = importlib.import_module("numpy")
    if settings["package"] == "torch":
        for k, v in dict(torch="torch", nn="torch.nn", F="torch.nn.functional").items():
            globals()[k] = importlib.import_module(v)
        run = run_torch
    else:
        globals()["xgboost"] = importlib.import_module("xgboost")
        run = run_xgb
    score, curve, train_seconds, predict_seconds, parameters = run(name, settings, Data(folder), seed, threads)
    np.save(out + ".npy", score)
    with open(out + ".json", "w") as f:
        json.dump(dict(parameters=parameters, epochs=settings["epochs"], best_epoch=int(np.argmax(curve)) + 1,
                       valid_pairwise=[round(v, 6) for v in curve], train_seconds=train_seconds,
                       predict_seconds=predict_seconds), f)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
