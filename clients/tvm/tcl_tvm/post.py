"""Measurements on their way to tcld: a bounded queue and one thread that posts, so that no search waits for the network.

What got no answer is posted again, the same bytes, until there is one: tcld counts a record once however often it comes.
When the queue is full the newest are dropped and counted: a log file keeps them (auto_scheduler.RecordToFile), and
`python -m tcl_tvm import` brings them in later.
"""
import atexit
import logging
import threading
import time
import weakref
from collections import deque
from typing import Any, Callable, Deque, List, Optional, Sequence, Tuple

from .http import Client

logger = logging.getLogger("tcl_tvm")


def as_lines(batch: Sequence[str]) -> Tuple[bytes, str]:
    return "".join(line + "\n" for line in batch).encode(), "application/x-ndjson"


class Poster:
    """post() from any thread. `most`: lines that may wait; `batch`: lines of one request; `encode`: a batch -> the body
    and its type."""

    def __init__(self, client: Client, hardware: str, agent: Optional[str] = None, most: int = 65536, batch: int = 1024,
                 pause: float = 1.0, encode: Callable[[Sequence[Any]], Tuple[bytes, str]] = as_lines) -> None:
        self.client, self.hardware, self.agent = client, hardware, agent
        self.most, self.batch, self.pause, self.encode = most, batch, pause, encode
        self.accepted = self.duplicates = self.rejected = self.dropped = 0
        self._lines: Deque[Any] = deque()  # guarded by _changed, as all below
        self._changed = threading.Condition()
        self._told = ""  # the last trouble that was logged
        self._closed = False
        self._thread: Optional[threading.Thread] = None
        atexit.register(_close_at_exit, weakref.ref(self))

    def post(self, lines: Sequence[Any]) -> int:
        """Takes measured log lines, returns how many of them there was room for. Never waits."""
        with self._changed:
            room = 0 if self._closed else max(0, self.most - len(self._lines))
            taken = lines[:room]
            self._lines.extend(taken)
            lost = len(lines) - len(taken)
            if lost and not self.dropped:
                logger.warning("%d measurements wait for tcld, no more are kept: the rest is dropped", self.most)
            self.dropped += lost
            if self._lines and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="tcl_tvm poster", daemon=True)
                self._thread.start()
            self._changed.notify_all()
            return len(taken)

    def waiting(self) -> int:
        with self._changed:
            return len(self._lines)

    def flush(self, seconds: float) -> bool:
        """Waits until everything is answered; False when it is not after `seconds`."""
        end = time.monotonic() + seconds
        with self._changed:
            while self._lines and time.monotonic() < end:
                self._changed.wait(max(0.0, end - time.monotonic()))
            return not self._lines

    def close(self, seconds: float = 5.0) -> bool:
        """flush(), then the thread ends; what is left is dropped and logged."""
        done = self.flush(seconds)
        with self._changed:
            self._closed = True
            left = len(self._lines)
            self.dropped += left
            self._lines.clear()
            self._changed.notify_all()
        if left:
            logger.warning("%d measurements never reached tcld at %s", left, self.client.url)
        return done

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._lines and not self._closed:
                    self._changed.wait()
                if self._closed:
                    break
                batch = [self._lines[i] for i in range(min(self.batch, len(self._lines)))]
            if not self._post_batch(batch):
                with self._changed:
                    if not self._closed:
                        self._changed.wait(self.pause)
                continue
            with self._changed:
                for _ in range(min(len(batch), len(self._lines))):  # close() may have cleared them
                    self._lines.popleft()
                self._changed.notify_all()
        self.client.close()

    def _post_batch(self, batch: List[Any]) -> bool:
        """True when tcld has answered for these lines, whatever it said of them."""
        path = "/v1/hardware/%s/measurements%s" % (self.hardware, "?agent=" + self.agent if self.agent else "")
        body, kind = self.encode(batch)
        try:
            reply = self.client.ask("POST", path, body, kind)
        except OSError as error:
            return self._trouble("%s: %s" % (self.client.url, error or type(error).__name__))
        if reply.status == 200:
            self._count(reply.json())
            return True
        if reply.status in (400, 413, 415, 422):  # the same bytes will not do better
            self.dropped += len(batch)
            logger.warning("tcld refused %d measurements: %s", len(batch), reply.refused())
            return True
        # 404: the hardware may be registered in a moment; 401, 403: so may the token; the queue is the limit
        return self._trouble(str(reply.refused()))

    def _count(self, said: Any) -> None:
        self.accepted += said["accepted"]
        self.duplicates += said["duplicates"]
        self.rejected += said["rejected"]
        if said["rejected"]:
            logger.warning("tcld refused %d measurements, the first: %s", said["rejected"],
                           said["errors"][0]["detail"] if said["errors"] else "?")
        if self._told:
            self._told = ""
            logger.info("measurements reach tcld again")

    def _trouble(self, why: str) -> bool:
        if not self._told:
            logger.warning("measurements wait, tcld does not take them: %s", why)
        self._told = why
        return False


def _close_at_exit(poster: "weakref.ReferenceType[Poster]") -> None:
    alive = poster()
    if alive is not None:
        alive.close()
