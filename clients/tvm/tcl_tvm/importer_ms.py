"""`python3 -m tcl_tvm import-ms`: MetaSchedule databases into tcld, without TVM.

A database is the folder (work_dir) with database_workload.json and database_tuning_record.json. The hardware, NAME.ms, is
registered from the first record's target when tcld does not know it.
"""
import argparse
import json
import os
import sys
from typing import Any, Dict, List, Optional, Sequence

from .http import Client, Refused
from .ms_records import describe_target

BATCH = 500  # records of one request


class Importer:
    def __init__(self, client: Client, hardware: str, agent: Optional[str] = None) -> None:
        self.client, self.agent = client, agent
        self.hardware = hardware if hardware.endswith(".ms") else hardware + ".ms"
        self.counts = {"accepted": 0, "duplicates": 0, "rejected": 0}

    def _ensure_hardware(self, texts: Sequence[str]) -> None:
        try:
            self.client.call("GET", "/v1/hardware/" + self.hardware)
        except Refused as refused:
            target = None
            for text in texts:
                try:
                    target = target or json.loads(text)[1][2]
                except (ValueError, LookupError, TypeError):
                    continue
            if refused.problem != "unknown-hardware" or target is None:
                raise
            self.client.call("PUT", "/v1/hardware/" + self.hardware, describe_target(target))
            print("hardware %s is registered" % self.hardware, file=sys.stderr)

    def folder(self, path: str) -> None:
        with open(os.path.join(path, "database_workload.json"), encoding="utf-8") as f:
            workloads = [json.loads(line)[0] for line in f if line.strip()]
        log = os.path.join(path, "database_tuning_record.json")
        with open(log, encoding="utf-8") as f:
            lines = [(number, line.strip()) for number, line in enumerate(f, 1) if line.strip()]
        if lines:
            self._ensure_hardware([text for _, text in lines])
        for at in range(0, len(lines), BATCH):
            self._batch(log, workloads, lines[at:at + BATCH])
        print("%s: %s so far" % (path, ", ".join("%d %s" % (v, k) for k, v in self.counts.items())), file=sys.stderr)

    def _batch(self, log: str, workloads: List[str], lines: List[Any]) -> None:
        good = []
        for number, text in lines:
            try:
                json.loads(text)
                good.append((number, text))
            except ValueError as error:  # a line cut off: it would spoil the others
                self.counts["rejected"] += 1
                print("%s:%d: bad-json: %s" % (log, number, error), file=sys.stderr)
        if not good:
            return
        body = '{"format": "metaschedule", "workloads": %s, "records": [%s]}' % (
            json.dumps(workloads), ", ".join(text for _, text in good))
        path = "/v1/hardware/%s/measurements%s" % (self.hardware, "?agent=" + self.agent if self.agent else "")
        reply: Dict[str, Any] = self.client.call("POST", path, body.encode())
        for key in self.counts:
            self.counts[key] += reply[key]
        for why in reply["errors"]:
            print("%s:%d: %s: %s" % (log, good[why["index"]][0], why["code"], why["detail"]), file=sys.stderr)


def main(argv: Optional[Sequence[str]] = None) -> None:
    p = argparse.ArgumentParser(prog="tcl_tvm import-ms", description="Bring MetaSchedule databases into tcld.")
    p.add_argument("--url", help="of tcld; default: $TCLD_URL or http://127.0.0.1:8723")
    p.add_argument("--hardware", required=True, help="its name in tcld; \".ms\" is added")
    p.add_argument("--agent", help="who measured")
    p.add_argument("folder", nargs="+", help="a work_dir of MetaSchedule")
    a = p.parse_args(argv)
    importer = Importer(Client(a.url, patience=60), a.hardware, a.agent)
    try:
        for path in a.folder:
            importer.folder(path)
    except (OSError, ValueError, Refused) as error:
        sys.exit("tcl_tvm import-ms: %s" % error)
    print(json.dumps(importer.counts))
    sys.exit(1 if importer.counts["rejected"] else 0)
