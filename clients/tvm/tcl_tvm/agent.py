"""Measurement agent of tcld: takes leases, builds and runs the programs with TVM, posts what they cost.

    python3 -m tcl_tvm agent --url http://tcld:8723 --hardware xeon-8272 --agent rack7-n3
    python3 -m tcl_tvm agent ... --rpc TRACKER:9190 --rpc-key board  # measure on a device behind an RPC tracker
    python3 -m tcl_tvm agent ... --import my_workloads               # a module that registers the workload keys

TVM can only rebuild programs whose workload is registered in this process: a function's name
(auto_scheduler.register_workload), or a hash made by extract_tasks() on the same network. The module does that.

TVM is imported only when something is measured, so `Agent` can be used, and tested, without it: it takes any function
from a list of records to a list of results.

What the agent promises tcld: results that got no answer are posted again, the same bytes, until there is one; a failure
is posted only where builder or runner failed on that program; a lease is renewed while it is worked on, dropped when it
is gone, and what has no answer at its end is given back.
"""
import argparse
import contextlib
import importlib
import json
import math
import os
import signal
import socket
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Set

from .http import Client, Refused

Record = Dict[str, Any]  # a log line without "r"
Result = Dict[str, Any]  # costs, error_no, all_cost, timestamp

COMPILE_DEVICE, UNKNOWN_ERROR = 3, 8  # error_no of TVM
RAN = {0, 4, 5, 7}  # the program was on the device, whatever came of it
MOST_FAILING = 3  # batches in a row
MOST_BATCH = 1000  # tcld names at most so many rejected records of a body
LONGEST_PAUSE = 60.0


class Trouble(Exception):
    """Nothing can be measured here, whatever the program."""


def failed(error_no: int = UNKNOWN_ERROR) -> Result:
    """The result of a program that could not be measured."""
    return {"costs": [1e10], "error_no": error_no, "all_cost": 0.0, "timestamp": time.time()}


def line_of(record: Record, result: Result) -> str:
    """A log line as auto_scheduler writes it."""
    return json.dumps({"i": record["i"],
                       "r": [result["costs"], result["error_no"], result["all_cost"], int(result["timestamp"])],
                       "v": record.get("v", "v0.6")})


def tell(what: str, *values: Any) -> None:
    print("tcl_agent: " + what % values, file=sys.stderr)


def brief(error: Any) -> str:
    """The last line of an error: TVM puts a backtrace before it."""
    name = type(error).__name__ + ": " if isinstance(error, Exception) else ""
    return name + (str(error).strip().splitlines() or [""])[-1]


class Lease:
    """Programs to measure. `with`: renewed by a thread of its own meanwhile, and what is still open given back."""

    def __init__(self, client: Client, reply: Any, ttl: float) -> None:
        self.client, self.token, self.ttl = client, reply["lease"], ttl
        self.open: Dict[int, Record] = {c["id"]: c["record"] for c in reply["candidates"]}  # not answered for
        self.lost = False  # it ran out or was ended: others may have its programs by now
        self._done = threading.Event()

    def __enter__(self) -> "Lease":
        threading.Thread(target=self._keep, daemon=True).start()
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        self._done.set()
        if kind is not ConnectionError:  # nobody is there to take it back
            self.give_back()

    def _keep(self) -> None:
        """On a connection of its own, while a batch may take long."""
        client = Client(self.client.url, self.client.token)
        while not self._done.wait(self.ttl / 4):
            self.renew(client)
        client.close()

    def renew(self, client: Client) -> None:
        self.lost = self.lost or not client.renew(self.token)

    def give_back(self) -> None:
        try:
            if self.lost and self.open:
                tell("lease %s is gone; its other %d programs are left to others", self.token, len(self.open))
            elif self.open:
                self.client.give_back(self.token)
        except Refused:
            pass  # it ran out, or others have measured it: either way there is nothing left to hold
        except ConnectionError as error:
            tell("lease %s is not given back, it will run out: %s", self.token, error)
        self.open = {}


