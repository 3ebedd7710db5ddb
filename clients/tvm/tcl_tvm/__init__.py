"""tcld for TVM's auto_scheduler: a cost model that asks a daemon, and what feeds it.

    from tvm import auto_scheduler
    from tcl_tvm import TCLModel

    model = TCLModel("xeon-8272")                      # $TCLD_URL or http://127.0.0.1:8723, $TCLD_TOKEN
    policy = auto_scheduler.SketchPolicy(task, program_cost_model=model)
    task.tune(options, search_policy=policy)

For MetaSchedule:

    from tcl_tvm import TCLCostModel

    ms.tune_tir(mod, target, work_dir, max_trials_global=1000, cost_model=TCLCostModel("xeon-8272"))

These need TVM (TCLModel and MeasureToTcld its auto_scheduler, 0.8 to 0.19) and are imported when they are named; everything
else does without it.
"""
from typing import TYPE_CHECKING, Any

from .http import Client, Refused
from .post import Poster

if TYPE_CHECKING:
    from .metaschedule import TCLCostModel
    from .model import MeasureToTcld, TCLModel

__version__ = "0.1.0"
__all__ = ["Client", "MeasureToTcld", "Poster", "Refused", "TCLCostModel", "TCLModel"]


def __getattr__(name: str) -> Any:
    if name in ("TCLModel", "MeasureToTcld"):
        from . import model

        return getattr(model, name)
    if name == "TCLCostModel":
        from . import metaschedule

        return metaschedule.TCLCostModel
    raise AttributeError("module %r has no attribute %r" % (__name__, name))
