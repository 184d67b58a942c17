from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from tests.faults.harness import Ground, until
from tests.running_daemon import RunningDaemon
from tests.wire import Refused, Wire

MakeDaemon = Callable[..., RunningDaemon]
DEAF = "trap '' TERM; echo up; while :; do sleep 300; done"
BEHIND = f"""f=$(mktemp -u) && mkfifo $f
setsid sh -c "{DEAF.replace("echo up", "echo up >$f")}" </dev/null >/dev/null 2>&1 &
read up <$f; rm $f; echo $up"""
PATIENT = "[daemon]\nabort_grace_ms = 60000\n"


KINDS = {
    "pipe": (DEAF, False),
    "terminal": (DEAF, True),
    "child": (f"({DEAF}) & exec sleep 300", False),
    "hidden child": (f'setsid sh -c "{DEAF}" & exec sleep 300', False),
    "behind": (BEHIND, False),
}
"""What ignores the first signal: what was started, or a child of it that lives on without it."""


def hold(wire: Wire, ground: Ground, name: str, script: str, *, terminal: bool = False) -> None:
    """Run a script and wait for its `up`."""
    args = {"argv": ["sh", "-c", ground.tagged(script)], "terminal": terminal}
    state = wire.call(
        "spawn", tool="run", id=name, args=args, wait="pattern", pattern="up", timeout_ms=20_000
    )
    assert state["waited"] == "matched"


def sleepers(ground: Ground) -> int:
    return len([survivor for survivor in ground.survivors() if survivor.split()[1:2] == ["sleep"]])


@pytest.mark.parametrize("kind", KINDS)
def test_L07_a_second_signal_kills_at_once_processes_that_ignore_the_first(
    make_daemon: MakeDaemon, kind: str
) -> None:
    daemon = make_daemon(PATIENT).start()
    script, terminal = KINDS[kind]
    with Ground() as ground, daemon.connect() as wire:
        hold(wire, ground, "asked", "trap 'echo heard' TERM; echo up; while :; do sleep 0.1; done")
        hold(wire, ground, "deaf", script, terminal=terminal)
        if kind == "behind":
            wire.call("fetch", id="deaf", wait="stopped", timeout_ms=20_000)
        os.kill(daemon.pid, signal.SIGTERM)
        until(lambda: wire.call("daemon/status")["state"] == "stopping", "it is stopping")
        # All were signalled, and have their minute.
        state = wire.call("fetch", id="asked", wait="pattern", pattern="heard", timeout_ms=20_000)
        assert state["waited"] == "matched" and state["state"] == "running"
        assert daemon.process is not None and daemon.process.poll() is None
        os.kill(daemon.pid, signal.SIGTERM)
        assert daemon.process.wait(30) == 0
        assert sleepers(ground) == 0


def test_an_abort_has_its_own_grace(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon(PATIENT).start()
    with Ground() as ground, daemon.connect() as wire:
        hold(wire, ground, "h", DEAF)
        state = wire.call("abort", id="h", grace_ms=200)
        assert state["exit"] == {"signal": "KILL"} and state["elapsed_ms"] >= 200


@pytest.mark.parametrize("grace_ms", [0, 200])
@pytest.mark.parametrize("kind", KINDS)
def test_a_second_abort_with_a_shorter_grace_shortens_the_wait(
    make_daemon: MakeDaemon, kind: str, grace_ms: int
) -> None:
    """Neither waits for the first abort's grace of a minute; both are answered."""
    daemon = make_daemon(PATIENT).start()
    script, terminal = KINDS[kind]
    with Ground() as ground, daemon.connect() as first, daemon.connect() as second:
        hold(first, ground, "h", script, terminal=terminal)
        if kind == "behind":
            first.call("fetch", id="h", wait="stopped", timeout_ms=20_000)
        slow = first.start("abort", id="h")
        first.call("ping")  # the handle is stopping
        assert second.call("abort", id="h", grace_ms=grace_ms)["state"] == "stopped"
        assert first.finish(slow)["state"] == "stopped"
        assert sleepers(ground) == 0


def test_L06_during_the_grace_replies_are_given(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon(PATIENT).start()
    with Ground() as ground, daemon.connect() as wire:
        hold(
            wire,
            ground,
            "h",
            "trap 'read a; echo bye; exit 3' TERM; echo up; while :; do sleep 0.1; done",
        )
        waiting = wire.start("fetch", id="h", wait="stopped", timeout_ms=600_000)
        os.kill(daemon.pid, signal.SIGTERM)
        until(lambda: wire.call("daemon/status")["state"] == "stopping", "it is stopping")
        with pytest.raises(Refused) as caught:
            wire.call("spawn", tool="run", id="late", args={"argv": ["true"]})
        assert caught.value.code == -32013
        # The program cleans up after the test's release, however late.
        wire.call("apply", id="h", input={"line": "now"}, wait="none")
        state = wire.finish(waiting)
        assert state["ended_by"]["by"] == "shutdown" and state["exit"] == {"code": 3}
        assert "bye" in state["content"]
    assert daemon.process is not None and daemon.process.wait(20) == 0
    assert not daemon.socket.exists()


def test_the_client_that_requested_the_shutdown_is_named(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    with daemon.connect() as wire, daemon.connect() as asker:
        wire.call("spawn", tool="run", id="h", args={"argv": ["sleep", "300"]}, wait="none")
        waiting = wire.start("fetch", id="h", wait="stopped", timeout_ms=600_000)
        asker.call("initialize", client={"name": "somebody", "version": "1"}, protocol=1)
        with pytest.raises(Refused, match="-32009"):
            asker.call("daemon/shutdown", policy="refuse")
        assert asker.call("daemon/shutdown") == {}
        assert wire.finish(waiting)["ended_by"] == {"by": "shutdown", "client": "somebody"}
    assert daemon.process is not None and daemon.process.wait(20) == 0
