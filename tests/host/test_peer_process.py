"""The peer process of a connection, and its descent from this process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from haftd.host.process import ancestry, peer_process
from haftd.host.process.ancestry import find_lineage
from haftd.host.process.identity import Identity, Stat, is_alive
from haftd.host.process.peer_process import identify, identify_tcp

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
        monkeypatch.setattr(peer_process, "_SO_PEERPIDFD", OLD_KERNEL)
    return str(request.param)


def test_a_connecting_child_is_a_descendant(listener: socket.socket, kernel: str) -> None:
    with peer(listener, "setsid", "-w") as process, listener.accept()[0] as sock:
        found = identify(sock)
        assert found.uid == os.geteuid() and found.lineage is not None
        assert found.pid == found.lineage[0].pid and found.lineage[-1].parent == os.getpid()
        assert process.pid in [process.pid for process in found.lineage]
        assert found.identity is not None and is_alive(found.identity)
        process.communicate(b"\n")
    assert not is_alive(found.identity)


def test_a_process_is_not_its_own_descendant(listener: socket.socket, kernel: str) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(listener.getsockname())
        with listener.accept()[0] as sock:
            peer = identify(sock)
    assert (peer.pid, peer.lineage) == (os.getpid(), ())


def test_a_stranger_is_read_once_and_must_be_there_each_time(
    listener: socket.socket, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_process, "_strangers", {})
    with (
        subprocess.Popen(["sleep", "60"]) as above,
        socket.socket(socket.AF_UNIX) as client,
    ):
        client.connect(listener.getsockname())
        monkeypatch.setattr(os, "getpid", lambda: above.pid)
        with listener.accept()[0] as sock:
            first = identify(sock)
            assert first.identity is not None and first.lineage == ()
            if not first.identity.inode:
                pytest.skip("the kernel has no inode for each pidfd")
            monkeypatch.setattr(peer_process, "read_stat", lambda pid: pytest.fail("read again"))
            assert identify(sock) == first
            monkeypatch.setattr(peer_process, "_is_unreaped", lambda pidfd: False)
            gone = identify(sock)
        above.kill()
    assert (gone.identity, gone.lineage) == (None, None)


def test_only_strangers_for_good_are_remembered_and_not_too_many(
    listener: socket.socket, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a descendant, nor a process that /proc hides now, nor one of another process's strangers."""
    monkeypatch.setattr(peer_process, "_strangers", {})
    with peer(listener) as process, listener.accept()[0] as sock:
        assert identify(sock).lineage
        assert peer_process._strangers == {}
        monkeypatch.setattr(peer_process, "find_lineage", lambda pid, above, stat: ())
        assert identify(sock).lineage == () and peer_process._strangers == {}
        process.communicate(b"\n")
    identity = Identity(1, 2, 3, "boot", 4)
    for inode in range(2, 1000):
        peer_process._remember(identity._replace(inode=inode), os.getpid())
    assert len(peer_process._strangers) == peer_process._MAX_STRANGERS
    assert (os.getpid(), 999) in peer_process._strangers
    assert (os.getppid(), 999) not in peer_process._strangers


def test_no_descriptor_is_left(listener: socket.socket, kernel: str) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(listener.getsockname())
        with listener.accept()[0] as sock:
            before = sorted(os.listdir("/proc/self/fd"))
            identify(sock)
            assert sorted(os.listdir("/proc/self/fd")) == before


