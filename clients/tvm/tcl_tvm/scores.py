"""Asking tcld for scores on behalf of a search that must not end because of it.

After a failure tcld is left alone for `retry_seconds`; one line is logged when that begins and one when it is back. What
a search does meanwhile is its own matter: get() returns None.
"""
import logging
import math
import struct
import time
from typing import Callable, List, Optional

from .http import Client, Refused

logger = logging.getLogger("tcl_tvm")


class Scores:
    """predict of one hardware. register() is called when tcld does not know the hardware; None: never. `instead`: what
    the log says the search goes on with."""

    def __init__(self, client: Client, path: str, retry_seconds: float, instead: str,
                 register: Optional[Callable[[], None]] = None) -> None:
        self.client, self.path, self.retry_seconds, self.instead = client, path, retry_seconds, instead
        self.register = register
        self.model_id: Optional[int] = None  # of the last answer
        self._leave_until = 0.0  # monotonic; 0: tcld answered last time

    def get(self, n: int, body: Callable[[], bytes]) -> Optional[List[float]]:
        """n scores, NaN for what cannot be scored. None: tcld is away."""
        if time.monotonic() < self._leave_until:
            return None
        try:
            scores = self._ask(n, body())
        except (OSError, Refused, ValueError) as error:
            self._failed(error)
            return None
        if self._leave_until:
            logger.warning("tcld at %s answers again", self.client.url)
        self._leave_until = 0.0
        return scores

    def _ask(self, n: int, body: bytes) -> List[float]:
        reply = self.client.ask("POST", self.path, body, accept="application/octet-stream")
        if reply.status == 404 and self.register and reply.refused().problem == "unknown-hardware":
            self.register()
            reply = self.client.ask("POST", self.path, body, accept="application/octet-stream")
        if reply.status != 200:
            raise reply.refused()
        if len(reply.data) != 8 * n:
            raise ValueError("%d bytes came for %d programs, not %d" % (len(reply.data), n, 8 * n))
        self.model_id = int(reply.headers.get("X-Model-Id") or 0)
        return list(struct.unpack_from("<%df" % n, reply.data))  # the latencies follow

    def _failed(self, error: Exception) -> None:
        if not self._leave_until:
            logger.warning("no scores from tcld at %s (%s): going on with %s, asking again every %g s", self.client.url,
                           str(error) or type(error).__name__, self.instead, self.retry_seconds)
        self._leave_until = time.monotonic() + self.retry_seconds


def or_else(scores: List[float], unusable: float) -> List[float]:
    return [unusable if math.isnan(x) else x for x in scores]
