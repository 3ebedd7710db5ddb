"""TCLModel and MeasureToTcld against a real tcld, with recorded searches; no TVM is needed (stand_in.py)."""
import array
import ast
import glob
import json
import logging
import math
import os
import shutil
import subprocess
import threading
import time
import unittest

import common
import stand_in

stand_in.install()
from tcl_tvm import MeasureToTcld, TCLModel
from tcl_tvm.model import join_states, split_input

HARDWARE = "host"


class Constant:
    """A local model."""

    def __init__(self):
        self.updates = 0

    def predict(self, task, states):
        return [0.25] * len(states)

    def update(self, inputs, results):
        self.updates += len(inputs)


class WithDaemon(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = common.Daemon()
        cls.daemon.teach(HARDWARE)

    @classmethod
    def tearDownClass(cls):
        status = cls.daemon.stop()
        assert status == 0, "tcld ended with status %d" % status

    def model(self, hardware=HARDWARE, **options):
        made = TCLModel(hardware, self.daemon.url, **options)
        self.addCleanup(made.close)
        return made


class Scores(WithDaemon):
    def by_curl(self, path, *options):
        """What curl gets for a recorded call, posting the log as it is."""
        url = "%s/v1/hardware/%s/predict" % (self.daemon.url, HARDWARE)
        lines = "".join(common.lines_of(path)).encode()
        return subprocess.run(["curl", "-sS", "--data-binary", "@-", "-H", "Content-Type: application/x-ndjson", url]
                              + list(options), input=lines, stdout=subprocess.PIPE, check=True).stdout

    @unittest.skipUnless(shutil.which("curl"), "curl is not there")
    def test_are_those_that_curl_gets_for_recorded_batches(self):
        self.assertGreater(len(common.BATCHES), 0)
        for path in common.BATCHES:
            task, states = common.recorded(path)
            self.assertGreater(len(states), 1000)
            model = self.model()
            scores = model.predict(task, states)
            printed = json.loads(self.by_curl(path).decode())["scores"]
            self.assertLess(max(abs(a - b) for a, b in zip(scores, printed)), 1e-7)  # 9 digits, and a float's 24 bits
            exact = array.array("f", self.by_curl(path, "-H", "Accept: application/octet-stream"))
            self.assertEqual(scores, list(exact[:len(states)]))
            self.assertEqual((model.asked, model.fell_back, model.model_id), (1, 0, 1))

    def test_do_not_depend_on_packing(self):
        task, states = common.recorded(common.BATCHES[0], 50)
        plain, packed = self.model(), self.model()
        plain.client.gzip_over, packed.client.gzip_over = 1 << 30, 0
        self.assertEqual(plain.predict(task, states), packed.predict(task, states))
        self.assertEqual(plain.fell_back + packed.fell_back, 0)

    def test_of_an_unusable_state_is_minus_infinity(self):
        task, states = common.recorded(common.BATCHES[0], 3)
        states[1] = stand_in.State([[], [["XX", 1]]])
        scores = self.model().predict(task, states)
        self.assertEqual(scores[1], -math.inf)
        self.assertTrue(0 < scores[0] < 1 and 0 < scores[2] < 1)

    def test_of_stages_are_the_scores_and_counts_of_zero(self):
        task, states = common.recorded(common.BATCHES[0], 5)
        packed = self.model().predict_stages(task, states)
        self.assertEqual(packed.shape, (10,))
        self.assertEqual(list(packed[:5]), self.model().predict(task, states))
        self.assertEqual(list(packed[5:]), [0] * 5)

    def test_of_no_states_are_none(self):
        self.assertEqual(self.model().predict(common.recorded(common.BATCHES[0], 1)[0], []), [])

    def test_come_on_one_connection(self):
        task, states = common.recorded(common.BATCHES[0], 2)
        model = self.model()
        model.predict(task, states)
        first = model.client._connection.sock
        model.predict(task, states)
        self.assertIs(model.client._connection.sock, first)

    def test_come_with_names_at_the_other_places(self):
        stand_in.install(old_layout=True)
        self.addCleanup(stand_in.install)
        from tcl_tvm.model import TCLModel as OldModel

        task, states = common.recorded(common.BATCHES[0], 4)
        old = OldModel(HARDWARE, self.daemon.url)
        self.addCleanup(old.close)
        self.assertEqual(old.predict(task, states), self.model().predict(task, states))

    def test_of_eight_searches_at_once_are_those_of_one(self):
        calls = [common.recorded(path) for path in common.BATCHES]
        one = self.model()
        want = [one.predict(*call) for call in calls]
        wrong, done = [], []

        def search(i):
            model = TCLModel(HARDWARE, self.daemon.url)
            for k in range(6):
                n = (i + k) % len(calls)
                if model.predict(*calls[n]) != want[n] or model.fell_back:
                    wrong.append((i, k))
            model.update(*common.measured(common.DEMO[i]))
            model.close(30)
            done.append(model.poster.accepted + model.poster.duplicates)

        threads = [threading.Thread(target=search, args=(i,)) for i in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])
        self.assertEqual(sorted(done), sorted(len(common.lines_of(common.DEMO[i])) for i in range(8)))


