"""MetaSchedule's tuning records on their way to tcld and back, as JSON; no TVM is needed."""
import json
from typing import Any, Dict, List, Optional, Sequence, Tuple

# of a target's attributes, and the descriptor's keys in tcld
ATTRIBUTES = {"num-cores": "num_cores", "max_threads_per_block": "max_threads_per_block",
              "max_shared_memory_per_block": "max_shared_memory_per_block", "thread_warp_size": "warp_size"}

# a measured program: name of the workload, [trace, run_secs, target, args_info]
Measured = Tuple[str, Sequence[Any]]


def describe_target(target: Any) -> Dict[str, Any]:
    """The body of PUT /v1/hardware/{hw}.ms from an exported target."""
    attributes = target if isinstance(target, dict) else {}
    return {"target": target if isinstance(target, str) else json.dumps(target),
            "descriptor": {ours: attributes[theirs] for theirs, ours in ATTRIBUTES.items()
                           if isinstance(attributes.get(theirs), (int, float)) and attributes[theirs] >= 0}}


def body_of_candidates(workload: str, target: Any, args_info: Any, traces: Sequence[Any]) -> bytes:
    """Predict and candidates: programs of one workload."""
    return json.dumps({"format": "metaschedule", "workload": workload, "target": target, "args_info": args_info,
                       "records": [[trace] for trace in traces]}).encode()


def body_of_measured(batch: Sequence[Measured]) -> Tuple[bytes, str]:
    workloads: List[str] = []
    numbers: Dict[str, int] = {}
    for name, _ in batch:
        if name not in numbers:
            numbers[name] = len(workloads)
            workloads.append(name)
    body = {"format": "metaschedule", "workloads": workloads,
            "records": [[numbers[name], record] for name, record in batch]}
    return json.dumps(body).encode(), "application/json"


def to_tuning_record(record: Dict[str, Any]) -> Tuple[str, List[Any]]:
    """A record as tcld gives it (an exported line, a leased candidate) -> name of its workload and
    [trace, run_secs, target, args_info]."""
    key = json.loads(record["i"][0][0])
    insts: List[Any] = []
    decisions: List[Any] = []
    for tag, text in record["i"][1][1]:
        if tag != "MS":
            raise ValueError("a step of kind %s is none of MetaSchedule" % tag)
        inst = json.loads(text)
        if len(inst) > 4:
            decisions.append([len(insts), inst[4]])
        insts.append(inst[:4])
    target: Any = record["i"][0][1]
    if target.lstrip().startswith("{"):
        target = json.loads(target)
    runs: Optional[List[float]] = record["r"][0] if "r" in record else None
    return key[0], [[insts, decisions], runs, target, key[1:] or None]
