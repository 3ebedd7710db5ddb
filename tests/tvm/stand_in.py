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
    def __init__(self, costs, error_no, all_cost, timestamp, error_msg=""):
        self.costs, self.error_msg = [Float(c) for c in costs], error_msg
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
    """What numpy.asarray makes of a list, as far as TVM looks at it."""

    def __init__(self, values, dtype):
        super().__init__(array.array({"float32": "f", "float64": "d"}[dtype], values))
        self.shape = (len(self),)


def module(name, **names):
    made = types.ModuleType(name)
    vars(made).update(names)
    sys.modules[name] = made
    parent, _, last = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], last, made)
    return made


# ---- measuring ----

def install_measuring(registered, run):
    """registered(name of a workload) -> bool; run(input) -> MeasureResult, by every runner."""
    def recover(inp, rebuild_state):
        if not registered(json.loads(inp.task.array[0])[0]):
            raise ValueError("a backtrace\n%s is not registered" % inp.task.array[0])
        return inp

    def load(line):
        record = json.loads(line)
        return MeasureInput(Task(record["i"][0]), State(record["i"][1])), MeasureResult(*record["r"])

    class Runner:
        def __init__(self, *where, **how):
            pass

        def run(self, inputs, builds, verbose):
            return [run(inp) for inp in inputs]

    class LocalBuilder:
        def __init__(self, timeout):
            pass

        def build(self, inputs, verbose):
            return [None] * len(inputs)

    clean()
    module("tvm")
    module("tvm.auto_scheduler", LocalBuilder=LocalBuilder, LocalRunner=Runner, RPCRunner=Runner)
    module("tvm.auto_scheduler.measure", recover_measure_input=recover)
    module("tvm.auto_scheduler.measure_record", load_record_from_string=load)


# ---- MetaSchedule ----

class PyCostModel(Handle):
    """As TVM 0.8 has it: an object of TVM."""


class WrappedPyCostModel:
    """As later versions have it: a plain class, which derived_object() wraps."""

    _tvm_metadata = {"cls": None, "methods": ["load", "save", "update", "predict"]}


def derived_object(cls):
    class Derived(Handle):
        def __init__(self, *args, **options):
            super().__init__()
            self.inst = cls(*args, **options)

        def __getattr__(self, name):
            return getattr(self.inst, name)

    return Derived


class Workload:
    def __init__(self, mod):
        self.mod = mod

    def as_json(self):
        return [self.mod, "bW9kdWxl"]  # here a module is the name of itself


class Thing:
    def __init__(self, **members):
        vars(self).update(members)


def candidate(record):
    """A MeasureCandidate of a tuning record."""
    return Thing(sch=Thing(trace=Thing(as_json=lambda: record[0])),
                 args_info=[Thing(as_json=lambda a=a: a) for a in record[3]])


def runner_result(record):
    return Thing(run_secs=[Float(x) for x in record[1]], error_msg=None)


def context(workload, record):
    return Thing(mod=workload, target=Thing(export=lambda: record[2]))


def install_metaschedule(moved=False):
    clean("tcl_tvm.metaschedule")
    name = "tvm.s_tir.meta_schedule" if moved else "tvm.meta_schedule"
    module("tvm")
    if moved:
        module("tvm.s_tir")
    module(name)
    base = WrappedPyCostModel if moved else PyCostModel
    module(name + ".cost_model", **({"PyCostModel": base} if moved else {}))
    module(name + ".cost_model.cost_model", PyCostModel=base)
    module(name + ".database", Workload=Workload)
    module(name + ".utils", derived_object=derived_object)


def clean(*ours):
    for name in [n for n in sys.modules if n == "tvm" or n.startswith("tvm.")] + [n for n in ours if n in sys.modules]:
        del sys.modules[name]
    if "numpy" not in sys.modules and importlib.util.find_spec("numpy") is None:
        module("numpy", asarray=Packed)


def install(old_layout=False):
    clean("tcl_tvm.model", "tcl_tvm.tvm_api")
    found = {"auto_scheduler.SerializeMeasureInput": serialize_input,
             "auto_scheduler.SerializeSearchTask": serialize_task}
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
