#!/usr/bin/python3
"""A predict server as one would write it in Python, as a peer of bench_http: FastAPI on uvicorn (uvloop and httptools where
they are installed), the cost model in PyTorch with the same weights.

  peer_fastapi.py WEIGHTS LIBTCLFEAT.SO      prints "ready PORT TEXT", serves POST /predict until stdin ends

Its cheapest fair path: NDJSON lines go through Python's json (a server has to know that they are JSON), rows are encoded
by libtclfeat, and PyTorch runs on blocks of programs that fit the caches, one thread, as tcld has one predict thread here.
"""
import ctypes
import json
import os
import sys
import threading

try:
    import numpy as np
    import torch
    import uvicorn
    from fastapi import FastAPI, Request
    from fastapi.responses import JSONResponse
    from peer_torch import Model, read_weights
except ImportError as e:
    print("skip", e, flush=True)
    sys.exit(0)
except SystemExit:  # peer_torch has said why
    sys.exit(0)

COLS, SUMMARY, MAX_ROWS, BLOCK = 64, 72, 514, 128

torch.set_num_threads(1)
weights, calibration = read_weights(sys.argv[1])
model = Model(weights).eval()
encode_line = ctypes.CDLL(sys.argv[2]).tclfeat_encode_line
encode_line.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p,
                        ctypes.c_char_p, ctypes.c_size_t]
app = FastAPI()


def encode(lines):
    """[n][L][COLS] rows, mask, [n][SUMMARY]."""
    detail = ctypes.create_string_buffer(256)
    rows = np.empty((MAX_ROWS, COLS), np.float32)
    summary = np.empty((len(lines), SUMMARY), np.float32)
    own = []
    for i, line in enumerate(lines):
        n = encode_line(0, line, len(line), rows.ctypes.data, MAX_ROWS, summary.ctypes.data + i * SUMMARY * 4, detail, 256)
        if n < 0:
            raise ValueError(detail.value.decode())
        own.append(rows[:n].copy())
    longest = max(len(r) for r in own)
    x, mask = np.zeros((len(own), longest, COLS), np.float32), np.zeros((len(own), longest), np.float32)
    for i, r in enumerate(own):
        x[i, :len(r)] = r
        mask[i, :len(r)] = 1
    return torch.from_numpy(x), torch.from_numpy(mask), torch.from_numpy(summary)


@app.post("/predict")
async def predict(request: Request):
    lines = [line for line in (await request.body()).split(b"\n") if line]
    for line in lines:
        json.loads(line)
    x, mask, summary = encode(lines)
    with torch.inference_mode():
        out = torch.cat([model(x[i:i + BLOCK], mask[i:i + BLOCK], summary[i:i + BLOCK])
                         for i in range(0, len(lines), BLOCK)]).double()
        scores = torch.sigmoid(calibration["a"] * out[:, 0] + calibration["b"]).clamp(1e-6, 1 - 1e-6)
        latency = torch.exp(out[:, 1] + calibration["latency_shift"])
    return JSONResponse({"scores": scores.tolist(), "latency_seconds": latency.tolist(), "errors": []})


class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets=sockets)
        port = self.servers[0].sockets[0].getsockname()[1]
        loop = type(__import__("asyncio").get_running_loop()).__module__.split(".")[0]
        print("ready", port, "FastAPI, uvicorn", uvicorn.__version__, "on", loop, "+ PyTorch", torch.__version__, flush=True)


def end_with_stdin():
    sys.stdin.read()
    os._exit(0)


threading.Thread(target=end_with_stdin, daemon=True).start()
Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", access_log=False)).run()
