"""A real daemon under a fake service manager: notifications and handed-over sockets."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.by_hand import ByHand
from tests.e2e.service_manager import Manager, start_managed
from tests.running_daemon import RunningDaemon
from tests.wire import Wire

MakeDaemon = Callable[..., RunningDaemon]


@pytest.fixture
def manager(short_tmp: Path) -> Iterator[Manager]:
    one = Manager(short_tmp / "notify")
    yield one
    one.close()


def test_ready_reloading_and_stopping_are_notified_in_order(
    make_daemon: MakeDaemon, manager: Manager
) -> None:
    daemon = make_daemon()
    process = start_managed(daemon, env={"NOTIFY_SOCKET": str(manager.path)})
    ready = manager.receive()
    assert ready["READY"] == "1" and ready["PID"] == str(process.pid)
    with daemon.connect() as wire:  # from READY on the socket exists: no second try
        assert wire.call("daemon/status")["pid"] == process.pid

        daemon.tools('[tools.fresh]\ncommand = ["true"]\n')
        before = time.monotonic()
        os.kill(process.pid, signal.SIGHUP)
        reloading = manager.receive()
        assert reloading["RELOADING"] == "1" and "READY" not in reloading
        at = int(reloading["MONOTONIC_USEC"]) / 1e6
        assert before - 1e-3 <= at <= time.monotonic()
        assert manager.receive()["READY"] == "1"
        assert "fresh" in {tool["name"] for tool in wire.call("tools/list")["tools"]}

        wire.call("spawn", tool="run", id="h", args={"argv": ["cat"]}, wait="none")
        os.kill(process.pid, signal.SIGTERM)
        stopping = manager.receive()
        assert stopping["STOPPING"] == "1" and stopping["PID"] == str(process.pid)
    assert process.wait(20) == 0


def test_an_abstract_notification_socket_is_used(make_daemon: MakeDaemon) -> None:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    name = f"haft-test-{os.getpid()}-{time.monotonic_ns()}"
    with sock:
        sock.settimeout(20)
        sock.bind("\0" + name)
        start_managed(make_daemon(), env={"NOTIFY_SOCKET": "@" + name})
        assert b"READY=1" in sock.recv(4096)


def test_the_watchdog_is_fed_while_the_loop_turns(
    make_daemon: MakeDaemon, manager: Manager
) -> None:
    daemon = make_daemon()
    env = {"NOTIFY_SOCKET": str(manager.path), "WATCHDOG_USEC": "400000"}
    process = start_managed(daemon, pids=["WATCHDOG_PID"], env=env)
    manager.until("WATCHDOG")
    began = time.monotonic()
    for _ in range(4):
        assert manager.until("WATCHDOG")["PID"] == str(process.pid)
    assert time.monotonic() - began >= 0.4, "half of what is allowed, not a flood"
    os.kill(process.pid, signal.SIGSTOP)
    manager.sock.settimeout(1)
    with pytest.raises(TimeoutError):
        for _ in range(20):  # messages from before the stop
            manager.receive()
    os.kill(process.pid, signal.SIGCONT)
    manager.sock.settimeout(20)
    manager.until("WATCHDOG")


def test_another_processs_watchdog_is_not_fed(make_daemon: MakeDaemon, manager: Manager) -> None:
    env = {
        "NOTIFY_SOCKET": str(manager.path),
        "WATCHDOG_USEC": "1000",
        "WATCHDOG_PID": str(os.getpid()),
    }
    process = start_managed(make_daemon(), env=env)
    manager.until("READY")
    os.kill(process.pid, signal.SIGHUP)
    assert "RELOADING" in manager.receive()
    assert "READY" in manager.receive()
    os.kill(process.pid, signal.SIGTERM)
    assert "STOPPING" in manager.receive()


def test_tools_do_not_inherit_the_managers_variables(
    make_daemon: MakeDaemon, manager: Manager, listener: socket.socket
) -> None:
    daemon = make_daemon()
    env = {
        "NOTIFY_SOCKET": str(manager.path),
        "WATCHDOG_USEC": "20000000",
        "LISTEN_FDS": "1",
        "LISTEN_FDNAMES": "rpc",
    }
    start_managed(daemon, pids=["LISTEN_PID", "WATCHDOG_PID"], sockets=[listener], env=env)
    with Wire(listener.getsockname()) as wire:
        script = "env; ls /proc/self/fd"
        args = {"argv": ["sh", "-c", script]}
        state = wire.call("spawn", tool="run", id="h", args=args, wait="stopped", timeout_ms=20_000)
    for word in ("NOTIFY_", "WATCHDOG_", "LISTEN_"):
        assert word not in state["result"]
    assert state["result"].splitlines()[-4:] == ["0", "1", "2", "3"], "3 is the listing's own"


@pytest.fixture
def listener(short_tmp: Path) -> Iterator[socket.socket]:
    """A listening Unix socket that a service manager holds."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.bind(str(short_tmp / "given.sock"))
    sock.listen(16)
    yield sock
    sock.close()


