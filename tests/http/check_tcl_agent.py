"""The HTTP part of clients/tvm against a daemon, without TVM: URL HARDWARE. The hardware has 20 selected
candidates; 4 are measured in vain. Ends with status 0 when all is as it should be."""
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "clients", "tvm"))
from tcl_tvm import agent as tcl_agent
from tcl_tvm.http import Client, Refused


def expect(what, got, want):
    if got != want:
        sys.exit("%s: %r instead of %r" % (what, got, want))


def cost(records):
    for r in records:
        expect("keys of a record", sorted(r)[0], "i")
    return [{"costs": [0.001, 0.002], "error_no": 0, "all_cost": 0.5, "timestamp": 1700000000.7} for _ in records]


def in_vain(records):
    return [tcl_agent.failed() for _ in records]


def broken(records):
    raise RuntimeError("no compiler here")


def states(client, hardware):
    counts = client.call("GET", "/v1/hardware/" + hardware)["counts"]["candidates"]
    return [counts[k] for k in ("pooled", "selected", "leased", "measured", "failed")]


def main():
    url, hardware = sys.argv[1:]
    client = Client(url, patience=5)

    try:
        client.lease("none-such", "py-1", 4, 60)
        sys.exit("unknown hardware was not refused")
    except Refused as error:
        expect("status", error.status, 404)
        expect("text", "none-such" in str(error), True)

    # failures of programs are posted as such
    agent = tcl_agent.Agent(client, hardware, "py-1", in_vain, most=4, batch=3)
    lease = tcl_agent.Lease(client, client.lease(hardware, "py-1", 4, 60), 60)
    agent._work_off(lease)
    expect("after failures", states(client, hardware), [0, 16, 0, 0, 4])
    expect("failures", (agent.measured, agent.failures), (4, 4))

    # what measuring raises is held against no program
    agent = tcl_agent.Agent(client, hardware, "py-1", broken)
    try:
        agent.run()
        sys.exit("an agent that cannot measure did not end")
    except tcl_agent.Trouble:
        expect("after trouble", states(client, hardware), [0, 16, 0, 0, 4])

    # told to stop in the middle of a lease: what is not measured is given back
    stopping = Client(url, patience=5, stop=threading.Event())
    agent = tcl_agent.Agent(stopping, hardware, "py-2", None, most=6, batch=2)

    def stop_after(records):
        stopping.stop.set()
        return cost(records)

    agent.measure = stop_after
    agent.run()
    expect("after stop", states(client, hardware), [0, 14, 0, 2, 4])

    # an endless lease is renewed: it outlives its time while a batch takes long
    agent = tcl_agent.Agent(client, hardware, "py-3", None, most=3, ttl=1, batch=3)

    def slow(records):
        threading.Event().wait(2.5)
        expect("during a long batch", states(client, hardware), [0, 11, 3, 2, 4])
        agent.measure = cost
        return cost(records)

    agent.measure = slow
    agent.run(forever=False)
    expect("at the end", states(client, hardware), [0, 0, 0, 16, 4])
    expect("leases given to one agent", agent.measured, 14)
    client.close()

    # nobody there: patience, then an error
    try:
        Client("http://127.0.0.1:1", patience=0.3).lease(hardware, "py-4", 1, 60)
        sys.exit("a call without an answer did not fail")
    except ConnectionError as error:
        expect("text", "leases" in str(error), True)


if __name__ == "__main__":
    main()
