"""The measurement agent against a real tcld: as a program, and its Agent with functions in TVM's place."""
import contextlib
import io
import math
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

import common
import stand_in

from tcl_tvm.agent import Agent, Lease, Trouble, TvmMeasure, failed
from tcl_tvm.http import Client

LINES = common.lines_of(common.DEMO[0])
SOON = 30  # seconds; an upper bound of what takes a moment


def cost(*costs):
    return {"costs": list(costs), "error_no": 0, "all_cost": 0.1, "timestamp": 1700000000}


def good(records):
    return [cost(0.001) for _ in records]


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = common.Daemon()

    @classmethod
    def tearDownClass(cls):
        assert cls.daemon.stop() == 0

    def select(self, n):
        """Hardware named after the test, with n programs selected."""
        self.hardware = self._testMethodName.replace("_", "-")[:60].strip("-")
        self.daemon.select(self.hardware, LINES[:n])

    def counts_are(self, **wanted):
        names = ("selected", "leased", "measured", "failed")
        self.assertEqual(dict(zip(names, self.daemon.counts(self.hardware))), dict(dict.fromkeys(names, 0), **wanted))

    def wait_for(self, what):
        end = time.monotonic() + SOON
        while not what():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)


class OfFunctions(Case):
    def agent(self, measure, stop=None, idle=0.01, **options):
        client = Client(self.daemon.url, patience=5, stop=stop)
        self.addCleanup(client.close)
        return Agent(client, self.hardware, "a", measure, idle=idle, **options)

    def run_agent(self, agent, forever=False):
        """What it says."""
        with contextlib.redirect_stderr(io.StringIO()) as said:
            agent.run(forever)
        return said.getvalue()

    def ends_in_trouble(self, agent):
        with self.assertRaises(Trouble) as trouble, contextlib.redirect_stderr(io.StringIO()) as said:
            agent.run(forever=False)
        return said.getvalue() + str(trouble.exception)

    # ---- what cannot be measured here ----

    def test_a_first_batch_that_raises_as_a_whole_ends_it_and_posts_nothing(self):
        def broken(records):
            raise OSError("no compiler here")

        self.select(6)
        said = self.ends_in_trouble(self.agent(broken, batch=4))
        self.assertIn("no compiler here", said)
        self.assertIn("first batch", said)
        self.counts_are(selected=6)

    def test_so_does_one_of_programs_that_are_all_refused(self):
        self.select(6)
        self.ends_in_trouble(self.agent(lambda records: [None] * len(records), batch=4))
        self.counts_are(selected=6)

    def test_a_few_refused_programs_are_left_to_others_and_asked_about_once(self):
        asked = []

        def picky(records):
            asked.extend(map(str, records))
            return [None if str(r) in unknown else cost(0.001) for r in records]

        self.select(20)
        lease = self.daemon.call("POST", "/v1/hardware/%s/leases" % self.hardware, {"agent": "x", "max": 3})
        unknown = {str(c["record"]) for c in lease["candidates"]}
        self.daemon.call("DELETE", "/v1/leases/" + lease["lease"])
        agent = self.agent(picky, most=6, batch=5)
        self.assertIn("3 selected programs cannot be measured here", self.ends_in_trouble(agent))
        self.assertEqual((len(asked), len(set(asked))), (20, 20))
        self.counts_are(selected=3, measured=17)

    def test_refused_programs_do_not_hide_the_others_however_many_they_are(self):
        turn = iter(range(1000))
        self.select(30)
        agent = self.agent(lambda records: [None if next(turn) % 2 else cost(0.001) for _ in records], most=2, batch=2)
        self.ends_in_trouble(agent)
        self.counts_are(selected=15, measured=15)

    def test_nor_do_they_when_they_stand_together(self):
        self.select(24)
        seen = []

        def picky(records):
            seen.extend(r["i"] for r in records if r["i"] not in seen)
            return [None if seen.index(r["i"]) < 8 else cost(0.001) for r in records]

        agent = self.agent(picky, most=4, batch=2, ttl=1)
        self.assertIn("8 selected programs cannot be measured here", self.ends_in_trouble(agent))
        self.counts_are(selected=8, measured=16)

    def test_it_asks_less_and_less_where_only_refused_ones_are_left(self):
        class Stop(threading.Event):
            """Set when it was waited for seven times, for no time."""
            pauses = []

            def wait(self, timeout=None):
                self.pauses.append(timeout)
                if len(self.pauses) == 7:
                    self.set()

        self.select(4)
        agent = self.agent(lambda records: [None] + good(records[1:]), stop=Stop(), batch=4, idle=4)
        self.run_agent(agent, forever=True)
        self.assertEqual(Stop.pauses, [4, 8, 16, 32, 60, 60, 60])
        self.counts_are(selected=1, measured=3)

    def test_three_failing_batches_in_a_row_end_it_and_a_good_one_begins_anew(self):
        outcomes, asked = iter("+--+---"), []

        def moody(records):
            if len(records) == 1 and asked[-1] == "-":  # once more, one by one
                raise OSError("no device")
            asked.append(next(outcomes))
            if asked[-1] == "-":
                raise OSError("no device")
            return good(records)

        self.select(20)
        said = self.ends_in_trouble(self.agent(moody, most=2, batch=2))
        self.assertIn("3 batches in a row", said)
        self.assertIn("next try in", said)
        self.assertEqual("".join(asked), "+--+---")
        self.counts_are(selected=16, measured=4)

    def test_of_a_batch_that_raises_the_program_at_fault_is_found(self):
        bad = []

        def poisoned(records):
            bad[:] = bad or [str(records[1])]
            if bad[0] in map(str, records):
                raise OSError("stack smashed")
            return good(records)

        self.select(8)
        agent = self.agent(poisoned, batch=4)
        self.assertIn("1 selected programs", self.ends_in_trouble(agent))
        self.counts_are(selected=1, measured=7)

    def test_failures_of_programs_are_posted(self):
        self.select(4)
        agent = self.agent(lambda records: [failed(4) for _ in records], batch=1)
        self.run_agent(agent)
        self.assertEqual((agent.measured, agent.failures), (4, 4))
        self.counts_are(failed=4)

    # ---- results that tcld rejects ----

    def test_a_rejected_result_is_told_and_becomes_a_failure(self):
        for value in (0.0, -1.0, math.nan, math.inf):
            with self.subTest(value):
                self.hardware = "rejected%d" % id(value)
                self.daemon.select(self.hardware, LINES[:4])
                agent = self.agent(lambda records: [cost(value)] + good(records[1:]), batch=4)
                said = self.run_agent(agent)
                self.assertIn("is rejected: ", said)
                self.counts_are(measured=3, failed=1)
                self.assertEqual((agent.measured, agent.failures), (4, 1))

    def test_one_that_is_rejected_as_a_failure_too_is_given_back_and_left(self):
        self.select(4)
        agent = self.agent(lambda records: [cost(0)] + good(records[1:]), batch=4)
        post = agent.client.post
        agent.client.post = lambda hw, name, body: post(hw, name, body.replace(b"[10000000000.0], 8", b"[], 0"))
        self.ends_in_trouble(agent)
        self.counts_are(selected=1, measured=3)

    # ---- leases ----

    def test_a_lease_that_is_gone_is_dropped(self):
        self.select(8)
        agent = self.agent(None, batch=3)
        ask, tokens, others = agent.client.lease, [], []

        def spied(*args):
            reply = ask(*args)
            tokens.append(reply["lease"])
            return reply

        def overtaken(records):
            self.daemon.call("DELETE", "/v1/leases/" + tokens[0])
            others.append(self.daemon.call("POST", "/v1/hardware/%s/leases" % self.hardware, {"agent": "b"}))
            return good(records)

        agent.client.lease, agent.measure = spied, overtaken
        said = self.run_agent(agent)
        self.assertIn("is gone", said)
        self.assertEqual(agent.measured, 3)
        self.assertEqual(len(others), 1)
        self.assertEqual(sum(self.daemon.counts(self.hardware)), 8)
        self.assertEqual(self.daemon.counts(self.hardware)[2], 3)

    def test_a_long_batch_finds_out_too(self):
        self.select(4)
        agent = self.agent(None, batch=2, ttl=1)
        ask, leases = agent.client.lease, []

        def spied(*args):
            leases.append(ask(*args)["lease"])
            return {"lease": "0123", "candidates": [{"id": 1, "record": {"i": []}}]}

        agent.client.lease = spied

        gone, renew = threading.Event(), Lease.renew

        def renewed(lease, client):
            renew(lease, client)
            if lease.lost:
                gone.set()

        Lease.renew = renewed
        self.addCleanup(setattr, Lease, "renew", renew)

        def long(records):
            gone.wait(SOON)
            agent.stop.set()
            return [None]

        agent.measure = long
        said = self.run_agent(agent)
        self.assertIn("lease 0123 is gone", said)

    def test_it_asks_for_as_many_as_tcld_gives(self):
        daemon = common.Daemon("--limit-lease-candidates=10")
        try:
            daemon.select("few", LINES[:25])
            client = Client(daemon.url, patience=5)
            agent = Agent(client, "few", "a", good)
            agent.run(forever=False)
            client.close()
            self.assertEqual((agent.leases, daemon.counts("few")), (3, (0, 0, 25, 0)))
        finally:
            daemon.stop()

    def test_told_to_stop_it_posts_what_is_measured_and_no_failure(self):
        def stopped(records):
            agent.stop.set()
            return [cost(0.001), failed(4), None, cost(0)]

        self.select(6)
        agent = self.agent(stopped, batch=4)
        self.run_agent(agent)
        self.counts_are(selected=5, measured=1)


