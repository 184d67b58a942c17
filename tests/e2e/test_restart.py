from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.running_daemon import RunningDaemon
from tests.wire import Refused, Wire

Make = Callable[..., RunningDaemon]

ENDS = ("clean stop", "crash")


def end(daemon: RunningDaemon, how: str) -> None:
    if how == "crash":
        daemon.kill9()
    else:
        assert daemon.stop() == 0


def refused(wire: Wire, name: str, **more: str) -> Refused:
    with pytest.raises(Refused) as caught:
        wire.call("fetch", id=name, **more)
    return caught.value


@pytest.mark.parametrize("how", ENDS)
def test_ids_used_before_a_restart_are_expired(make_daemon: Make, how: str) -> None:
    daemon = make_daemon().start()
    with daemon.connect() as wire:
        for name, args in (("a", {"argv": ["true"]}), ("b", {"argv": ["true"]})):
            wire.call("spawn", tool="run", id=name, args=args, wait="stopped")
        wire.call("spawn", tool="run", id="a", args={"argv": ["true"]}, wait="stopped")
        with pytest.raises(Refused):
            wire.call("spawn", tool="run", id="c", args={"argv": ["/no/such/program"]})
    end(daemon, how)
    daemon.start()
    with daemon.connect() as wire:
        for name in "ab":
            error = refused(wire, name)
            assert error.code == -32001 and error.data["expired"] is True
        assert "expired" not in refused(wire, "c").data, "it never ran"
        assert "expired" not in refused(wire, "never").data
        assert "expired" not in refused(wire, "a", session="another").data
        state = wire.call("spawn", tool="run", id="a", args={"argv": ["true"]}, wait="stopped")
        assert state["generation"] == 3


def test_a_live_handle_is_lost_by_a_crash_and_expired_after_a_clean_stop(
    make_daemon: Make,
) -> None:
    daemon = make_daemon().start()
    with daemon.connect() as wire:
        wire.call("spawn", tool="run", id="a", args={"argv": ["sleep", "300"]}, wait="none")
        began = time.monotonic()
    daemon.kill9()
    lived_ms = (time.monotonic() - began) * 1000
    daemon.start()
    with daemon.connect() as wire:
        [info] = wire.call("handles/list")["handles"]
        assert info["ended_by"]["by"] == "lost"
        assert info["elapsed_ms"] >= lived_ms - 2
        assert info["age_s"] * 1000 >= lived_ms - 2
        assert wire.call("fetch", id="a")["generation"] == 1
    daemon.stop()
    daemon.start()
    with daemon.connect() as wire:
        assert refused(wire, "a").data["expired"] is True


def test_a_stopped_handle_is_not_lost_by_a_crash(make_daemon: Make) -> None:
    """Although the recovery ended a process left behind."""
    daemon = make_daemon().start()
    with daemon.connect() as wire:
        script = "sleep 300 >/dev/null 2>&1 & echo done"
        state = wire.call("spawn", tool="run", id="a", args={"command": script}, wait="stopped")
        assert state["result"] == "done\n" and state["left_behind"]
    daemon.kill9()
    daemon.start()
    with daemon.connect() as wire:
        recovered = wire.call("daemon/status")["recovered"]
        assert recovered["ended"] + recovered["lost"] == 1
        assert refused(wire, "a").data["expired"] is True


@pytest.mark.parametrize("kind", ["garbage", "folder", "missing"])
def test_a_corrupt_id_file_prevents_no_start(make_daemon: Make, kind: str) -> None:
    daemon = make_daemon().start()
    with daemon.connect() as wire:
        wire.call("spawn", tool="run", id="a", args={"argv": ["true"]}, wait="stopped")
    daemon.stop()
    [path] = (daemon.state / "haft").glob("ids-*")
    if kind == "garbage":
        path.write_bytes(b'\xff\n[1]\n["s"\n' + path.read_bytes() + b'["default","b",')
    else:
        path.unlink()
    if kind == "folder":
        path.mkdir()
    daemon.start()
    with daemon.connect() as wire:
        assert ("expired" in refused(wire, "a").data) == (kind == "garbage")
        assert wire.call("spawn", tool="run", id="b", args={"argv": ["true"]}, wait="stopped")


@contextmanager
def halted(daemon: RunningDaemon) -> Iterator[None]:
    """Stop the daemon for the block: a running one would recreate a folder during its removal."""
    os.kill(daemon.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, daemon.pid, os.WSTOPPED | os.WNOWAIT)
    try:
        yield
    finally:
        os.kill(daemon.pid, signal.SIGCONT)


@pytest.mark.parametrize("way", ["spawn", "tools/call"])
def test_a_long_argument_without_the_state_folder(make_daemon: Make, way: str) -> None:
    """The folder is recreated; where impossible, the start is refused with a sentence."""
    daemon = make_daemon().start(as_child=True)
    long = {"argv": ["echo", "x" * 70_000]}
    with daemon.connect() as wire:

        def run(name: str) -> None:
            if way == "spawn":
                wire.call("spawn", tool="run", id=name, args=long, wait="stopped")
            else:
                wire.call("tools/call", tool="run", arguments=long)

        with halted(daemon):
            shutil.rmtree(daemon.state / "haft")
        run("a")
        with halted(daemon):
            shutil.rmtree(daemon.state / "haft")
            (daemon.state / "haft").write_text("in the way")
        with pytest.raises(Refused) as caught:
            run("b")
        assert caught.value.code == -32012 and caught.value.data["reason"] == "resources"
        assert str(daemon.state / "haft" / "calls") in caught.value.message
        (daemon.state / "haft").unlink()
        run("b")
