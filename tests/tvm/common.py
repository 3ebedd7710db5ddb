"""What the tests of clients/tvm share: daemons of their own ($TCLD, default build/tcld), and recorded searches."""
import contextlib
import glob
import gzip
import http.server
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "clients", "tvm"))

import stand_in

BATCHES = sorted(glob.glob(os.path.join(ROOT, "tests", "data", "batches", "*.json.gz")))
DEMO = sorted(glob.glob(os.path.join(ROOT, "tests", "data", "demo", "*.json")))


def text(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


class Daemon:
    """A tcld on a port that the kernel picked; start() after kill() serves the same port and state."""

    def __init__(self, *options):
        self.dir = tempfile.mkdtemp(prefix="tcld-tvm-")
        self.port, self.process, self.options = 0, None, options
        self.start()

    def start(self):
        port_file = os.path.join(self.dir, "port")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(port_file)
        with open(os.path.join(self.dir, "log"), "ab") as log:
            self.process = subprocess.Popen(
                [os.environ.get("TCLD") or os.path.join(ROOT, "build", "tcld"), "--listen=127.0.0.1:%d" % self.port,
                 "--state-dir=" + os.path.join(self.dir, "state"), "--port-file=" + port_file] + list(self.options),
                stderr=log, stdout=log)
        end = time.monotonic() + 60
        while not os.path.exists(port_file):
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("tcld does not start: " + text(os.path.join(self.dir, "log"))[-2000:])
            time.sleep(0.02)
        self.port = int(text(port_file))
        self.url = "http://127.0.0.1:%d" % self.port

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(60)
        shutil.rmtree(self.dir, ignore_errors=True)
        return status

    def call(self, method, path, body=None, kind="application/json"):
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        request = urllib.request.Request(self.url + path, data, {"Content-Type": kind}, method=method)
        with urllib.request.urlopen(request, timeout=120) as reply:
            return json.loads(reply.read().decode() or "null")

    def select(self, hardware, lines):
        """Registers, and selects all of these programs to be measured."""
        self.call("PUT", "/v1/hardware/" + hardware, {"target": "llvm -mcpu=skylake-avx512"})
        self.call("POST", "/v1/hardware/%s/candidates" % hardware, "".join(lines).encode(), "application/x-ndjson")
        job = self.call("POST", "/v1/hardware/%s/selections" % hardware, {"fraction": 1, "method": "random"})
        self.finish(job)

    def counts(self, hardware):
        """(selected, leased, measured, failed)"""
        counts = self.call("GET", "/v1/hardware/" + hardware)["counts"]["candidates"]
        return tuple(counts[k] for k in ("selected", "leased", "measured", "failed"))

    def finish(self, job):
        while job["state"] in ("queued", "running"):
            time.sleep(0.1)
            job = self.call("GET", "/v1/jobs/%d" % job["id"])
        if job["state"] != "succeeded":
            raise RuntimeError("%(kind)s: %(state)s" % job)

    def teach(self, hardware, files=DEMO, seconds=4):
        """Registers, posts the demo's logs, trains for a few seconds."""
        self.call("PUT", "/v1/hardware/" + hardware, {"target": "llvm -mcpu=skylake-avx512"})
        for path in files:
            with open(path, "rb") as log:
                self.call("POST", "/v1/hardware/%s/measurements" % hardware, log.read(), "application/x-ndjson")
        job = self.call("POST", "/v1/hardware/%s/retrain" % hardware, {"mode": "finetune", "max_seconds": seconds})
        self.finish(job)


def lines_of(path):
    with (gzip.open(path) if path.endswith(".gz") else open(path, "rb")) as log:
        return [line.decode() for line in log if line.strip()]


def recorded(path, most=None):
    """(task, states) of a recorded predict call, as TVM would hand them over."""
    records = [json.loads(line)["i"] for line in lines_of(path)[:most]]
    return stand_in.Task(records[0][0]), [stand_in.State(r[1]) for r in records]


def measured(path, most=None):
    """(inputs, results) of a log, as TVM would hand them over."""
    records = [json.loads(line) for line in lines_of(path)[:most]]
    return ([stand_in.MeasureInput(stand_in.Task(r["i"][0]), stand_in.State(r["i"][1])) for r in records],
            [stand_in.MeasureResult(*r["r"]) for r in records])


class Canned(http.server.BaseHTTPRequestHandler):
    """Answers what the server's `reply` says: (status, bytes) or None to hang up; keeps what it was asked."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.path, dict(self.headers), body))
        reply = self.server.reply
        if reply is None:
            self.close_connection = True
            return
        if reply == "late":
            time.sleep(1.5)
            reply = (200, b"")
        self.send_response(reply[0])
        self.send_header("Content-Length", str(len(reply[1])))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(reply[1])

    do_PUT = do_POST

    def log_message(self, *args):
        pass


@contextlib.contextmanager
def canned(reply):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Canned)
    server.daemon_threads = True
    server.reply, server.asked = reply, []
    server.url = "http://127.0.0.1:%d" % server.server_address[1]
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
