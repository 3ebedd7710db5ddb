"""The few names of TVM's auto_scheduler that are used, wherever a version from 0.8 to 0.19 keeps them."""
from typing import Any, Callable

from tvm import auto_scheduler
from tvm.auto_scheduler import _ffi_api
from tvm.auto_scheduler.measure import MeasureInput

try:
    from tvm.auto_scheduler.cost_model.cost_model import PythonBasedModel
except ImportError:
    from tvm.auto_scheduler.cost_model import PythonBasedModel
try:
    from tvm.auto_scheduler.measure import PythonBasedMeasureCallback
except ImportError:
    from tvm.auto_scheduler import PythonBasedMeasureCallback
try:
    from tvm.auto_scheduler.measure_record import dump_record_to_string
except ImportError:
    from tvm.auto_scheduler import dump_record_to_string

__all__ = ["MeasureInput", "PythonBasedMeasureCallback", "PythonBasedModel", "auto_scheduler", "dump_record_to_string",
           "serialize_input", "serialize_task"]


def _global(name: str) -> Callable[[Any], str]:
    found = getattr(_ffi_api, name, None)
    if found is not None:
        return found  # type: ignore[no-any-return]
    try:
        from tvm import ffi
    except ImportError:
        from tvm import _ffi as ffi
    return ffi.get_global_func("auto_scheduler." + name)  # type: ignore[no-any-return]


serialize_input = _global("SerializeMeasureInput")  # MeasureInput -> '[TASK, STATE]' as in a log line's "i"
serialize_task = _global("SerializeSearchTask")  # SearchTask -> 'TASK'