class Trouble(WithDaemon):
    def test_a_search_outlives_the_daemon_and_comes_back_to_it(self):
        task, states = common.recorded(common.BATCHES[0], 200)
        model = self.model(retry_seconds=0.3)
        before = model.predict(task, states)
        with self.assertLogs("tcl_tvm", logging.WARNING) as logs:
            self.daemon.kill()
            for _ in range(5):
                scores = model.predict(task, states)
                self.assertEqual(len(scores), 200)
                self.assertTrue(all(0 <= x <= 1 for x in scores))
                self.assertNotEqual(scores, before)
            model.update(*common.measured(common.DEMO[0], 10))
            self.daemon.start()
            time.sleep(0.4)
            self.assertEqual(model.predict(task, states), before)
            self.assertEqual(model.fell_back, 5)
            self.assertTrue(model.poster.flush(30))
        self.assertEqual(model.poster.duplicates, 10)
        told = [line for line in logs.output if "scores" in line or "answers again" in line]
        self.assertEqual(len(told), 2, logs.output)

    def test_unknown_hardware_is_registered_from_the_task(self):
        task, states = common.recorded(common.BATCHES[0], 2)
        with self.assertLogs("tcl_tvm", logging.WARNING) as logs:  # it has no model yet
            self.assertEqual(len(self.model("new-one").predict(task, states)), 2)
        got = self.daemon.call("GET", "/v1/hardware/new-one")
        self.assertEqual((got["target"], got["kind"]), (task.array[1], "cpu"))
        self.assertEqual(got["descriptor"]["vector_unit_bytes"], 64)
        self.assertNotIn("unknown-hardware", logs.output[0])
        self.assertEqual(len(logs.output), 1)

    def test_known_hardware_is_left_as_it_is(self):
        task, states = common.recorded(common.BATCHES[0], 2)
        self.model().predict(task, states)
        self.assertEqual(self.daemon.call("GET", "/v1/hardware/" + HARDWARE)["target"], "llvm -mcpu=skylake-avx512")

    def test_hardware_is_not_registered_when_that_is_not_wanted(self):
        task, states = common.recorded(common.BATCHES[0], 2)
        with self.assertLogs("tcl_tvm", logging.WARNING) as logs:
            self.model("never", register=False).predict(task, states)
        self.assertIn("never", logs.output[0])
        names = [h["name"] for h in self.daemon.call("GET", "/v1/hardware")["items"]]
        self.assertNotIn("never", names)

    def test_measurements_reach_tcld_by_update_and_by_callback_and_count_once(self):
        inputs, results = common.measured(common.DEMO[2], 40)
        self.daemon.call("PUT", "/v1/hardware/fresh", {"target": "llvm"})
        model, callback = self.model("fresh", agent="tuner-1"), MeasureToTcld("fresh", self.daemon.url)
        model.update(inputs[:30], results[:30])
        self.assertTrue(model.poster.flush(30))
        callback.callback(None, inputs, results)
        self.assertTrue(callback.poster.close(30))
        self.assertEqual((model.poster.accepted, callback.poster.accepted, callback.poster.duplicates), (30, 10, 30))
        self.assertEqual(self.daemon.call("GET", "/v1/hardware/fresh")["counts"]["measurements"], 40)

    def test_a_record_that_is_refused_is_told_and_does_not_hold_up_the_others(self):
        inputs, results = common.measured(common.DEMO[2], 3)
        inputs[1].state = stand_in.State([[], [["XX"]]])
        self.daemon.call("PUT", "/v1/hardware/picky", {"target": "llvm"})
        model = self.model("picky")
        with self.assertLogs("tcl_tvm", logging.WARNING) as logs:
            model.update(inputs, results)
            self.assertTrue(model.poster.flush(30))
        self.assertEqual((model.poster.accepted, model.poster.rejected), (2, 1))
        self.assertIn("XX", logs.output[0])


