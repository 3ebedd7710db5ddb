"""Measurement agent of tcld: takes leases, builds and runs the programs with TVM, posts what they cost.

    python3 -m tcl_tvm agent --url http://tcld:8723 --hardware xeon-8272 --agent rack7-n3
    python3 -m tcl_tvm agent ... --rpc TRACKER:9190 --rpc-key board  # measure on a device behind an RPC tracker
    python3 -m tcl_tvm agent ... --import my_workloads               # a module that registers the workload keys

TVM can only rebuild programs whose workload is registered in this process: a function's name
(auto_scheduler.register_workload), or a hash made by extract_tasks() on the same network. The module does that.

TVM is imported only when something is measured, so `Agent` can be used, and tested, without it: it takes any function
from a list of records to a list of results.

What the agent promises tcld: results that got no answer are posted again, the same bytes, until there is one; a lease is
renewed while it is worked on, and what is left of it is given back when the agent is told to stop.
"""
import argparse
import importlib
import json
import signal
import socket
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence

from .http import Client, Refused

Record = Dict[str, Any]  # a log line without "r"
Result = Dict[str, Any]  # costs, error_no, all_cost, timestamp


def failed(error_no: int = 8) -> Result:
    """The result of a program that could not be measured. 8: unknown error, for want of a better one."""
    return {"costs": [1e10], "error_no": error_no, "all_cost": 0.0, "timestamp": time.time()}


def line_of(record: Record, result: Result) -> str:
    """A log line as auto_scheduler writes it."""
    return json.dumps({"i": record["i"],
                       "r": [result["costs"], result["error_no"], result["all_cost"], int(result["timestamp"])],
                       "v": record.get("v", "v0.6")})


class Agent:
    """Takes leases and works them off in batches. measure(records) -> one result per record, as failed() makes them; what
    it raises counts as the failure of the whole batch."""

    def __init__(self, client: Client, hardware: str, name: str, measure: Callable[[List[Record]], List[Result]],
                 most: int = 64, ttl: float = 600, batch: int = 16, idle: float = 2.0) -> None:
        self.client, self.hardware, self.name, self.measure = client, hardware, name, measure
        self.most, self.ttl, self.batch, self.idle = most, ttl, batch, idle
        self.stop = client.stop
        self.leases = self.measured = self.failures = 0

    def run(self, forever: bool = True) -> None:
        """Until told to stop; forever=False: until nothing is selected."""
        while not self.stop.is_set():
            reply = self.client.lease(self.hardware, self.name, self.most, self.ttl)
            if reply["lease"] is None:
                if not forever:
                    return
                self.stop.wait(self.idle)
                continue
            self.leases += 1
            self._work_off(reply["lease"], [c["record"] for c in reply["candidates"]])

    def _work_off(self, lease: str, records: List[Record]) -> None:
        done = threading.Event()
        keeper = threading.Thread(target=self._keep, args=(lease, done), daemon=True)
        keeper.start()
        try:
            while records and not self.stop.is_set():
                self._batch(records[:self.batch])
                records = records[self.batch:]
        finally:
            done.set()
            keeper.join()
            if records:
                self._quietly(self.client.give_back, lease)

    def _batch(self, records: List[Record]) -> None:
        try:
            results = self.measure(records)
            if len(results) != len(records):
                raise RuntimeError("%d results of %d programs" % (len(results), len(records)))
        except Exception as error:  # a broken program must not end the agent
            print("tcl_agent: batch failed: %s" % error, file=sys.stderr)
            results = [failed() for _ in records]
        self.measured += len(results)
        self.failures += sum(r["error_no"] != 0 for r in results)
        body = "".join(line_of(a, b) + "\n" for a, b in zip(records, results))
        self.client.post(self.hardware, self.name, body.encode())

    def _keep(self, lease: str, done: threading.Event) -> None:
        """Renews the lease on a connection of its own while a batch may take long."""
        client = Client(self.client.url, self.client.token, patience=self.ttl / 3, stop=done)
        while not done.wait(self.ttl / 3):
            self._quietly(client.renew, lease)
        client.close()

    @staticmethod
    def _quietly(call: Callable[[str], Any], lease: str) -> None:
        try:
            call(lease)
        except (Refused, ConnectionError):
            pass  # all of it is measured, or it ran out: either way there is nothing left to hold


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

    def __call__(self, records: List[Record]) -> List[Result]:
        inputs = [self._input(r) for r in records]
        usable = [i for i in inputs if i is not None]
        builds = self.builder.build(usable, verbose=0) if usable else []
        runs = iter(self.runner.run(usable, builds, verbose=0) if usable else [])
        return [failed(1) if i is None else self._result(next(runs)) for i in inputs]

    def _input(self, record: Record) -> Any:
        """TVM reads whole log lines only; a state comes back without its schedule, which recover gives it again."""
        try:
            inp, _ = self.load(line_of(record, failed(0)))
            return self.measure.recover_measure_input(inp, rebuild_state=True)
        except Exception as error:
            print("tcl_agent: record refused by TVM: %s" % error, file=sys.stderr)
            return None

    @staticmethod
    def _result(result: Any) -> Result:
        return {"costs": [c.value for c in result.costs] or [1e10], "error_no": int(result.error_no),
                "all_cost": float(result.all_cost), "timestamp": float(result.timestamp)}


def main(argv: Optional[Sequence[str]] = None) -> None:
    p = argparse.ArgumentParser(description=str(__doc__).split("\n\n")[0])
    p.add_argument("--url", help="of tcld; default: $TCLD_URL or http://127.0.0.1:8723")
    p.add_argument("--hardware", required=True)
    p.add_argument("--agent", default=socket.gethostname().split(".")[0].lower())
    p.add_argument("--token-file", help="file that holds the bearer token; default: $TCLD_TOKEN")
    p.add_argument("--max", type=int, default=64, help="programs of one lease")
    p.add_argument("--ttl", type=int, default=600, help="seconds; the lease is renewed while it is worked on")
    p.add_argument("--batch", type=int, default=16, help="programs built together")
    p.add_argument("--once", action="store_true", help="end when nothing is selected")
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
    token = None
    if a.token_file:
        with open(a.token_file, encoding="utf-8") as f:
            token = f.read().strip()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    for module in a.modules:
        importlib.import_module(module)
    try:
        import tvm.auto_scheduler  # noqa: F401
    except ImportError as error:
        sys.exit("tcl_agent: TVM with auto_scheduler (0.8 to 0.19) is needed: %s" % error)
    measure = TvmMeasure(a.rpc, a.rpc_key, a.parallel, a.timeout, number=a.number, repeat=a.repeat,
                         min_repeat_ms=a.min_repeat_ms)
    agent = Agent(Client(a.url, token, stop=stop), a.hardware, a.agent, measure, a.max, a.ttl, a.batch)
    try:
        agent.run(forever=not a.once)
    except (Refused, ConnectionError) as error:
        sys.exit("tcl_agent: %s" % error)
    finally:
        print("tcl_agent: %d leases, %d measured, %d failed" % (agent.leases, agent.measured, agent.failures),
              file=sys.stderr)

