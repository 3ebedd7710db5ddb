"""python3 -m tcl_tvm as a program, against a real tcld."""
import gzip
import json
import os
import subprocess
import sys
import tempfile
import unittest

import common


def run(*args, **options):
    env = dict(os.environ, PYTHONPATH=os.path.join(common.ROOT, "clients", "tvm"))
    return subprocess.run([sys.executable, "-m", "tcl_tvm"] + list(args), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=env, timeout=120, **options)


class Import(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = common.Daemon()
        cls.dir = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()
        assert cls.daemon.stop() == 0

    def file(self, name, text):
        path = os.path.join(self.dir.name, name)
        with (gzip.open(path, "wb") if name.endswith(".gz") else open(path, "wb")) as f:
            f.write(text.encode())
        return path

    def test_registers_reads_plain_packed_and_standard_input_and_counts_once(self):
        lines = common.lines_of(common.DEMO[0])
        plain, packed = self.file("a.json", "".join(lines[:20])), self.file("b.json.gz", "".join(lines[10:30]))
        got = run("import", "--url", self.daemon.url, "--hardware", "one", plain, packed, "-",
                  input="".join(lines[30:35]).encode())
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertEqual(json.loads(got.stdout.decode()), {"accepted": 35, "duplicates": 10, "rejected": 0})
        known = self.daemon.call("GET", "/v1/hardware/one")
        self.assertEqual(known["target"], json.loads(lines[0])["i"][0][1])
        self.assertEqual(known["counts"]["measurements"], 35)

    def test_names_each_bad_line(self):
        lines = common.lines_of(common.DEMO[0])[:5]
        lines[2:2] = ["# a comment\n", "{broken\n"]
        path = self.file("bad.json", "".join(lines))
        got = run("import", "--url", self.daemon.url, "--hardware", "two", path)
        self.assertEqual(got.returncode, 1)
        self.assertIn(("%s:4: bad-json" % path).encode(), got.stderr)
        self.assertEqual(json.loads(got.stdout.decode())["accepted"], 5)

    def test_says_what_is_wrong(self):
        empty = self.file("empty.json", "{}\n")
        for args, text in (([empty], b"unknown-hardware"), (["/no/such/file"], b"/no/such/file")):
            got = run("import", "--url", self.daemon.url, "--hardware", "three", *args)
            self.assertEqual(got.returncode, 1)
            self.assertIn(text if text != b"unknown-hardware" else b"three", got.stderr)


class Others(unittest.TestCase):
    def test_an_unknown_command_is_told(self):
        self.assertEqual(run("nonsense").returncode, 1)
        self.assertIn(b"tune-demo", run("--help").stdout)

    def test_the_demo_and_the_agent_say_that_they_need_tvm(self):
        if subprocess.run([sys.executable, "-c", "import tvm.auto_scheduler"], stderr=subprocess.DEVNULL).returncode == 0:
            self.skipTest("TVM is there")
        for command in ("tune-demo", "agent"):
            got = run(command, "--hardware", "x")
            self.assertNotEqual(got.returncode, 0)
            self.assertIn(b"auto_scheduler (0.8 to 0.19)", got.stderr)
            self.assertNotIn(b"Traceback", got.stderr)


if __name__ == "__main__":
    unittest.main()
