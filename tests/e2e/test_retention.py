"""Stopped handles: kept until read and for `retain_stopped_s`, then gone with all they held."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any

import pytest

from haftd.host.recovery.journal import read_records
from tests.faults.harness import until
from tests.running_daemon import RunningDaemon
from tests.wire import Refused, Wire

MakeDaemon = Callable[..., RunningDaemon]
SPOOLED = {"argv": ["head", "-c", "200000", "/dev/zero"]}
CONFIG = '[spool]\nmemory = "4 KiB"\n[daemon]\nretain_stopped_s = '


def spools(daemon: RunningDaemon) -> int:
    """Return the number of the daemon's spool files, as the kernel reports them, without a call."""
    count = 0
    for fd in os.listdir(f"/proc/{daemon.pid}/fd"):
        with contextlib.suppress(OSError):
            file = os.readlink(f"/proc/{daemon.pid}/fd/{fd}")
            # A spool has no name; the audit log has a name and stays open.
            count += file.startswith(str(daemon.state)) and file.endswith(" (deleted)")
    return count


def stopped(wire: Wire, *names: str) -> bool:
    """Return true if these have stopped, without reading any of them."""
    rows = {row["id"]: row["state"] for row in wire.call("handles/list")["handles"]}
    return all(rows[name] == "stopped" for name in names)


def unread(daemon: RunningDaemon, wire: Wire, name: str) -> None:
    """A handle with an unread end, and no work left."""
    go = daemon.base / "go"
    wait = f"while [ ! -e {go} ]; do sleep 0.01; done; exec head -c 200000 /dev/zero"
    args = {"argv": ["sh", "-c", wait]}
    assert wire.call("spawn", tool="run", id=name, args=args, wait="none")["state"] == "running"
    go.touch()
    until(lambda: stopped(wire, name), "it has stopped")
    until(lambda: not read_records(daemon.socket.with_name("handles.lock")), "it is written down")
    wire.call("ping")


def unlooked(wire: Wire, name: str, session: str) -> None:
    """The same at once, over the wire: with a cursor nothing counts as read."""
    where = {"id": name, "session": session}
    # `delta` would read the output that is there before the reply.
    wire.call("spawn", tool="run", args=SPOOLED, wait="none", view="tail", max_bytes=0, **where)
    wire.call("fetch", wait="stopped", cursor=0, max_bytes=0, **where)


def gone(wire: Wire, name: str) -> None:
    with pytest.raises(Refused) as caught:
        wire.call("fetch", id=name)
    assert caught.value.code == -32001 and caught.value.data["expired"] is True


def test_a_read_handle_expires_with_its_descriptors_without_a_call(
    make_daemon: MakeDaemon,
) -> None:
    daemon = make_daemon(CONFIG + "0.3\n").start()
    with daemon.connect() as wire:
        unread(daemon, wire, "unread")
        for name in ("one", "two"):
            state = wire.call("spawn", tool="run", id=name, args=SPOOLED, wait="stopped")
            assert state["state"] == "stopped" and state["exit"] == {"code": 0}
        until(lambda: spools(daemon) == 1, "the output of what was read is given back")
        gone(wire, "one")
        gone(wire, "two")
        assert wire.call("fetch", id="unread", cursor=0, max_bytes=0)["cursor"] == 200_000
        with pytest.raises(Refused) as caught:
            wire.call("fetch", id="never")
        assert caught.value.code == -32001 and "expired" not in caught.value.data


@pytest.mark.parametrize("how", [("fetch", {"id": "late"}), ("await", {"all": ["late"]})])
def test_a_late_read_starts_the_expiry_without_another_call(
    make_daemon: MakeDaemon, how: tuple[str, dict[str, Any]]
) -> None:
    daemon = make_daemon(CONFIG + "0.3\n").start()
    with daemon.connect() as wire:
        unread(daemon, wire, "late")
        assert spools(daemon) == 1
        method, params = how
        wire.call(method, **params)
        until(lambda: spools(daemon) == 0, "the output of what was read is given back")
        gone(wire, "late")


