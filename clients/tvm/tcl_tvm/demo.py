"""`python3 -m tcl_tvm tune-demo`: a real search with TVM that asks tcld, from nothing to a best schedule.

Tunes one matrix product: each round TVM's SketchPolicy lets TCLModel score its candidates, measures the best on this
machine and reports the times to tcld. Until there is a model the scores are random; --retrain asks for one half way.
"""
import argparse
import logging
import sys
import tempfile
from typing import Any, Optional, Sequence

from .http import Client, Refused


def matmul(n: int, m: int, k: int) -> Any:
    """TVM calls it again, by its name, when it reads a log."""
    from tvm import te

    a = te.placeholder((n, k), name="A")
    b = te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return [a, b, c]


def train(client: Client, hardware: str) -> None:
    """Asks for training and waits for its end."""
    job = client.call("POST", "/v1/hardware/%s/retrain" % hardware, {"mode": "finetune", "max_seconds": 30})
    while job["state"] in ("queued", "running"):
        client.stop.wait(0.5)
        job = client.call("GET", "/v1/jobs/%d" % job["id"])
    result = job["result"] or {}
    print("training %s: %s" % (job["state"], job["error"] or result.get("decision")), file=sys.stderr)


def main(argv: Optional[Sequence[str]] = None) -> None:
    p = argparse.ArgumentParser(prog="tcl_tvm tune-demo", description=str(__doc__).split("\n\n")[0])
    p.add_argument("--url", help="of tcld; default: $TCLD_URL or http://127.0.0.1:8723")
    p.add_argument("--hardware", required=True, help="its name in tcld; registered when it is new")
    p.add_argument("--target", default="llvm", help='TVM target, for example "llvm -mcpu=core-avx2"')
    p.add_argument("--shape", type=int, nargs=3, default=(512, 512, 512), metavar=("N", "M", "K"))
    p.add_argument("--trials", type=int, default=64, help="programs to measure")
    p.add_argument("--log", help="log file; default: a temporary one")
    p.add_argument("--retrain", action="store_true", help="train half way")
    a = p.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    try:
        import tvm
        from tvm import auto_scheduler
    except ImportError as error:
        sys.exit("tcl_tvm tune-demo: TVM with auto_scheduler (0.8 to 0.19) is needed: %s" % error)
    from .model import TCLModel

    auto_scheduler.register_workload(matmul)
    task = auto_scheduler.SearchTask(func=matmul, args=tuple(a.shape), target=tvm.target.Target(a.target))
    model = TCLModel(a.hardware, a.url)
    log = a.log or tempfile.NamedTemporaryFile(suffix=".json", delete=False).name
    halves = [a.trials // 2, a.trials - a.trials // 2] if a.retrain else [a.trials]
    try:
        for i, trials in enumerate(halves):
            known = [auto_scheduler.PreloadMeasuredStates(log)] if i else None  # none is measured twice
            policy = auto_scheduler.SketchPolicy(task, program_cost_model=model, verbose=0, init_search_callbacks=known)
            task.tune(auto_scheduler.TuningOptions(
                num_measure_trials=trials, measure_callbacks=[auto_scheduler.RecordToFile(log)], verbose=1), policy)
            model.poster.flush(30)  # type: ignore[union-attr]
            if a.retrain and i == 0:
                train(Client(a.url), a.hardware)
        best, _ = auto_scheduler.load_best_record(log, task.workload_key) if a.trials else (None, None)
    except (Refused, ConnectionError) as error:
        sys.exit("tcl_tvm tune-demo: %s" % error)
    finally:
        model.close(30)
    print("log %s; %d calls of predict, %d on the fallback, model %s" % (log, model.asked, model.fell_back, model.model_id))
    if best is not None:
        schedule, _ = task.apply_best(log)
        print(schedule)
