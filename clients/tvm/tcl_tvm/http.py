"""HTTP to tcld with the standard library alone: one kept-alive connection, and patience where it is wanted.

Two ways to ask. Client.ask() is one question with a time limit: an answer of any status, or OSError. Client.call() wants a
2xx and asks again while there is none to be had (no answer, 429, 5xx), for `patience` seconds, or `grace` seconds after
`stop` is set; a 4xx raises Refused.
Every write of tcld may be repeated, so a connection that the daemon closed between two requests is opened anew unseen.
"""
import gzip
import http.client
import json
import os
import socket
import threading
import time
import urllib.parse
from typing import Any, Dict, NamedTuple, Optional, Union

DEFAULT_URL = "http://127.0.0.1:8723"
GZIP_OVER = 64 << 10  # bytes; below it packing costs more than sending, over loopback and local networks
GRACE = 30.0  # seconds; as long as a daemon may take to start anew, and less than a service is given to stop


class Refused(Exception):
    """tcld said no (4xx): asking again will not help."""

    def __init__(self, status: int, detail: str, problem: str = "") -> None:
        super().__init__("%d: %s" % (status, detail))
        self.status = status
        self.problem = problem  # last part of the problem's URN, "unknown-hardware"


class Reply(NamedTuple):
    status: int
    data: bytes
    headers: Any  # http.client.HTTPMessage

    def json(self) -> Any:
        return json.loads(self.data.decode()) if self.data else None

    def refused(self) -> Refused:
        """What the problem document says."""
        try:
            problem = json.loads(self.data.decode())
            return Refused(self.status, str(problem["detail"]), str(problem["type"]).rsplit(":", 1)[-1])
        except (ValueError, KeyError, TypeError):
            return Refused(self.status, self.data[:200].decode("utf-8", "replace"))


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Client:
    """One keep-alive connection to tcld; url is http://HOST:PORT, https://HOST:PORT or unix:/PATH. One thread at a time.
    Without url and token: $TCLD_URL and $TCLD_TOKEN."""

    def __init__(self, url: Optional[str] = None, token: Optional[str] = None, timeout: float = 60.0,
                 patience: float = 600.0, stop: Optional[threading.Event] = None) -> None:
        self.url = (url or os.environ.get("TCLD_URL") or DEFAULT_URL).rstrip("/")
        self.token = token or os.environ.get("TCLD_TOKEN")
        self.timeout, self.patience = timeout, patience
        self.stop = stop or threading.Event()
        self._stopped: Optional[float] = None  # when a call first saw that: all of them share the grace
        self.gzip_over = GZIP_OVER
        self._connection: Optional[http.client.HTTPConnection] = None
        self._new_connection()  # a malformed address is told now

    def _new_connection(self) -> http.client.HTTPConnection:
        if self.url.startswith("unix:"):
            return _UnixConnection(self.url[len("unix:"):], self.timeout)
        parts = urllib.parse.urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("url must be http://HOST:PORT, https://HOST:PORT or unix:/PATH, not %r" % self.url)
        if parts.scheme == "https":
            return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=self.timeout)
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=self.timeout)

    def _headers(self, body: Optional[bytes], content_type: str, accept: Optional[str]) -> Dict[str, str]:
        headers = {"Content-Type": content_type} if body is not None else {}
        if accept:
            headers["Accept"] = accept
        if self.token:
            headers["Authorization"] = "Bearer " + self.token
        return headers

    def ask(self, method: str, path: str, body: Optional[bytes] = None, content_type: str = "application/json",
            accept: Optional[str] = None) -> Reply:
        """One question. Raises OSError when there is no answer; `timeout` is that of each read and write."""
        headers = self._headers(body, content_type, accept)
        if body is not None and len(body) > self.gzip_over:
            body = gzip.compress(body, 1)
            headers["Content-Encoding"] = "gzip"
        while True:
            kept = self._connection is not None
            if self._connection is None:
                self._connection = self._new_connection()
            try:
                self._connection.request(method, path, body=body, headers=headers)
                reply = self._connection.getresponse()
                data = reply.read()
            except socket.timeout:
                self.close()
                raise
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if kept:  # closed by the daemon since the last call
                    continue
                if isinstance(error, OSError):
                    raise
                raise OSError(str(error) or type(error).__name__)
            if reply.will_close:
                self.close()
            return Reply(reply.status, data, reply.headers)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def call(self, method: str, path: str, body: Union[bytes, Dict[str, Any], None] = None,
             content_type: str = "application/json", grace: float = GRACE) -> Any:
        """The reply's JSON. Raises Refused, or ConnectionError when `patience` or `grace` is at its end."""
        if isinstance(body, dict):
            body = json.dumps(body).encode()
        give_up, pause = time.monotonic() + self.patience, 0.1
        while True:
            wait = pause
            try:
                reply = self.ask(method, path, body, content_type)
                if 200 <= reply.status < 300:
                    return reply.json()
                if reply.status != 429 and reply.status < 500:
                    raise reply.refused()
                problem = str(reply.refused())
                later = reply.headers.get("Retry-After")
                if later and later.isdigit():
                    wait = max(wait, float(later))
            except OSError as error:
                problem = str(error) or type(error).__name__
            if self.stop.is_set():
                self._stopped = self._stopped or time.monotonic()
                give_up = min(give_up, self._stopped + grace)
            if time.monotonic() + wait > give_up:
                raise ConnectionError("%s %s: %s" % (method, path, problem))
            (time.sleep if self._stopped else self.stop.wait)(wait)
            pause = min(pause * 2, 5.0)

    # ---- the calls of a measurement agent ----

    def lease(self, hardware: str, agent: str, most: Optional[int], ttl: float) -> Any:
        """{"lease": token or None, "candidates": [{"id", "record"}]}; most None: as many as tcld gives. Without grace."""
        wish: Dict[str, Any] = {"agent": agent, "ttl_seconds": ttl, **({} if most is None else {"max": most})}
        return self.call("POST", "/v1/hardware/%s/leases" % hardware, wish, grace=0)

    def renew(self, lease: str) -> bool:
        """False: there is no such lease any more. One question: the next renewal makes up for one without an answer."""
        try:
            return self.ask("POST", "/v1/leases/%s/renew" % lease).status != 404
        except OSError:
            return True

    def give_back(self, lease: str) -> Any:
        return self.call("DELETE", "/v1/leases/%s" % lease)

    def post(self, hardware: str, agent: Optional[str], body: bytes) -> Any:
        """Measured log lines: {"accepted", "duplicates", "rejected", "errors"}"""
        return self.call("POST", "/v1/hardware/%s/measurements%s" % (hardware, "?agent=" + agent if agent else ""),
                         body, "application/x-ndjson")