def test_a_stopped_handle_is_kept_for_its_time_and_can_be_read_again(
    make_daemon: MakeDaemon,
) -> None:
    daemon = make_daemon(CONFIG + "600\n").start()
    with daemon.connect() as wire:
        first = wire.call("spawn", tool="run", id="h", args=SPOOLED, wait="stopped")
        again = wire.call("fetch", id="h")
        assert first["result"] == again["result"] and spools(daemon) == 1
        assert wire.call("daemon/status")["handles"]["stopped"] == 1


def test_a_new_use_of_an_id_frees_the_old_handles_resources(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon(CONFIG + "600\n").start()
    with daemon.connect() as wire:
        for generation in (1, 2, 3):
            state = wire.call("spawn", tool="run", id="h", args=SPOOLED, wait="stopped")
            assert state["generation"] == generation
        until(lambda: spools(daemon) == 1, "only the newest keeps a file")


def test_a_closed_session_frees_its_resources(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon(CONFIG + "600\n").start()
    with daemon.connect() as wire:
        for name in "abc":
            wire.call("spawn", tool="run", id=name, args=SPOOLED, wait="stopped")
        assert spools(daemon) == 3
        wire.call("session/close")
        until(lambda: spools(daemon) == 0, "nothing is kept for a closed session")
        gone(wire, "a")


def test_over_the_number_kept_the_oldest_is_evicted(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon(CONFIG + "600\nretain_stopped_max = 2\n").start()
    with daemon.connect() as wire:
        for name in "abcd":
            wire.call("spawn", tool="run", id=name, args=SPOOLED, wait="stopped")
        until(lambda: spools(daemon) == 2, "as many as are kept")
        gone(wire, "a")
        gone(wire, "b")
        for name in "cd":
            assert wire.call("fetch", id=name)["state"] == "stopped"


def test_stopped_handles_yield_descriptors_to_new_ones(make_daemon: MakeDaemon) -> None:
    """Many unread handles over several sessions: each start succeeds, handles closed for it keep
    their ends, and the loss is reported."""
    daemon = make_daemon('[spool]\nmemory = "4 KiB"\n').start(descriptors=128)
    with daemon.connect() as wire:
        for number in range(90):
            unlooked(wire, f"h{number}", f"s{number % 3}")
        until(lambda: spools(daemon) <= 128 // 4, "files are closed")
        status = wire.call("daemon/status")
        assert [problem["file"] for problem in status["problems"]] == ["(descriptors)"]
        assert "only the beginning and the end" in status["problems"][0]["message"]
        first = wire.call("fetch", id="h0", session="s0")
        assert first["state"] == "stopped" and first["exit"] == {"code": 0}
        assert first["omitted"] > 100_000, first
        with daemon.connect() as other:
            other.call("ping")


def test_a_failing_disk_costs_old_output_and_is_reported(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon('[spool]\nmemory = "4 KiB"\n').start()
    (daemon.state / "haft" / "spool").rmdir()
    with daemon.connect() as wire:
        assert wire.call("daemon/status")["problems"] == []
        told = wire.call("spawn", tool="run", id="a", args=SPOOLED, wait="stopped")
        assert told["exit"] == {"code": 0} and told["omitted"] > 100_000
        (problem,) = wire.call("daemon/status")["problems"]
        assert problem["file"] == "(spool)" and "once" in problem["message"]
        assert wire.call("daemon/reload")["problems"] == [problem]


def test_a_start_takes_descriptors_from_stopped_handles(
    make_daemon: MakeDaemon,
) -> None:
    daemon = make_daemon('[spool]\nmemory = "4 KiB"\n').start(descriptors=128)
    with daemon.connect() as wire:
        for number in range(30):
            unlooked(wire, f"h{number}", "default")
        assert spools(daemon) == 30
        with pytest.raises(Refused) as caught:
            for number in range(128):
                live = {"id": f"live{number}", "session": "live", "args": {"argv": ["cat"]}}
                wire.call("spawn", tool="run", wait="none", **live)
        assert caught.value.data["reason"] == "resources"
        assert spools(daemon) == 0
        assert wire.call("fetch", id="h0", session="default")["exit"] == {"code": 0}
        wire.call("session/close", session="live")
        wire.call("spawn", tool="run", id="again", args={"argv": ["true"]}, wait="stopped")
