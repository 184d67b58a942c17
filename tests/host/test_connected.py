"""Which process is at the other end of a connection, and whether this one has started it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from haftd.host import connected
from haftd.host.connected import identify, identify_tcp
from haftd.host.family import lineage
from haftd.host.identity import is_alive

CONNECT = "import socket,sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); input()"
OLD_KERNEL = 0x7FFF
"""An option that no kernel has, as SO_PEERPIDFD on one before 6.5."""


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(tmp_path / "s"))
        sock.listen()
        yield sock


def peer(listener: socket.socket, *prefix: str) -> subprocess.Popen[bytes]:
    argv = [*prefix, sys.executable, "-c", CONNECT, listener.getsockname()]
    return subprocess.Popen(argv, stdin=subprocess.PIPE)


@pytest.fixture(params=["as it is", "old"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "old":
        monkeypatch.setattr(connected, "_SO_PEERPIDFD", OLD_KERNEL)
    return str(request.param)


def test_a_child_that_connects_is_below(listener: socket.socket, kernel: str) -> None:
    with peer(listener, "setsid", "-w") as process, listener.accept()[0] as sock:
        found = identify(sock)
        assert found.uid == os.geteuid() and found.lineage is not None
        assert found.pid == found.lineage[0].pid and found.lineage[-1].parent == os.getpid()
        assert process.pid in [one.pid for one in found.lineage]
        assert found.identity is not None and is_alive(found.identity)
        process.communicate(b"\n")
    assert not is_alive(found.identity)


def test_this_process_is_not_below_itself(listener: socket.socket, kernel: str) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(listener.getsockname())
        with listener.accept()[0] as sock:
            found = identify(sock)
    assert (found.pid, found.lineage) == (os.getpid(), ())


def test_no_descriptor_is_left(listener: socket.socket, kernel: str) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(listener.getsockname())
        with listener.accept()[0] as sock:
            before = sorted(os.listdir("/proc/self/fd"))
            identify(sock)
            assert sorted(os.listdir("/proc/self/fd")) == before


def test_a_peer_that_is_gone_cannot_be_told(listener: socket.socket, kernel: str) -> None:
    with peer(listener) as process:
        process.communicate(b"\n")
    with listener.accept()[0] as sock:
        found = identify(sock)
    assert (found.identity, found.lineage) == (None, None)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_peer_that_is_gone_is_not_taken_for_the_next_of_its_number(
    listener: socket.socket,
) -> None:
    with peer(listener) as process:
        process.communicate(b"\n")
    for _ in range(100):
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(process.pid - 1))
        with subprocess.Popen(["sleep", "60"]) as other:
            if other.pid == process.pid:
                with listener.accept()[0] as sock:
                    found = identify(sock)
            other.send_signal(signal.SIGKILL)
        if other.pid == process.pid:
            break
    else:
        pytest.fail("the number was never given again")
    assert (found.identity, found.lineage) == (None, None)


def test_the_lineage_ends_below_the_ancestor() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        line = lineage(process.pid, os.getpid())
        above = lineage(process.pid, os.getppid())
        assert line is not None and [one.pid for one in line] == [process.pid]
        assert above is not None and [one.pid for one in above] == [process.pid, os.getpid()]
        assert lineage(os.getppid(), os.getpid()) == ()
        process.kill()
    assert lineage(process.pid, os.getpid()) is None


@pytest.fixture(params=["127.0.0.1", "::1"])
def server(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    try:
        sock = socket.create_server((request.param, 0), family=family)
    except OSError:
        pytest.skip("no IPv6 here")
    with sock:
        yield sock


TCP = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as wire:
    input()
"""


def over_tcp(server: socket.socket) -> subprocess.Popen[bytes]:
    host, port = server.getsockname()[:2]
    argv = [sys.executable, "-c", TCP, host, str(port)]
    return subprocess.Popen(argv, stdin=subprocess.PIPE)


async def test_a_child_that_connects_over_tcp_is_below(server: socket.socket) -> None:
    with over_tcp(server) as process, server.accept()[0] as sock:
        found = await identify_tcp(sock)
        process.communicate(b"\n")
    assert found.pid == process.pid and found.lineage is not None
    assert [one.pid for one in found.lineage] == [process.pid]


async def test_who_connects_over_tcp_from_elsewhere_is_not_below(server: socket.socket) -> None:
    with (
        subprocess.Popen(["sleep", "60"]) as other,
        socket.create_connection(server.getsockname()[:2]),
        server.accept()[0] as sock,
    ):
        assert (await identify_tcp(sock)).lineage == ()
        other.kill()


async def test_a_peer_over_tcp_that_is_gone_cannot_be_told(server: socket.socket) -> None:
    with over_tcp(server) as process:
        process.communicate(b"\n")
    with server.accept()[0] as sock:
        assert (await identify_tcp(sock)).lineage is None


async def test_a_child_that_hides_what_it_has_open_cannot_be_told(
    server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = os.listdir

    def listdir(path: str) -> list[str]:
        if path == f"/proc/{process.pid}/fd":
            raise PermissionError
        return listed(path)

    with over_tcp(server) as process, server.accept()[0] as sock:
        monkeypatch.setattr(os, "listdir", listdir)
        assert (await identify_tcp(sock)).lineage is None
        with (
            socket.create_connection(server.getsockname()[:2]),
            server.accept()[0] as ours,
        ):
            assert (await identify_tcp(ours)).lineage == ()
        process.communicate(b"\n")