def activate(
    daemon: RunningDaemon, names: str, *sockets: socket.socket, executed: bool = False
) -> None:
    env = {"LISTEN_FDS": str(len(sockets)), "LISTEN_FDNAMES": names}
    start_managed(daemon, pids=["LISTEN_PID"], sockets=sockets, env=env, executed=executed)


def test_a_connection_before_the_start_is_answered(
    make_daemon: MakeDaemon, listener: socket.socket
) -> None:
    daemon = make_daemon()
    path = Path(listener.getsockname())
    inode = path.stat().st_ino
    # Started on demand, stopped, started on demand again.
    for executed in (True, False):
        with Wire(path) as early:
            number = early.start("daemon/status")
            activate(daemon, "rpc", listener, executed=executed)
            assert early.finish(number)["pid"] == daemon.pid
            with Wire(path, "headers") as late:
                assert late.call("ping") == {"pong": True}
            assert not daemon.socket.exists(), "it makes none of its own beside the one given"
        assert daemon.stop() == 0
        assert path.stat().st_ino == inode, "the socket is the manager's, who still listens"


def test_L11_the_socket_survives_a_crash_of_the_daemon(
    make_daemon: MakeDaemon, listener: socket.socket
) -> None:
    daemon = make_daemon()
    activate(daemon, "rpc", listener)
    with Wire(listener.getsockname()) as wire:
        wire.call("spawn", tool="run", id="h", args={"argv": ["sleep", "300"]}, wait="none")
    daemon.kill9()
    with Wire(listener.getsockname()) as wire:
        number = wire.start("fetch", id="h")
        activate(daemon, "rpc", listener)
        assert wire.finish(number)["ended_by"] == {"by": "lost"}


def test_a_websocket_is_handed_over_beside_the_socket(
    make_daemon: MakeDaemon, listener: socket.socket
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as tcp:
        port = tcp.getsockname()[1]
        daemon = make_daemon()
        with Wire(listener.getsockname()) as wire:
            number = wire.start("daemon/status")
            activate(daemon, "ws:rpc", tcp, listener)
            status = wire.finish(number)
        assert status["websocket"] == {"host": "127.0.0.1", "port": port}
        assert status["problems"] == []
        token = (daemon.runtime / "haft" / "token").read_text().strip()
        with ByHand(port) as peer:
            assert peer.upgrade(token=token) == 101
            peer.initialize()
            assert peer.call("daemon/status")["pid"] == daemon.pid


def test_another_processs_sockets_are_not_taken(
    make_daemon: MakeDaemon, listener: socket.socket
) -> None:
    daemon = make_daemon()
    env = {"LISTEN_FDS": "1", "LISTEN_FDNAMES": "rpc", "LISTEN_PID": str(os.getpid())}
    start_managed(daemon, sockets=[listener], env=env)
    daemon.wait_until_up()
    with daemon.connect() as wire:
        assert wire.call("daemon/status")["socket"] == str(daemon.socket)


def test_a_socket_of_an_unknown_name_is_a_problem_and_the_rest_works(
    make_daemon: MakeDaemon, listener: socket.socket, short_tmp: Path
) -> None:
    daemon = make_daemon()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as strange:
        strange.bind(str(short_tmp / "strange.sock"))
        strange.listen(1)
        activate(daemon, "rpc:strange", listener, strange)
        with Wire(listener.getsockname()) as wire:
            (problem,) = wire.call("daemon/status")["problems"]
            assert "strange" in problem["message"] and "rpc" in problem["message"]


def test_a_socket_bound_by_the_manager_in_the_daemons_place_is_left_alone(
    make_daemon: MakeDaemon,
) -> None:
    """The daemon started by itself; then its socket unit was started, which binds the same path."""
    daemon = make_daemon().start()
    with daemon.connect() as wire:
        wire.call("ping")
    with socket.socket(socket.AF_UNIX) as units:
        # Renamed into place: the daemon makes a missing socket anew.
        units.bind(f"{daemon.socket}.new")
        units.listen()
        os.rename(f"{daemon.socket}.new", daemon.socket)
        daemon.stop()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(daemon.socket))