class Agent:
    """Takes leases and works them off in batches. measure(records) -> per record a result, as failed() makes them, or
    None when the program cannot be measured here. What it raises is held against no program: unless it is Trouble, they
    are measured once more one by one."""

    def __init__(self, client: Client, hardware: str, name: str,
                 measure: Callable[[List[Record]], Sequence[Optional[Result]]], most: Optional[int] = None,
                 ttl: float = 600, batch: int = 16, idle: float = 2.0) -> None:
        self.client, self.hardware, self.name, self.measure = client, hardware, name, measure
        self.most, self.ttl, self.batch, self.idle = most, ttl, batch, idle
        self.stop = client.stop
        self.leases = self.measured = self.failures = 0
        self.refused: Set[int] = set()  # candidates that cannot be measured here
        self.failing = 0  # batches in a row of which nothing was measured

    def run(self, forever: bool = True) -> None:
        """Until told to stop; forever=False: until nothing is selected. Raises Trouble when the first batch as a whole
        fails, or MOST_FAILING in a row do, or when only programs are left that cannot be measured here and nothing was
        measured, or forever=False."""
        pause = self.idle
        left: Set[int] = set()  # candidates of `aside`: a lease that is not renewed may run out and come again
        with contextlib.ExitStack() as aside:  # leases of refused programs: held until nothing else is selected
            while not self.stop.is_set():
                try:
                    reply = self.client.lease(self.hardware, self.name, self.most, self.ttl)
                except ConnectionError:
                    if self.stop.is_set():
                        break
                    raise
                lease = Lease(self.client, reply, self.ttl)
                if not self.refused.issuperset(lease.open):
                    self._work_off(lease)
                    pause = self.idle
                elif lease.open:
                    aside.push(lease)
                    left.update(lease.open)
                elif forever and (self.measured or not left):
                    aside.close()
                    self.stop.wait(pause)
                    pause, left = min(pause * 2, LONGEST_PAUSE) if left else self.idle, set()
                elif left:
                    raise Trouble("%d selected programs cannot be measured here" % len(left))
                else:
                    break

    def _work_off(self, lease: Lease) -> None:
        self.leases += 1
        ids = [i for i in lease.open if i not in self.refused]
        with lease:
            while ids and not lease.lost and not self.stop.is_set() and self._batch(lease, ids[:self.batch]):
                ids = ids[self.batch:]
                if ids:  # the batch, or a machine that slept, may have taken longer than the lease
                    lease.renew(self.client)
        if self.failing and not self.stop.is_set():
            pause = self.idle * 5 ** self.failing
            tell("nothing of a batch could be measured; the lease is given back, next try in %g s", pause)
            self.stop.wait(pause)

    def _batch(self, lease: Lease, ids: List[int]) -> bool:
        """False: nothing of it was measured. That says nothing about the programs, so nothing is posted."""
        results = dict(zip(ids, self._measure([lease.open[i] for i in ids])))
        measured = {i: r for i, r in results.items() if r}
        rejected = self._post(lease, measured)
        rejected = self._post(lease, {i: failed() for i in rejected})
        if not self.stop.is_set():
            self.refused.update(rejected, results.keys() - measured.keys())
            # refused one by one, they are remembered, and the next lease brings others: only what told of none is trouble
            self.failing = 0 if results else self.failing + 1
            if not results and (self.measured == 0 or self.failing == MOST_FAILING):
                raise Trouble("nothing of %s could be measured, for the reasons above; nothing of it is posted" % (
                    "the first batch" if self.measured == 0 else "%d batches in a row" % self.failing))
        return bool(results)

    def _measure(self, records: List[Record]) -> Sequence[Optional[Result]]:
        """As measure(); nothing at all when it raises for whatever it is given."""
        try:
            results = self.measure(records)
            if len(results) != len(records):
                raise Trouble("%d results of %d programs" % (len(results), len(records)))
            return results
        except Exception as error:
            tell("a batch of %d failed: %s", len(records), brief(error))
            if len(records) == 1 or isinstance(error, Trouble):
                return []
        results = [(self._measure([r]) or [None])[0] for r in records if not self.stop.is_set()]
        return results if any(results) else []

    def _post(self, lease: Lease, results: Dict[int, Result]) -> List[int]:
        """Returns those whose result tcld rejected."""
        if self.stop.is_set():  # whoever stops the agent may stop TVM's workers with it: no failure of a program
            results = {i: r for i, r in results.items() if r["error_no"] == 0}
        if not results:
            return []
        ids = list(results)
        body = "".join(line_of(lease.open[i], results[i]) + "\n" for i in ids)
        reply = self.client.post(self.hardware, self.name, body.encode())
        rejected = []
        for error in reply["errors"]:
            rejected.append(ids[error["index"]])
            tell("a result of candidate %d is rejected: %s: %s", rejected[-1], error["code"], error["detail"])
        for i in results.keys() - set(rejected):
            del lease.open[i]
            self.measured += 1
            self.failures += results[i]["error_no"] != 0
        return rejected


