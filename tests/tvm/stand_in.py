"""A stand-in for tvm.auto_scheduler, and for numpy where that is not there: what tcl_tvm uses of it, over recorded log lines instead of schedules.

install(old_layout) puts it into sys.modules. Its tasks and states hold JSON text of a record; its functions print them
as TVM's do. The names sit where TVM 0.14 has them, or with old_layout at the other places that tcl_tvm looks at.
"""
import array
import importlib.util
import json
import sys
import types


class Params:
    def __init__(self, values):
        self.values = values


class Task:
    def __init__(self, array):
        self.array = array


class State:
    def __init__(self, array):
        self.array = array


class MeasureInput:
    def __init__(self, task, state):
        self.task, self.state = task, state


class Float:  # TVM's FloatImm
    def __init__(self, value):
        self.value = value


class MeasureResult:
    def __init__(self, costs, error_no, all_cost, timestamp):
        self.costs = [Float(c) for c in costs]
        self.error_no, self.all_cost, self.timestamp = error_no, all_cost, timestamp


class Handle:
    """Both base classes: made by a constructor without arguments that takes the methods as callbacks."""

    def __init__(self):
        self.made = True


class PythonBasedModel(Handle):
    pass


class PythonBasedMeasureCallback(Handle):
    pass


def serialize_input(inp):
    return json.dumps([inp.task.array, inp.state.array])


def serialize_task(task):
    return json.dumps(task.array)


def dump_record_to_string(inp, res):
    costs = ", ".join("%.6g" % c.value for c in res.costs)
    return '{"i": %s, "r": [[%s], %d, %.6g, %d], "v": "v0.6"}\n' % (serialize_input(inp), costs, res.error_no,
                                                                  res.all_cost, int(res.timestamp))


class Packed(list):
    """What numpy.asarray(..., "float32") makes of a list, as far as TVM looks at it."""

    def __init__(self, values, dtype):
        super().__init__(array.array({"float32": "f"}[dtype], values))
        self.shape = (len(self),)


def module(name, **names):
    made = types.ModuleType(name)
    vars(made).update(names)
    sys.modules[name] = made
    parent, _, last = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], last, made)
    return made


def install(old_layout=False):
    for name in [n for n in sys.modules if n == "tvm" or n.startswith("tvm.")]:
        del sys.modules[name]
    for name in [n for n in ("tcl_tvm.model", "tcl_tvm.tvm_api") if n in sys.modules]:
        del sys.modules[name]
    found = {"auto_scheduler.SerializeMeasureInput": serialize_input,
             "auto_scheduler.SerializeSearchTask": serialize_task}
    if "numpy" not in sys.modules and importlib.util.find_spec("numpy") is None:
        module("numpy", asarray=Packed)
    module("tvm")
    module("tvm.auto_scheduler")
    module("tvm.auto_scheduler.cost_model")
    if old_layout:
        module("tvm._ffi", get_global_func=found.__getitem__)
        module("tvm.auto_scheduler._ffi_api")
        sys.modules["tvm.auto_scheduler.cost_model"].PythonBasedModel = PythonBasedModel
        module("tvm.auto_scheduler.measure", MeasureInput=MeasureInput)
        sys.modules["tvm.auto_scheduler"].PythonBasedMeasureCallback = PythonBasedMeasureCallback
        sys.modules["tvm.auto_scheduler"].dump_record_to_string = dump_record_to_string
    else:
        module("tvm.auto_scheduler._ffi_api", **{k.split(".")[1]: v for k, v in found.items()})
        module("tvm.auto_scheduler.cost_model.cost_model", PythonBasedModel=PythonBasedModel)
        module("tvm.auto_scheduler.measure", MeasureInput=MeasureInput,
               PythonBasedMeasureCallback=PythonBasedMeasureCallback)
        module("tvm.auto_scheduler.measure_record", dump_record_to_string=dump_record_to_string)