class WithoutDaemon(unittest.TestCase):
    """A canned server shows what is sent and answers what no tcld would."""

    def model(self, url, **options):
        made = TCLModel(HARDWARE, url, **options)
        self.addCleanup(made.close, 0)
        return made

    def call(self, n=3):
        return common.recorded(common.BATCHES[0], n)

    def test_an_answer_of_the_wrong_length_is_not_used(self):
        for size in (0, 23, 25, 16):
            with common.canned((200, b"\0" * size)) as server:
                with self.assertLogs("tcl_tvm", logging.WARNING) as logs:
                    self.assertEqual(self.model(server.url, fallback=Constant()).predict(*self.call()), [0.25] * 3)
                self.assertIn("%d bytes" % size, logs.output[0])

    def test_a_late_answer_is_not_waited_for(self):
        with common.canned("late") as server, self.assertLogs("tcl_tvm", logging.WARNING):
            began = time.monotonic()
            self.assertEqual(self.model(server.url, timeout=0.2, fallback=Constant()).predict(*self.call()), [0.25] * 3)
            self.assertLess(time.monotonic() - began, 1.2)

    def test_after_a_failure_the_daemon_is_left_alone_for_a_while(self):
        with common.canned(None) as server, self.assertLogs("tcl_tvm", logging.WARNING) as logs:
            model = self.model(server.url, retry_seconds=60)
            for _ in range(4):
                model.predict(*self.call())
            self.assertEqual((len(server.asked), model.fell_back, len(logs.output)), (1, 4, 1))

    def test_the_task_is_sent_once_and_long_bodies_are_packed(self):
        import gzip

        task, states = self.call(1000)
        with common.canned((200, b"\0" * 8000)) as server:
            self.assertEqual(self.model(server.url, token="secret").predict(task, states), [0.0] * 1000)
            path, headers, body = server.asked[0]
        self.assertEqual(path, "/v1/hardware/host/predict")
        self.assertEqual(headers["Content-Encoding"], "gzip")
        self.assertEqual(headers["Authorization"], "Bearer secret")
        sent = json.loads(gzip.decompress(body).decode())
        self.assertEqual(sent, {"task": task.array, "states": [s.array for s in states]})

    def test_nobody_there_is_no_reason_to_fail(self):
        local = Constant()
        with self.assertLogs("tcl_tvm", logging.WARNING):
            model = self.model("http://127.0.0.1:1", fallback=local)
            self.assertEqual(model.predict(*self.call()), [0.25] * 3)
            model.update(*common.measured(common.DEMO[0], 5))
            self.assertEqual(local.updates, 5)
            model.close(0)
        self.assertEqual(model.poster.dropped, 5)

    def test_the_queue_of_measurements_has_an_end(self):
        with common.canned((503, b"")) as server, self.assertLogs("tcl_tvm", logging.WARNING) as logs:
            model = self.model(server.url)
            model.poster.most, model.poster.pause = 10, 0.05
            for _ in range(3):
                model.update(*common.measured(common.DEMO[0], 8))
            self.assertEqual((model.poster.waiting(), model.poster.dropped), (10, 14))
            server.reply = (200, b'{"accepted": 10, "duplicates": 0, "rejected": 0, "errors": []}')
            self.assertTrue(model.poster.flush(10))
            self.assertEqual(len([line for line in logs.output if "dropped" in line]), 1)

    def test_an_address_that_is_none_is_told_at_once(self):
        with self.assertRaises(ValueError):
            TCLModel(HARDWARE, "tcld.example:8723")


class Text(unittest.TestCase):
    def test_of_an_input_is_taken_apart_whatever_its_blanks(self):
        for text in ('[["k", "llvm"], [[], []]]', '[ ["k", "llvm"] , [[], []] ]', '[["k","llvm"],[[],[]]]'):
            task, state = split_input(text)
            self.assertEqual((json.loads(task), json.loads(state)), (["k", "llvm"], [[], []]))
            self.assertEqual(json.loads(join_states([text, text]).decode()),
                             {"task": ["k", "llvm"], "states": [[[], []]] * 2})

    def test_of_two_tasks_does_not_go_together(self):
        with self.assertRaises(ValueError):
            join_states(['[["k", "llvm"], [[], []]]', '[["other", "llvm"], [[], []]]'])

    def test_of_the_package_is_python_3_7(self):
        files = glob.glob(os.path.join(common.ROOT, "clients", "tvm", "**", "*.py"), recursive=True)
        self.assertGreater(len(files), 8)
        for path in files:
            with open(path, encoding="utf-8") as f:
                ast.parse(f.read(), path, feature_version=(3, 7))


if __name__ == "__main__":
    unittest.main()