class TvmMeasure:
    """Builds and runs records with TVM's auto_scheduler (0.8 to 0.19), here or behind an RPC tracker."""

    def __init__(self, rpc: Optional[str] = None, rpc_key: Optional[str] = None, parallel: int = 1, timeout: int = 10,
                 build_timeout: int = 15, number: int = 3, repeat: int = 3, min_repeat_ms: int = 100) -> None:
        from tvm import auto_scheduler
        from tvm.auto_scheduler import measure, measure_record

        self.measure, self.load = measure, measure_record.load_record_from_string
        self.builder = auto_scheduler.LocalBuilder(timeout=build_timeout)
        how: Dict[str, Any] = dict(timeout=timeout, number=number, repeat=repeat, min_repeat_ms=min_repeat_ms,
                                   enable_cpu_cache_flush=False)
        if rpc:
            host, port = rpc.rsplit(":", 1)
            self.runner = auto_scheduler.RPCRunner(rpc_key, host, int(port), n_parallel=parallel, **how)
        else:
            self.runner = auto_scheduler.LocalRunner(**how)

    def __call__(self, records: List[Record]) -> List[Optional[Result]]:
        inputs = [self._input(r) for r in records]
        usable = [i for i in inputs if i is not None]
        builds = self.builder.build(usable, verbose=0) if usable else []
        runs = list(self.runner.run(usable, builds, verbose=0)) if usable else []
        away = [r for r in runs if r.error_no == COMPILE_DEVICE]
        if away and not any(r.error_no in RAN for r in runs):  # what TVM says when the device or its tracker is away
            raise Trouble("no program could be loaded: " + brief(away[0].error_msg))
        rest = iter(runs)
        return [None if i is None else self._result(next(rest)) for i in inputs]

    def _input(self, record: Record) -> Any:
        """TVM reads whole log lines only; a state comes back without its schedule, which recover gives it again."""
        try:
            inp, _ = self.load(line_of(record, failed()))
            return self.measure.recover_measure_input(inp, rebuild_state=True)
        except Exception as error:
            tell("TVM cannot rebuild a program of %s: %s (its workload is registered by a module: --import)",
                 record["i"][0][0], brief(error))
            return None

    @staticmethod
    def _result(result: Any) -> Result:
        costs, error_no = [float(c.value) for c in result.costs], int(result.error_no)
        if error_no == 0 and not (costs and all(0 < c < math.inf for c in costs)):
            error_no = UNKNOWN_ERROR
        return {"costs": costs if error_no == 0 else [1e10], "error_no": error_no, "all_cost": float(result.all_cost),
                "timestamp": float(result.timestamp)}


def stopped_by_signals() -> threading.Event:
    """Set by SIGINT or SIGTERM. One that comes over a second after the first ends the process: timeout(1) sends two."""
    stop = threading.Event()
    asked: List[float] = []

    def on_signal(number: int, _frame: Any) -> None:
        asked.append(time.monotonic())
        if asked[-1] - asked[0] > 1:
            os._exit(128 + number)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    return stop


def main(argv: Optional[Sequence[str]] = None) -> None:
    p = argparse.ArgumentParser(description=str(__doc__).split("\n\n")[0])
    p.add_argument("--url", help="of tcld; default: $TCLD_URL or http://127.0.0.1:8723")
    p.add_argument("--hardware", required=True)
    p.add_argument("--agent", default=socket.gethostname().split(".")[0].lower())
    p.add_argument("--token-file", help="file that holds the bearer token; default: $TCLD_TOKEN")
    p.add_argument("--max", type=int, help="programs of one lease; default: as many as tcld gives")
    p.add_argument("--ttl", type=int, default=600, help="seconds; the lease is renewed while it is worked on")
    p.add_argument("--batch", type=int, default=16, help="programs built together, 1 to %d; default: 16" % MOST_BATCH)
    p.add_argument("--once", action="store_true", help="end when nothing is selected, with status 1 if what is left "
                   "cannot be measured here")
    p.add_argument("--import", dest="modules", metavar="MODULE", action="append", default=[],
                   help="Python module that registers workloads; may be given several times")
    p.add_argument("--rpc", metavar="HOST:PORT", help="RPC tracker")
    p.add_argument("--rpc-key", help="device key at the tracker")
    p.add_argument("--parallel", type=int, default=1, help="devices used at once behind the tracker")
    p.add_argument("--number", type=int, default=3)
    p.add_argument("--repeat", type=int, default=3)
    p.add_argument("--min-repeat-ms", type=int, default=100)
    p.add_argument("--timeout", type=int, default=10, help="seconds that one program may run")
    a = p.parse_args(argv)
    if bool(a.rpc) != bool(a.rpc_key):
        p.error("--rpc and --rpc-key go together")
    if not 1 <= a.batch <= MOST_BATCH:
        p.error("--batch is %d; it must be 1 to %d" % (a.batch, MOST_BATCH))
    token = None
    if a.token_file:
        with open(a.token_file, encoding="utf-8") as f:
            token = f.read().strip()
    stop = stopped_by_signals()
    for module in a.modules:
        importlib.import_module(module)
    try:
        import tvm.auto_scheduler  # noqa: F401
    except ImportError as error:
        sys.exit("tcl_agent: TVM with auto_scheduler (0.8 to 0.19) is needed: %s" % error)
    try:
        measure = TvmMeasure(a.rpc, a.rpc_key, a.parallel, a.timeout, number=a.number, repeat=a.repeat,
                             min_repeat_ms=a.min_repeat_ms)
    except RuntimeError as error:  # no device behind the tracker
        sys.exit("tcl_agent: %s" % brief(error))
    agent = Agent(Client(a.url, token, stop=stop), a.hardware, a.agent, measure, a.max, a.ttl, a.batch)
    try:
        agent.run(forever=not a.once)
    except (Refused, ConnectionError, Trouble) as error:
        sys.exit("tcl_agent: %s" % error)
    finally:
        tell("%d leases, %d measured, %d failed", agent.leases, agent.measured, agent.failures)

