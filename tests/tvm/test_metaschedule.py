"""TCLCostModel against a real tcld, with composed records (tests/data/metaschedule); no TVM is needed (stand_in.py)."""
import gzip
import json
import logging
import os
import tempfile
import time
import unittest

import common
import stand_in
from test_commands import run

from tcl_tvm.ms_records import body_of_measured, to_tuning_record

DATA = os.path.join(common.ROOT, "tests", "data", "metaschedule")
HARDWARE = "host"


def cost_model(moved=False):
    stand_in.install_metaschedule(moved)
    from tcl_tvm.metaschedule import TCLCostModel

    return TCLCostModel


def load(name="cpu"):
    with gzip.open(os.path.join(DATA, name + ".json.gz")) as f:
        return json.loads(f.read().decode())


class Search:
    """What a search over one workload of the data calls."""

    def __init__(self, data, index):
        self.records = [r for i, r in data["records"] if i == index]
        self.name = data["workloads"][index][0]
        self.context = stand_in.context(self.name, self.records[0])
        self.candidates = [stand_in.candidate(r) for r in self.records]
        self.results = [stand_in.runner_result(r) for r in self.records]


class WithDaemon(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = common.Daemon()
        cls.data = load()

    @classmethod
    def tearDownClass(cls):
        assert cls.daemon.stop() == 0

    def model(self, hardware=HARDWARE, moved=False, **options):
        made = cost_model(moved)(hardware, self.daemon.url, **options)
        self.addCleanup(made.close)
        return made

    def measurements(self, hardware):
        return self.daemon.call("GET", "/v1/hardware/" + hardware)["counts"]["measurements"]

    def test_a_search_reports_trains_and_gets_the_scores_of_the_daemon(self):
        first, second = self.model(), self.model(moved=True)
        searches = [Search(self.data, i) for i in range(4)]
        with self.assertLogs("tcl_tvm", logging.WARNING) as logs:  # registered, but no model yet
            scores = first.predict(searches[0].context, searches[0].candidates)
        self.assertEqual((len(scores), len(logs.output)), (80, 1))
        self.assertEqual(self.daemon.call("GET", "/v1/hardware/host.ms")["descriptor"], {"num_cores": 16})
        for s in searches[:3]:
            first.update(s.context, s.candidates, s.results)
        self.assertTrue(first.poster.flush(30))
        self.assertEqual(self.measurements("host.ms"), 240)

        job = self.daemon.call("POST", "/v1/hardware/host.ms/retrain", {"mode": "finetune", "epochs": 3})
        while job["state"] in ("queued", "running"):
            time.sleep(0.1)
            job = self.daemon.call("GET", "/v1/jobs/%d" % job["id"])
        self.assertEqual(job["state"], "succeeded")

        s = searches[3]
        got = list(second.predict(s.context, s.candidates))
        body = {"format": "metaschedule", "workloads": self.data["workloads"],
                "records": [[3, r] for r in s.records]}
        want = self.daemon.call("POST", "/v1/hardware/host/predict", body)["scores"]
        self.assertLess(max(abs(a - b) for a, b in zip(got, want)), 1e-7)
        self.assertEqual((second.asked, second.fell_back), (1, 0))
        self.assertIn("host.ms", str(first))

    def test_both_namespaces_and_both_kinds_of_base_class_do(self):
        for moved in (False, True):
            model = self.model("ns", moved)
            s = Search(self.data, 0)
            model.update(s.context, s.candidates[:5], s.results[:5])
            with self.assertLogs("tcl_tvm", logging.WARNING):
                self.assertEqual(len(model.predict(s.context, s.candidates)), 80)
            self.assertTrue(model.poster.flush(30))
            self.assertTrue(model.made)
        self.assertEqual(self.measurements("ns.ms"), 5)

    def test_a_failed_run_is_a_failure(self):
        model, s = self.model("fails"), Search(self.data, 0)
        with self.assertLogs("tcl_tvm", logging.WARNING):
            model.predict(s.context, s.candidates[:1])
        model.update(s.context, s.candidates[:1], [stand_in.Thing(run_secs=None, error_msg="no")])
        self.assertTrue(model.poster.flush(30))
        self.assertEqual(self.daemon.call("GET", "/v1/hardware/fails.ms")["counts"]["failures"], 1)

    def test_no_candidates_no_scores(self):
        self.assertEqual(len(self.model().predict(Search(self.data, 0).context, [])), 0)

    def test_a_trace_comes_back_from_tcld_as_it_went_in(self):
        records = [[0, self.data["records"][i][1]] for i in (0, 7, 79)]
        self.daemon.call("PUT", "/v1/hardware/back.ms", {"target": "llvm"})
        body, kind = body_of_measured([("w", r) for _, r in records])
        self.daemon.call("POST", "/v1/hardware/back/measurements", body, kind)
        import urllib.request

        with urllib.request.urlopen(self.daemon.url + "/v1/hardware/back.ms/measurements") as reply:
            lines = reply.read().decode().splitlines()
        self.assertEqual([to_tuning_record(json.loads(line)) for line in lines], [("w", r) for _, r in records])

    def test_databases_are_imported_and_bad_lines_named(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "database_workload.json"), "w") as f:
                f.writelines(json.dumps(w) + "\n" for w in self.data["workloads"])
            with open(os.path.join(folder, "database_tuning_record.json"), "w") as f:
                f.writelines(json.dumps(r) + "\n" for r in self.data["records"][:30])
                f.write('[99, [[[], []], null, null, null]]\n[0, [[[["Get')
            got = run("import-ms", "--url", self.daemon.url, "--hardware", "db", folder)
            self.assertEqual(got.returncode, 1, got.stderr)
            self.assertEqual(json.loads(got.stdout.decode()), {"accepted": 30, "duplicates": 0, "rejected": 2})
            self.assertIn(b"database_tuning_record.json:31: bad-task", got.stderr)
            self.assertIn(b"database_tuning_record.json:32: bad-json", got.stderr)
        self.assertEqual(self.measurements("db.ms"), 30)

    def test_a_search_outlives_the_daemon(self):
        s = Search(load("cuda"), 1)
        with self.assertLogs("tcl_tvm", logging.WARNING) as logs:
            model = cost_model()("gone", "http://127.0.0.1:1")
            for _ in range(3):
                self.assertEqual(len(model.predict(s.context, s.candidates)), 80)
            model.close(0)
        self.assertEqual((model.fell_back, len(logs.output)), (3, 1))


if __name__ == "__main__":
    unittest.main()