def test_a_vanished_peer_is_unknown(listener: socket.socket, kernel: str) -> None:
    with peer(listener) as process:
        process.communicate(b"\n")
    with listener.accept()[0] as sock:
        found = identify(sock)
    assert (found.identity, found.lineage) == (None, None)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_vanished_peer_is_not_mistaken_for_the_next_with_its_pid(
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
        line = find_lineage(process.pid, os.getpid())
        above = find_lineage(process.pid, os.getppid())
        assert line is not None and [ancestor.pid for ancestor in line] == [process.pid]
        assert above is not None and [ancestor.pid for ancestor in above] == [
            process.pid,
            os.getpid(),
        ]
        assert find_lineage(os.getppid(), os.getpid()) == ()
        process.kill()
    assert find_lineage(process.pid, os.getpid()) is None


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


ELSEWHERE = f"""
import os
if os.fork():
    os._exit(0)
{TCP}
"""
"""An orphan, which is no descendant of this process, but where this process adopts orphans."""


def over_tcp(server: socket.socket, code: str = TCP) -> subprocess.Popen[bytes]:
    host, port = server.getsockname()[:2]
    argv = [sys.executable, "-c", code, host, str(port)]
    return subprocess.Popen(argv, stdin=subprocess.PIPE)


async def test_a_child_connecting_over_tcp_is_a_descendant(server: socket.socket) -> None:
    with over_tcp(server) as process, server.accept()[0] as sock:
        peer = await identify_tcp(sock)
        process.communicate(b"\n")
    assert peer.pid == process.pid and peer.lineage is not None
    assert [process.pid for process in peer.lineage] == [process.pid]


async def test_a_tcp_peer_from_elsewhere_is_no_descendant(server: socket.socket) -> None:
    with (
        subprocess.Popen(["sleep", "60"]) as other,
        over_tcp(server, ELSEWHERE) as started,
    ):
        started.wait()
        with server.accept()[0] as sock:
            assert (await identify_tcp(sock)).lineage == ()
        other.kill()


async def test_a_connection_of_the_process_itself_is_unknown(server: socket.socket) -> None:
    """The proxy makes some, for sandboxed tools."""
    with socket.create_connection(server.getsockname()[:2]), server.accept()[0] as sock:
        assert (await identify_tcp(sock)).lineage is None


async def test_a_vanished_tcp_peer_is_unknown(server: socket.socket) -> None:
    with over_tcp(server) as process:
        process.communicate(b"\n")
    with server.accept()[0] as sock:
        assert (await identify_tcp(sock)).lineage is None


IN_FLIGHT = """
import socket, sys
ours, theirs = socket.socketpair()
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as wire:
    socket.send_fds(ours, [b" "], [wire.fileno()])
print(flush=True)
input()
"""
OF_A_THREAD = """
import ctypes, socket, sys, threading
def hold():
    if ctypes.CDLL(None).unshare(0x400):  # CLONE_FILES
        sys.exit("no table of its own")
    with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as wire:
        print(flush=True)
        input()
thread = threading.Thread(target=hold)
thread.start()
thread.join()
"""


@pytest.mark.parametrize("code", [IN_FLIGHT, OF_A_THREAD])
async def test_a_connection_without_a_visible_owner_is_unknown(
    server: socket.socket, code: str
) -> None:
    argv = [sys.executable, "-c", code, *map(str, server.getsockname()[:2])]
    with (
        subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process,
        server.accept()[0] as sock,
    ):
        assert process.stdout is not None and process.stdout.readline() == b"\n"
        assert (await identify_tcp(sock)).lineage is None
        process.communicate(b"\n")


AS_ANOTHER = """
import os, socket, sys
os.seteuid(65534)
wire = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
wire.connect((sys.argv[1].encode(), int(sys.argv[2])))
os.seteuid(0)
input()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser becomes another user")
async def test_the_owner_of_a_connection_is_not_its_holder(server: socket.socket) -> None:
    argv = [sys.executable, "-c", AS_ANOTHER, *map(str, server.getsockname()[:2])]
    with (
        subprocess.Popen(argv, stdin=subprocess.PIPE) as process,
        server.accept()[0] as sock,
    ):
        peer = await identify_tcp(sock)
        assert peer.lineage is None or [process.pid for process in peer.lineage] == [process.pid]
        process.communicate(b"\n")


async def test_a_child_with_hidden_descriptors_is_unknown(
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
        with over_tcp(server, ELSEWHERE) as started:
            started.wait()
            with server.accept()[0] as ours:
                assert (await identify_tcp(ours)).lineage == ()
        process.communicate(b"\n")


def stat(pid: int, parent: int, ticks: int) -> Stat:
    return Stat(pid, "S", parent, pid, pid, 0, 0, ticks)


def walked(
    monkeypatch: pytest.MonkeyPatch, *walks: list[Stat]
) -> tuple[tuple[int, ...] | None, int]:
    """Return the lineage of process 9 below 1, with the given view per walk, and the number of
    walks."""
    turns = iter(walks)
    seen: dict[int, Stat] = {}
    count = 0

    def read(pid: int) -> Stat | None:
        nonlocal count
        if pid == 9:
            count += 1
            seen.clear()
            seen.update({ancestor.pid: ancestor for ancestor in next(turns)})
        return seen.get(pid)

    monkeypatch.setattr(ancestry, "read_stat", read)
    monkeypatch.setattr(ancestry, "_strangers", {})
    line = find_lineage(9, 1)
    return (None if line is None else tuple(ancestor.pid for ancestor in line)), count


def test_a_lineage_of_ever_older_parents_is_walked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = [stat(9, 8, 30), stat(8, 7, 20), stat(7, 1, 10)]
    assert walked(monkeypatch, line) == ((9, 8, 7), 1)
    away = [stat(9, 8, 30), stat(8, 0, 20)]
    assert walked(monkeypatch, away) == ((), 1)


def test_a_parent_with_a_reused_pid_is_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Process 8 ended after the look at its child, and a stranger took its pid."""
    stranger = [stat(9, 8, 30), stat(8, 0, 31)]
    real = [stat(9, 7, 30), stat(7, 1, 10)]
    assert walked(monkeypatch, stranger, real) == ((9, 7), 2)
    within_a_tick = [stat(9, 8, 30), stat(8, 0, 30)]
    assert walked(monkeypatch, within_a_tick, real) == ((9, 7), 2)
    siblings = [stat(9, 8, 30), stat(8, 1, 30)]
    assert walked(monkeypatch, siblings, siblings) == ((9, 8), 2)


def test_an_ancestor_known_as_a_stranger_ends_the_walk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads: list[int] = []
    line = {ancestor.pid: ancestor for ancestor in (stat(9, 8, 30), stat(8, 7, 20), stat(7, 0, 10))}

    def read(pid: int) -> Stat | None:
        reads.append(pid)
        return line.get(pid)

    monkeypatch.setattr(ancestry, "read_stat", read)
    monkeypatch.setattr(ancestry, "_strangers", {})
    assert find_lineage(9, 1) == () and reads == [9, 8, 7]
    line[6] = stat(6, 8, 40)
    assert find_lineage(6, 1) == () and reads[3:] == [6, 8]
    # The pid of a stranger is a child's of this process by now.
    line[8], line[5] = stat(8, 1, 35), stat(5, 8, 40)
    assert find_lineage(5, 1) == (line[5], line[8])


def test_a_process_of_the_current_tick_is_not_remembered_as_a_stranger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another process could get its pid within the tick."""
    now = int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))
    line = {ancestor.pid: ancestor for ancestor in (stat(9, 8, now + 1000), stat(8, 0, 20))}
    monkeypatch.setattr(ancestry, "read_stat", line.get)
    monkeypatch.setattr(ancestry, "_strangers", {})
    assert find_lineage(9, 1) == ()
    assert [pid for _, pid, _ in ancestry._strangers] == [8]
