"""Files of a running daemon: kept from cleaners, recreated, and never taken from another
process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.harness import until
from tests.running_daemon import RunningDaemon
from tests.wire import Wire

MakeDaemon = Callable[..., RunningDaemon]


@pytest.fixture
def wire(daemon: RunningDaemon) -> Iterator[Wire]:
    """A client that has a shell with a state."""
    with daemon.connect() as wire:
        wire.call("spawn", tool="run", id="sh", args={"argv": ["cat"]}, wait="none")
        yield wire


def answers(daemon: RunningDaemon) -> bool:
    """Return true if a new client finds the daemon and its handle."""
    with daemon.connect() as fresh:
        state: str = fresh.call("fetch", id="sh")["state"]
    return state == "running"


def vanish(folder: Path) -> None:
    """Remove a path in one step: the daemon recreates files during the removal of a tree."""
    away = Path(tempfile.mkdtemp(dir=folder.parents[1]))
    folder.rename(away / "away")
    shutil.rmtree(away)


def abandon(path: Path) -> None:
    """Put a stale socket in the place of `path`, in one step."""
    other = path.with_name("other.sock")
    with socket.socket(socket.AF_UNIX) as theirs:
        theirs.bind(str(other))
    other.rename(path)


LOSSES: dict[str, Callable[[RunningDaemon], object]] = {
    "socket": lambda daemon: daemon.socket.unlink(),
    "socket, for one without a server": lambda daemon: abandon(daemon.socket),
    "daemon.lock": lambda daemon: (daemon.socket.parent / "daemon.lock").unlink(),
    "all files": lambda daemon: [*map(Path.unlink, daemon.socket.parent.iterdir())],
    "folder": lambda daemon: vanish(daemon.socket.parent),
    "parent": lambda daemon: vanish(daemon.runtime),
    "renamed": lambda daemon: daemon.runtime.rename(daemon.base / "away"),
    "state folder": lambda daemon: vanish(daemon.state),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_removed_files_are_recreated_and_no_handle_ends(
    daemon: RunningDaemon, wire: Wire, loss: str
) -> None:
    LOSSES[loss](daemon)
    until(lambda: "were created again" in daemon.log_text(), "it is made again")
    [entry] = [line for line in daemon.log_text().splitlines() if "were created again" in line]
    is_replaced = loss == "socket, for one without a server"
    assert bool(json.loads(entry)["paths"]) != is_replaced, "the log names the lost files"
    assert answers(daemon)
    # Both locks and the record are back: no second daemon can start, and after a crash the handle
    # is known.
    assert daemon.second() == 75
    assert wire.call("fetch", id="sh")["state"] == "running"
    daemon.kill9()
    daemon.start()
    with daemon.connect() as fresh:
        assert fresh.call("fetch", id="sh")["ended_by"]["by"] == "lost"


def test_an_unrecreatable_state_folder_ends_nothing_and_is_recreated_at_the_next_loss(
    daemon: RunningDaemon, wire: Wire
) -> None:
    os.kill(daemon.pid, signal.SIGSTOP)
    daemon.state.rename(daemon.base / "away")
    daemon.state.touch()
    os.kill(daemon.pid, signal.SIGCONT)
    until(lambda: "cannot be created again" in daemon.log_text(), "the log says so")
    assert answers(daemon)
    daemon.state.unlink()
    assert daemon.log_text().count("created again") == 1
    daemon.socket.unlink()
    until(lambda: "were created again" in daemon.log_text(), "it is made again")
    assert answers(daemon)
    assert daemon.second() == 75


def test_repeated_removal_costs_no_descriptors(daemon: RunningDaemon, wire: Wire) -> None:
    def descriptors() -> int:
        argv = ["sh", "-c", f"ls /proc/{daemon.pid}/fd | wc -l"]
        return int(subprocess.run(argv, capture_output=True, check=True).stdout)

    counts = []
    for times in range(1, 6):
        vanish(daemon.socket.parent)
        until(lambda: daemon.log_text().count("were created again") == times, "it is made again")  # noqa: B023
        assert answers(daemon)
        counts.append(descriptors())
    until(lambda: descriptors() <= counts[0], "what was replaced is closed")


def test_a_client_connecting_while_the_socket_vanished_is_served(
    daemon: RunningDaemon, wire: Wire
) -> None:
    # Stopped, the daemon finds all of them in the backlog of a socket that is gone.
    os.kill(daemon.pid, signal.SIGSTOP)
    waiting = [daemon.connect() for _ in range(200)]
    daemon.socket.unlink()
    os.kill(daemon.pid, signal.SIGCONT)
    for row in waiting:
        assert row.call("ping") == {"pong": True}
        row.close()


def test_another_processs_socket_is_left_alone_and_the_daemon_exits_when_idle(
    daemon: RunningDaemon, wire: Wire
) -> None:
    other = daemon.socket.with_name("other.sock")
    with socket.socket(socket.AF_UNIX) as theirs:
        theirs.bind(str(other))
        theirs.listen()
        other.rename(daemon.socket)
        until(lambda: "which is left alone" in daemon.log_text(), "the log says so")
        assert wire.call("fetch", id="sh")["state"] == "running"
        wire.call("abort", id="sh", grace_ms=0)
        assert wire.call("ping") == {"pong": True}
        wire.close()
        assert daemon.process is not None and daemon.process.wait(20) == 0
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(daemon.socket))


def test_an_unrecreatable_runtime_folder_ends_nothing_in_use(
    daemon: RunningDaemon, wire: Wire
) -> None:
    """The next login makes the folder."""
    daemon.runtime.rename(daemon.base / "away")
    daemon.runtime.touch()
    assert wire.call("fetch", id="sh")["state"] == "running"
    daemon.runtime.unlink()
    until(lambda: "were created again" in daemon.log_text(), "it is made again")
    assert answers(daemon)
