"""What a log line, or a search task, tells of the hardware: its target and auto_scheduler's HardwareParams."""
import json
from typing import Any, Dict, Optional, Sequence

# in the order of a record's task; the names are those of HardwareParams and of a descriptor in tcld
PARAMS = ("num_cores", "vector_unit_bytes", "cache_line_bytes", "max_shared_memory_per_block",
          "max_local_memory_per_block", "max_threads_per_block", "max_vthread_extent", "warp_size")


def describe_task(task: Sequence[Any]) -> Dict[str, Any]:
    """The body of PUT /v1/hardware/{hw} from a record's task array. -1 means unknown to TVM."""
    params = dict(zip(PARAMS, task[2])) if len(task) > 2 and task[2] else {}
    return {"target": task[1], "descriptor": {k: v for k, v in params.items() if v >= 0}}


def describe_line(line: bytes) -> Optional[Dict[str, Any]]:
    """The same from a log line; None when it is none."""
    try:
        return describe_task(json.loads(line.decode())["i"][0])
    except (ValueError, KeyError, IndexError, TypeError):
        return None
