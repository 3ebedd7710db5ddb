"""TCLCostModel: tcld's scores for MetaSchedule searches, in tvm.meta_schedule or, where TVM has moved it,
tvm.s_tir.meta_schedule.

Programs of MetaSchedule on hardware "xeon" are kept by tcld as hardware "xeon.ms", apart from those of auto_scheduler.
What is said in model.py holds here too: a search never ends because of its cost model.
"""
import json
import logging
import random
from typing import Any, Dict, List, Optional, Sequence

from .http import Client
from .ms_records import Measured, body_of_candidates, body_of_measured, describe_target
from .post import Poster
from .scores import Scores, or_else

try:
    from tvm import meta_schedule
except ImportError:
    from tvm.s_tir import meta_schedule
try:
    PyCostModel = meta_schedule.cost_model.PyCostModel
except AttributeError:
    from importlib import import_module

    PyCostModel = import_module(meta_schedule.__name__ + ".cost_model.cost_model").PyCostModel

logger = logging.getLogger("tcl_tvm")

FAILED = 1e10  # seconds, as MetaSchedule's database has it
SUFFIX = ".ms"


def plain(value: Any) -> Any:
    """TVM's containers and numbers as Python's."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return str(value)
    if hasattr(value, "items"):
        return {str(k): plain(v) for k, v in value.items()}
    if hasattr(value, "value"):  # IntImm, FloatImm
        return plain(value.value)
    return [plain(x) for x in value]


class _TCLCostModel(PyCostModel):  # type: ignore[misc,valid-type]
    """Scores of tcld for a MetaSchedule search on `hardware`; the options are those of TCLModel. `fallback`: a cost model
    with predict(context, candidates) and update(context, candidates, results)."""

    def __init__(self, hardware: str, url: Optional[str] = None, token: Optional[str] = None, timeout: float = 30.0,
                 retry_seconds: float = 10.0, fallback: Optional[Any] = None, register: bool = True,
                 post_updates: bool = True, agent: Optional[str] = None, model: str = "active",
                 seed: Optional[int] = None) -> None:
        super().__init__()
        self.hardware = hardware if hardware.endswith(SUFFIX) else hardware + SUFFIX
        self.fallback = fallback
        self.client = Client(url, token, timeout)
        self.poster = Poster(Client(url, token), self.hardware, agent, encode=body_of_measured) if post_updates else None
        self.scores = Scores(self.client, "/v1/hardware/%s/predict" % self.hardware
                             + ("" if model == "active" else "?model=" + model), retry_seconds,
                             "random scores" if fallback is None else type(fallback).__name__,
                             self._register if register else None)
        self.asked = self.fell_back = 0
        self._random = random.Random(seed)
        self._target: Any = None  # of the call under way
        self._workloads: Dict[int, Any] = {}  # id(module) -> (module, name): a module that is kept keeps its id

    # ---- what MetaSchedule calls ----

    def load(self, path: str) -> None:
        """Nothing: models live in tcld."""

    def save(self, path: str) -> None:
        """Nothing: models live in tcld."""

    def predict(self, context: Any, candidates: Sequence[Any]) -> Any:
        """One score per candidate, higher is faster; 0 for one that cannot be scored."""
        import numpy  # TVM needs it too

        self.asked += 1
        scores: Optional[List[float]] = []
        if len(candidates) > 0:
            self._target = self._target_of(context)
            scores = self.scores.get(len(candidates), lambda: body_of_candidates(
                self._workload(context), self._target, self._args_info(candidates[0]),
                [self._trace(c) for c in candidates]))
        if scores is not None:
            return numpy.asarray(or_else(scores, 0.0), dtype="float64")
        self.fell_back += 1
        if self.fallback is not None:
            return self.fallback.predict(context, candidates)
        return numpy.asarray([self._random.random() for _ in candidates], dtype="float64")

    def update(self, context: Any, candidates: Sequence[Any], results: Sequence[Any]) -> None:
        """Reports measurements in the background; tcld trains when it is told to, not here."""
        if self.poster is not None:
            name, target = self._workload(context), self._target_of(context)
            measured: List[Measured] = []
            for candidate, result in zip(candidates, results):
                seconds = [float(plain(x)) for x in result.run_secs] if result.run_secs else [FAILED]
                measured.append((name, [self._trace(candidate), seconds, target, self._args_info(candidate)]))
            self.poster.post(measured)
        if self.fallback is not None:
            self.fallback.update(context, candidates, results)

    def __str__(self) -> str:
        return "TCLCostModel(%s at %s)" % (self.hardware, self.client.url)

    # ---- tcld ----

    def _register(self) -> None:
        reply = self.client.ask("PUT", "/v1/hardware/" + self.hardware, json.dumps(describe_target(self._target)).encode())
        if reply.status not in (200, 201):
            raise reply.refused()
        logger.info("hardware %s is registered at %s", self.hardware, self.client.url)

    def _workload(self, context: Any) -> str:
        """The structural hash, as the database names workloads."""
        known = self._workloads.get(id(context.mod))
        if known is None:
            known = (context.mod, str(plain(meta_schedule.database.Workload(context.mod).as_json())[0]))
            self._workloads[id(context.mod)] = known
        return str(known[1])

    @staticmethod
    def _target_of(context: Any) -> Any:
        return plain(context.target.export()) if hasattr(context.target, "export") else str(context.target)

    @staticmethod
    def _trace(candidate: Any) -> Any:
        return plain(candidate.sch.trace.as_json())

    @staticmethod
    def _args_info(candidate: Any) -> Any:
        return [plain(a.as_json()) for a in candidate.args_info]

    def close(self, seconds: float = 5.0) -> None:
        """Waits for measurements under way, closes connections."""
        if self.poster is not None:
            self.poster.close(seconds)
        self.client.close()


# Since TVM 0.9 a Python cost model is no object of TVM itself, but is wrapped into one.
TCLCostModel: Any = (meta_schedule.utils.derived_object(_TCLCostModel) if hasattr(PyCostModel, "_tvm_metadata")
                     else _TCLCostModel)
