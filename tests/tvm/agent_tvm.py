"""For --import of the agent: a TVM of the stand-in. $AGENT_TVM says which: `child` measures each program in a child
process, as TVM does, for $AGENT_SECONDS; `unregistered` knows no workload; `away` has lost its device."""
import os
import subprocess
import time

import stand_in

KIND = os.environ["AGENT_TVM"]


def run(_):
    if KIND == "away":
        return stand_in.MeasureResult([1e10], 3, 0.1, time.time(), "a backtrace\nCannot connect to tracker")
    if subprocess.call(["sleep", os.environ["AGENT_SECONDS"]]) != 0:
        return stand_in.MeasureResult([1e10], 4, 0.1, time.time())
    return stand_in.MeasureResult([0.001], 0, 0.1, time.time())


stand_in.install_measuring(lambda name: KIND != "unregistered", run)
