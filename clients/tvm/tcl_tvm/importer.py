"""`python3 -m tcl_tvm import`: Ansor logs into tcld, without TVM. Plain files, .gz, and "-" for standard input.

The hardware is registered from the first record's target and hardware parameters when tcld does not know it.
"""
import argparse
import gzip
import json
import sys
from typing import IO, Iterator, List, Optional, Sequence, Tuple

from .hardware import describe_line
from .http import Client, Refused

BATCH_BYTES = 4 << 20


def open_log(path: str) -> IO[bytes]:
    if path == "-":
        return sys.stdin.buffer
    return gzip.open(path) if path.endswith(".gz") else open(path, "rb")  # type: ignore[return-value]


def batches(log: IO[bytes], most: int = BATCH_BYTES) -> Iterator[Tuple[int, bytes]]:
    """(number of the first line, whole lines)"""
    first, number, size = 1, 0, 0
    lines: List[bytes] = []
    for line in log:
        number += 1
        lines.append(line if line.endswith(b"\n") else line + b"\n")
        size += len(line)
        if size >= most:
            yield first, b"".join(lines)
            first, size, lines = number + 1, 0, []
    if lines:
        yield first, b"".join(lines)


class Importer:
    def __init__(self, client: Client, hardware: str, agent: Optional[str] = None) -> None:
        self.client, self.hardware, self.agent = client, hardware, agent
        self.accepted = self.duplicates = self.rejected = 0

    def ensure_hardware(self, lines: bytes) -> None:
        try:
            self.client.call("GET", "/v1/hardware/" + self.hardware)
        except Refused as refused:
            found = [d for d in map(describe_line, lines.splitlines()) if d is not None]
            if refused.problem != "unknown-hardware" or not found:
                raise
            self.client.call("PUT", "/v1/hardware/" + self.hardware, found[0])
            print("hardware %s is registered: %s" % (self.hardware, found[0]["target"]), file=sys.stderr)

    def file(self, path: str) -> None:
        with open_log(path) as log:
            for first, lines in batches(log):
                if not self.accepted + self.duplicates + self.rejected:
                    self.ensure_hardware(lines)
                reply = self.client.post(self.hardware, self.agent, lines)
                self.accepted += reply["accepted"]
                self.duplicates += reply["duplicates"]
                self.rejected += reply["rejected"]
                for error in reply["errors"]:
                    print("%s:%d: %s: %s" % (path, first + error["line"] - 1, error["code"], error["detail"]),
                          file=sys.stderr)
        print("%s: %d accepted, %d duplicates, %d rejected so far" % (path, self.accepted, self.duplicates,
                                                                      self.rejected), file=sys.stderr)


def main(argv: Optional[Sequence[str]] = None) -> None:
    p = argparse.ArgumentParser(prog="tcl_tvm import", description="Bring Ansor logs into tcld.")
    p.add_argument("--url", help="of tcld; default: $TCLD_URL or http://127.0.0.1:8723")
    p.add_argument("--hardware", required=True, help="its name in tcld")
    p.add_argument("--agent", help="who measured")
    p.add_argument("file", nargs="+", help='an Ansor log, plain or .gz, "-" for standard input')
    a = p.parse_args(argv)
    importer = Importer(Client(a.url, patience=60), a.hardware, a.agent)
    try:
        for path in a.file:
            importer.file(path)
    except (OSError, EOFError, Refused) as error:
        sys.exit("tcl_tvm import: %s" % error)
    print(json.dumps({"accepted": importer.accepted, "duplicates": importer.duplicates, "rejected": importer.rejected}))
    sys.exit(1 if importer.rejected else 0)