class OfTvm(unittest.TestCase):
    def measure(self, *results, registered=True):
        results = iter(results)
        stand_in.install_measuring(lambda name: registered, lambda inp: next(results))
        self.addCleanup(stand_in.install)
        with contextlib.redirect_stderr(io.StringIO()) as said:
            got = TvmMeasure()([{"i": [['["w", 1]', "llvm"], [[], []]]}] * 2)
        return got, said.getvalue()

    def test_results_are_those_of_the_runner(self):
        got, _ = self.measure(stand_in.MeasureResult([0.5, 0.25], 0, 1.5, 17), stand_in.MeasureResult([1e10], 7, 2, 18))
        self.assertEqual(got, [{"costs": [0.5, 0.25], "error_no": 0, "all_cost": 1.5, "timestamp": 17},
                               {"costs": [1e10], "error_no": 7, "all_cost": 2, "timestamp": 18}])

    def test_costs_that_are_none_are_an_unknown_error(self):
        for costs in ([0.0], [], [0.5, math.nan], [math.inf], [-1.0]):
            got, _ = self.measure(*[stand_in.MeasureResult(costs, 0, 1, 17)] * 2)
            self.assertEqual([(r["costs"], r["error_no"]) for r in got], [([1e10], 8)] * 2)

    def test_what_it_cannot_rebuild_has_no_result(self):
        got, said = self.measure(registered=False)
        self.assertEqual(got, [None, None])
        self.assertIn('a program of ["w", 1]: ValueError: ["w", 1] is not registered', said)
        self.assertIn("--import", said)

    def test_a_device_that_is_away_is_no_failure_of_programs(self):
        away = stand_in.MeasureResult([1e10], 3, 1, 17, "a backtrace\nCannot connect to tracker")
        with self.assertRaisesRegex(Trouble, "Cannot connect to tracker"):
            self.measure(away, away)
        got, _ = self.measure(away, stand_in.MeasureResult([0.5], 0, 1, 17))
        self.assertEqual([r["error_no"] for r in got], [3, 0])


