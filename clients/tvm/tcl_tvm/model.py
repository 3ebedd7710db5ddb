"""TCLModel, the cost model of a search, and MeasureToTcld, the callback that reports what a search measured.

A search must never end because of its cost model. When tcld does not answer in time, or cannot (no model yet, no such
hardware, a wrong token), the scores come from the fallback: a local model if one was given, else chance, as XGBModel's
warm-up does. One line is logged when that begins and one when tcld is back; in between tcld is asked again every
`retry_seconds`, not with every call.

One thread at a time per object, as a search uses it; the posting of measurements has a thread of its own.
"""
import json
import logging
import math
import random
from typing import Any, List, Optional, Sequence, Tuple

from .hardware import describe_task
from .http import Client
from .post import Poster
from .scores import Scores, or_else
from .tvm_api import (MeasureInput, PythonBasedMeasureCallback, PythonBasedModel, dump_record_to_string,
                      serialize_input, serialize_task)

logger = logging.getLogger("tcl_tvm")

def split_input(text: str) -> Tuple[str, str]:
    """'[TASK, STATE]' -> 'TASK', 'STATE', without reading the state, which is the long part."""
    start = text.index("[", text.index("[") + 1)
    _, end = json.JSONDecoder().raw_decode(text, start)
    return text[start:end], text[text.index(",", end) + 1:text.rindex("]")].strip()


def join_states(texts: Sequence[str]) -> bytes:
    """The predict request of serialised inputs of one task: the task once, then all states."""
    task, first = split_input(texts[0])
    head = texts[0][:texts[0].index(task) + len(task)]
    states = [first]
    for text in texts[1:]:
        if not text.startswith(head):
            raise ValueError("the states of one call belong to different tasks")
        states.append(text[text.index(",", len(head)) + 1:text.rindex("]")])
    return ('{"task": %s, "states": [%s]}' % (task, ", ".join(states))).encode()


class TCLModel(PythonBasedModel):  # type: ignore[misc]
    """Scores of tcld for a search on `hardware`.

    hardware          its name in tcld; registered from the task's target and hardware parameters when tcld does not know
                      it (register=False: never; needs the role `operate`)
    url, token        of the daemon; $TCLD_URL, $TCLD_TOKEN, http://127.0.0.1:8723
    timeout           seconds that a search waits for scores before it goes on with the fallback
    retry_seconds     how long tcld is left alone after a failure
    fallback          a cost model (predict, update) for when tcld cannot be asked; None: chance
    post_updates      False: update() reports nothing, for searches that have MeasureToTcld among their callbacks
    model             "active", "ac", "kb" or the id of a model
    """

    def __init__(self, hardware: str, url: Optional[str] = None, token: Optional[str] = None, timeout: float = 30.0,
                 retry_seconds: float = 10.0, fallback: Optional[Any] = None, register: bool = True,
                 post_updates: bool = True, agent: Optional[str] = None, model: str = "active",
                 seed: Optional[int] = None) -> None:
        super().__init__()
        self.hardware, self.fallback = hardware, fallback
        self.client = Client(url, token, timeout)
        self.poster = Poster(Client(url, token), hardware, agent) if post_updates else None
        self.scores = Scores(self.client, "/v1/hardware/%s/predict" % hardware
                             + ("" if model == "active" else "?model=" + model), retry_seconds,
                             "random scores" if fallback is None else type(fallback).__name__,
                             self._register if register else None)
        self.asked = self.fell_back = 0  # calls of predict()
        self._random = random.Random(seed)
        self._task: Any = None  # of the call under way

    @property
    def model_id(self) -> Optional[int]:
        """The model that answered last."""
        return self.scores.model_id

    # ---- what TVM calls ----

    def predict(self, task: Any, states: Sequence[Any]) -> List[float]:
        """One score per state, higher is faster; -inf for a state that cannot be scored."""
        self.asked += 1
        if not states:
            return []
        self._task = task
        scores = self.scores.get(len(states), lambda: join_states(
            [serialize_input(MeasureInput(task, state)) for state in states]))
        if scores is not None:
            return or_else(scores, -math.inf)
        self.fell_back += 1
        if self.fallback is not None:
            return [float(x) for x in self.fallback.predict(task, states)]
        return [self._random.random() for _ in states]

    def predict_stages(self, task: Any, states: Sequence[Any]) -> Any:
        """The packed form of cost_model.py: the scores, then a count of 0 stages for each state."""
        import numpy  # TVM needs it too

        return numpy.asarray(self.predict(task, states) + [0.0] * len(states), dtype="float32")

    def update(self, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        """Reports measurements in the background; tcld trains when it is told to, not here."""
        if self.poster is not None:
            post_results(self.poster, inputs, results)
        if self.fallback is not None:
            self.fallback.update(inputs, results)

    # ---- tcld ----

    def register_hardware(self, task: Any, family: Optional[str] = None, kind: Optional[str] = None) -> None:
        """Makes `hardware` known to tcld, or changes what tcld knows. Raises Refused, OSError."""
        body = describe_task(json.loads(serialize_task(task)))
        body.update({k: v for k, v in (("family", family), ("kind", kind)) if v})
        reply = self.client.ask("PUT", "/v1/hardware/" + self.hardware, json.dumps(body).encode())
        if reply.status not in (200, 201):
            raise reply.refused()

    def _register(self) -> None:
        self.register_hardware(self._task)
        logger.info("hardware %s is registered at %s", self.hardware, self.client.url)

    def close(self, seconds: float = 5.0) -> None:
        """Waits for measurements under way, closes connections."""
        if self.poster is not None:
            self.poster.close(seconds)
        self.client.close()


class MeasureToTcld(PythonBasedMeasureCallback):  # type: ignore[misc]
    """A measure callback (TuningOptions(measure_callbacks=[...])) that reports everything measured to tcld, for searches
    with any cost model. The hardware must be registered; until it is, the measurements wait."""

    def __init__(self, hardware: str, url: Optional[str] = None, token: Optional[str] = None,
                 agent: Optional[str] = None) -> None:
        super().__init__()
        self.poster = Poster(Client(url, token), hardware, agent)

    def callback(self, policy: Any, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        post_results(self.poster, inputs, results)


def post_results(poster: Poster, inputs: Sequence[Any], results: Sequence[Any]) -> None:
    poster.post([dump_record_to_string(i, r).strip() for i, r in zip(inputs, results)])
