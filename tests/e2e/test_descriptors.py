"""Handles leave the last descriptors for connections; the next start is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from tests.faults.harness import until
from tests.forkserver import run_haft
from tests.running_daemon import RunningDaemon
from tests.wire import Refused, Wire

MakeDaemon = Callable[..., RunningDaemon]


def fill(wire: Wire, *argv: str) -> tuple[int, Refused]:
    """Start handles until one is refused; return their number and the reason."""
    for number in range(256):
        args = {"argv": list(argv)}
        try:
            wire.call("spawn", tool="run", id=f"h{number}", args=args, wait="none")
        except Refused as refused:
            return number, refused
    raise AssertionError("no start was refused")


def test_the_next_start_is_refused_and_other_clients_are_served(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start(descriptors=256)
    with daemon.connect() as wire:
        count, refused = fill(wire, "cat")
        assert count >= 32 and refused.data["reason"] == "resources"
        assert "256 open files" in refused.message and "`ulimit -n`" in refused.message
        others = [daemon.connect() for _ in range(8)]
        for other in others:
            assert other.call("ping") == {"pong": True}
        applied = wire.call("apply", id="h0", input="still here\n", wait="output")
        assert applied["content"] == "still here\n"
        for other in others:
            other.close()
        wire.call("abort", id="h0")
        wire.call("spawn", tool="run", id="again", args={"argv": ["true"]}, wait="stopped")
    done = run_haft(["--socket", str(daemon.socket), "stop"], env=daemon.env)
    assert done.returncode == 0, done.stderr
    assert daemon.process is not None and daemon.process.wait(60) == 0


def _number_kept(refused: Refused) -> int:
    match = re.search(r"keeps (\d+) for those who connect", refused.message)
    assert match is not None, refused.message
    return int(match[1])


@pytest.mark.parametrize("limit", [66, 128, 256])
def test_as_many_clients_are_served_beside_all_handles_as_the_refusal_says(
    make_daemon: MakeDaemon, limit: int
) -> None:
    """And those beyond are refused with the limit, never left without an answer."""
    daemon = make_daemon().start(descriptors=limit)
    with ExitStack() as stack:
        wire = stack.enter_context(daemon.connect())
        _, refused = fill(wire, "sleep", "600")
        others = [stack.enter_context(daemon.connect()) for _ in range(_number_kept(refused))]
        for other in others:
            assert other.call("ping") == {"pong": True}
        beyond = [stack.enter_context(daemon.connect()) for _ in range(40)]
        for other in beyond:
            other.start("ping")
        replies = [other.receive() for other in beyond]
        served = [reply for reply in replies if "result" in reply]
        limits = {reply["error"]["data"]["limit"] for reply in replies if "error" in reply}
        assert limits == {"open_files"} and len(served) < 40
        listed = run_haft(["--socket", str(daemon.socket), "ps"], env=daemon.env)
        assert listed.returncode != 0 and "`open_files`" in listed.stderr


def test_output_leaves_the_last_descriptors(make_daemon: MakeDaemon) -> None:
    """Each handle with much output needs a file; there are too few for all."""
    daemon = make_daemon('[spool]\nmemory = "4 KiB"\n').start(descriptors=256)
    with daemon.connect() as wire:
        floods = "head -c 100000 /dev/zero | tr '\\0' x; exec cat"
        count, _ = fill(wire, "sh", "-c", floods)

        def printed() -> bool:
            handles: list[dict[str, Any]] = wire.call("handles/list")["handles"]
            return [handle["bytes"] for handle in handles] == [100_000] * count

        until(printed, "all have printed")
        with daemon.connect() as other:
            assert other.call("ping") == {"pong": True}


def test_processes_left_behind_leave_the_last_descriptors(make_daemon: MakeDaemon) -> None:
    """A descriptor waits for the end of each process that a handle has left behind."""
    daemon = make_daemon().start(descriptors=128)
    with daemon.connect() as wire:
        leaves = "for i in $(seq 120); do sleep 600 >/dev/null 2>&1 & done"
        args = {"argv": ["sh", "-c", leaves]}
        state = wire.call("spawn", tool="run", id="h", args=args, wait="stopped", timeout_ms=60_000)
        assert len(state["left_behind"]) == 120
        with daemon.connect() as other:
            assert other.call("ping") == {"pong": True}
        wire.call("spawn", tool="run", id="i", args={"argv": ["true"]}, wait="stopped")
        wire.call("abort", id="h", grace_ms=0)