class AsProgram(Case):
    def start(self, kind, *options, seconds=0.1):
        here = os.path.dirname(os.path.abspath(__file__))
        env = dict(os.environ, PYTHONPATH=os.pathsep.join([os.path.join(common.ROOT, "clients", "tvm"), here]),
                   AGENT_TVM=kind, AGENT_SECONDS=str(seconds))
        agent = subprocess.Popen([sys.executable, "-m", "tcl_tvm", "agent", "--url", self.daemon.url, "--hardware",
                                  self.hardware, "--import", "agent_tvm"] + list(options), env=env,
                                 stderr=subprocess.PIPE, start_new_session=True)
        self.addCleanup(agent.stderr.close)
        self.addCleanup(agent.kill)
        return agent

    def end(self, agent):
        """Its status, and what it said."""
        said = agent.communicate(timeout=SOON)[1].decode()
        self.assertNotIn("Traceback", said)
        return agent.returncode, said

    def measured(self):
        return self.daemon.counts(self.hardware)[2]

    def test_workloads_that_are_not_registered_end_it_with_a_status_and_nothing_posted(self):
        self.select(8)
        status, said = self.end(self.start("unregistered", "--once"))
        self.assertEqual(status, 1, said)
        self.assertIn("is not registered", said)
        self.assertIn("--import", said)
        self.counts_are(selected=8)

    def test_so_does_a_tracker_that_is_away(self):
        self.select(8)
        status, said = self.end(self.start("away", "--rpc", "127.0.0.1:1", "--rpc-key", "board"))
        self.assertEqual(status, 1, said)
        self.assertIn("Cannot connect to tracker", said)
        self.counts_are(selected=8)

    def test_a_signal_to_the_whole_group_makes_no_failures(self):
        self.select(12)
        agent = self.start("child", "--batch", "4", seconds=0.2)
        self.wait_for(lambda: self.measured() >= 4)
        os.killpg(agent.pid, signal.SIGTERM)
        status, said = self.end(agent)
        self.assertEqual(status, 0, said)
        measured = self.measured()
        self.assertLess(measured, 12)
        self.counts_are(selected=12 - measured, measured=measured)

    def test_results_and_lease_outlast_a_short_absence_of_tcld_after_a_signal(self):
        self.select(12)
        agent = self.start("child", "--batch", "4")
        self.wait_for(lambda: self.measured() >= 4)
        self.daemon.kill()
        agent.terminate()
        time.sleep(1)
        self.daemon.start()
        status, said = self.end(agent)
        self.assertEqual(status, 0, said)
        measured = self.measured()
        self.assertIn(" %d measured, 0 failed" % measured, said)
        self.counts_are(selected=12 - measured, measured=measured)

    def test_a_second_signal_ends_it_at_once(self):
        self.select(12)
        agent = self.start("child", "--batch", "4")
        self.wait_for(lambda: self.measured() >= 4)
        self.daemon.kill()
        self.addCleanup(self.daemon.start)
        agent.terminate()
        agent.terminate()
        time.sleep(1.5)
        self.assertIsNone(agent.poll())
        began = time.monotonic()
        agent.terminate()
        self.assertEqual(self.end(agent)[0], 128 + signal.SIGTERM)
        self.assertLess(time.monotonic() - began, 5)


if __name__ == "__main__":
    unittest.main()
