from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Iterator

import psutil
import pytest

from tests.faults.harness import Ground, until
from tests.running_daemon import RunningDaemon
from tests.wire import Refused, Wire

MIB = 1 << 20
_sessions = itertools.count()


@pytest.fixture
def wire(shared_daemon: RunningDaemon) -> Iterator[Wire]:
    with shared_daemon.connect() as wire:
        wire.call(
            "initialize",
            client={"name": "load"},
            protocol=1,
            session=f"load{next(_sessions)}",
        )
        yield wire
        wire.call("session/close")


def run(wire: Wire, id: str, *argv: str, terminal: bool = False, wait: str = "none") -> None:
    args = {"argv": list(argv), "terminal": terminal}
    wire.call("spawn", tool="run", id=id, args=args, wait=wait, max_bytes=0, view="tail")


def rss(daemon: RunningDaemon) -> int:
    return int(psutil.Process(daemon.pid).memory_info().rss)


def test_P06_a_fork_bomb_delays_no_other_call_and_is_ended_whole(
    shared_daemon: RunningDaemon, wire: Wire
) -> None:
    """The bomb forks to 256 processes, none of which ends by itself."""
    bomb = "import os, time\nfor _ in range(8): os.fork()\ntime.sleep(300)"
    with Ground() as ground:
        run(wire, "bomb", *ground.within([sys.executable, "-S", "-c", bomb, ground.tag]))
        with shared_daemon.connect() as other:
            until(
                lambda: bool(other.call("ping")) and len(ground.survivors()) > 200, "it has grown"
            )
        assert wire.call("abort", id="bomb", grace_ms=500)["state"] == "stopped"
        assert ground.survivors() == []


def test_P24_disconnects_during_output_cost_nothing(
    shared_daemon: RunningDaemon, wire: Wire
) -> None:
    session = wire.call("initialize", client={"name": "load"}, protocol=1)["session"]
    run(wire, "seq", "sh", "-c", "seq 1 200000; exit 9")
    for _ in range(50):
        with shared_daemon.connect() as gone:
            gone.start("fetch", session=session, id="seq", wait="output", view="all")
    state = wire.call("fetch", id="seq", wait="stopped", max_bytes=4 * MIB, cursor=0)
    assert state["exit"] == {"code": 9}
    assert state["content"] == "".join(f"{n}\n" for n in range(1, 200001))


def test_P25_unread_output_takes_bounded_memory(shared_daemon: RunningDaemon, wire: Wire) -> None:
    run(wire, "zeros", "cat", "/dev/zero")
    before = rss(shared_daemon)

    def printed() -> int:
        return int(wire.call("handles/list")["handles"][0]["bytes"])

    until(lambda: printed() > 300 * MIB, "much is printed")
    assert rss(shared_daemon) - before < 32 * MIB
    state = wire.call("abort", id="zeros")
    assert state["omitted"] > 100 * MIB, "what was dropped is counted"


@pytest.mark.parametrize("rounds", [40, pytest.param(150, marks=pytest.mark.soak)])
def test_L12_ended_handles_leave_nothing(
    shared_daemon: RunningDaemon, wire: Wire, rounds: int
) -> None:
    def many(count: int) -> None:
        for at in range(count):
            run(wire, f"h{at % 20}", "true", terminal=at % 4 == 0, wait="stopped")

    def facts() -> tuple[int, int]:
        process = psutil.Process(shared_daemon.pid)
        return process.num_fds(), len(process.children())

    many(rounds)
    settled = facts()
    before = rss(shared_daemon)
    many(2 * rounds)
    until(lambda: facts() <= settled, f"descriptors and children are as before: {settled}")
    assert rss(shared_daemon) - before < 8 * MIB


def test_U24_an_inflating_message_is_not_decoded_into_objects(
    shared_daemon: RunningDaemon, wire: Wire
) -> None:
    before = rss(shared_daemon)
    blown = b"[" + b"{}," * (2 * MIB) + b"{}]"
    wire.send_raw(b'{"jsonrpc":"2.0","id":77,"method":"ping","params":{"session":%s}}\n' % blown)
    reply = wire.receive()
    assert reply["id"] == 77 and reply["error"]["data"]["limit"] == "max_values"
    assert len(json.dumps(reply)) < 4096
    assert rss(shared_daemon) - before < 64 * MIB


def test_U25_waiting_calls_and_tools_take_no_threads(
    shared_daemon: RunningDaemon, wire: Wire
) -> None:
    for at in range(45):
        run(wire, f"t{at}", "cat", terminal=at % 2 == 0)
        wire.start("fetch", id=f"t{at}", wait="stopped", timeout_ms=600_000)
    state = wire.call("spawn", tool="run", id="more", args={"argv": ["true"]}, wait="stopped")
    assert state["exit"] == {"code": 0}
    assert len(os.listdir(f"/proc/{shared_daemon.pid}/task")) < 10


def test_U27_a_handle_is_known_in_its_session_only(
    shared_daemon: RunningDaemon, wire: Wire
) -> None:
    run(wire, "mine", "cat")
    with shared_daemon.connect() as other:
        for method, more in (("fetch", {}), ("apply", {"input": "x"}), ("abort", {})):
            with pytest.raises(Refused, match="-32001"):
                other.call(method, session="elsewhere", id="mine", **more)
    assert wire.call("fetch", id="mine")["state"] == "running"
