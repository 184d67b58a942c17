"""The Unix socket: peer credentials, and faults that harm only their own peer."""

from __future__ import annotations

import array
import contextlib
import errno
import gc
import json
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from haftd.caller import Caller
from haftd.host import descriptors
from haftd.rpc.connection import serve_connection
from haftd.rpc.transports import accept
from haftd.rpc.transports.unix import UnixWire
from haftd.rpc.wire import Disconnected
from tests.patience import PATIENCE_S
from tests.rpc.rig import (
    QUICK,
    Rig,
    Served,
    StreamClient,
    ask,
    batch,
    code,
    limits,
    notification,
    ok,
    read,
    request,
    serving,
    timeouts,
)


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving(Rig(timeouts=timeouts()), websocket=False) as found:
        yield found


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    yield ours, theirs
    ours.close()
    theirs.close()


async def line(served: Served) -> StreamClient:
    client = await served.connect("lines")
    assert isinstance(client, StreamClient)
    return client


async def test_U01_another_uid_is_closed_before_a_byte_is_read(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    async with serving(Rig(), websocket=False) as strict:
        client = await strict.connect("lines")
        assert await read(client) is None
        assert strict.rig.rpc_context.connections.refused == {"uid": 1}
        assert len(strict.rig.rpc_context.connections) == 0


async def test_U01_another_uid_for_real(served: Served) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    Path(served.path).chmod(0o777)
    Path(served.path).parent.chmod(0o755)
    script = (
        "import os, socket, sys\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
        'try: s.send(b\'{"jsonrpc":"2.0","id":1,"method":"ping"}\\n\')\n'
        "except OSError: pass\n"
        "try: print(len(s.recv(100)))\n"
        "except ConnectionResetError: print(0)\n"
    )
    done = await trio.run_process(
        [sys.executable, "-I", "-c", script, served.path],
        capture_stdout=True,
    )
    assert done.stdout.strip() == b"0"
    assert served.rig.rpc_context.connections.refused == {"uid": 1}
    assert ok(await ask(await served.connect("lines"), "ping"))


@pytest.mark.parametrize("framing", ["lines", "headers"])
@pytest.mark.parametrize("piece", [1, 7, 64])
async def test_a_message_in_any_cut_is_read_the_same(
    served: Served, framing: str, piece: int
) -> None:
    client = StreamClient(
        await trio.open_unix_socket(served.path),
        "lines" if framing == "lines" else "headers",
    )
    served.clients.append(client)
    body = request("echo", text="häft")
    data = (
        body + b"\n" if framing == "lines" else b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    )
    for start in range(0, len(data), piece):
        await client.stream.send_all(data[start : start + piece])
        await trio.testing.wait_all_tasks_blocked()
    assert ok(await read(client)) == "häft"


async def test_a_stream_with_another_beginning_gets_one_error(served: Served) -> None:
    client = await line(served)
    # More than the kernel buffers: a peer still sending at our close would lose the reply to a
    # reset.
    await client.stream.send_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 100_000)
    reply = await read(client)
    assert (reply["id"], code(reply)) == (None, -32700)
    assert await read(client) is None


async def test_a_last_line_without_a_newline_is_answered(served: Served) -> None:
    client = await line(served)
    await client.stream.send_all(request("ping", 1) + b"\n" + request("echo", 2, text="last"))
    await client.stream.send_eof()
    assert [(await read(client))["id"], ok(await read(client))] == [1, "last"]
    assert await read(client) is None


@pytest.mark.parametrize("cut", [b'{"jsonrpc":"2.0","id":', b"Content-Length: 20\r\n\r\n{}"])
async def test_a_stream_that_ends_within_a_message_gets_one_parse_error(cut: bytes) -> None:
    patient = Rig(timeouts=timeouts(partial=PATIENCE_S))
    async with serving(patient, websocket=False) as served:
        stream = await trio.open_unix_socket(served.path)
        client = StreamClient(stream, "lines" if cut.startswith(b"{") else "headers")
        served.clients.append(client)
        await stream.send_all(cut)
        await stream.send_eof()
        reply = await read(client)
        assert (reply["id"], code(reply)) == (None, -32700)
        assert await read(client) is None


async def test_U05_an_incomplete_message_times_out(served: Served) -> None:
    client = await line(served)
    quiet = await line(served)
    assert ok(await ask(client, "ping"))
    await client.stream.send_all(b'{"jsonrpc"')
    reply = await read(client)
    assert code(reply) == -32009
    assert reply["error"]["data"]["limit"] == "partial_s"
    assert await read(client) is None
    assert ok(await ask(quiet, "ping"))  # silent for as long, which is permitted


async def test_U05_a_single_byte_does_not_extend_the_deadline(autojump_clock: object) -> None:
    ours, theirs = socket.socketpair()
    wire = UnixWire(ours, 1000, timeouts(partial=30))
    try:
        begun = trio.current_time()
        theirs.send(b"{")
        while wire.fault is None:
            with trio.move_on_after(10):
                await wire.receive()
            theirs.send(b" ")
        assert trio.current_time() - begun == pytest.approx(30, abs=1)
    finally:
        await wire.close(graceful=False)
        theirs.close()


async def test_U05_every_whole_message_renews_the_deadline(autojump_clock: object) -> None:
    ours, theirs = socket.socketpair()
    wire = UnixWire(ours, 1000, timeouts(partial=30))
    theirs.setblocking(False)
    try:
        for _ in range(5):
            theirs.send(b'1}\n{"a":' if _ else b'{"a":')
            with trio.move_on_after(20):
                while True:
                    await wire.receive()
        assert wire.fault is None
        assert await wire.receive() == []
        assert wire.fault is not None
    finally:
        await wire.close(graceful=False)
        theirs.close()


class CountedReads:
    """A socket that notes the length of each read, None without input."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.lengths: list[int | None] = []

    def recv(self, size: int) -> bytes:
        self.lengths.append(None)
        data = self._sock.recv(size)
        self.lengths[-1] = len(data)
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


async def test_a_message_takes_one_read(pair: tuple[socket.socket, socket.socket]) -> None:
    """A read that does not fill its buffer has emptied the socket: no other finds that out."""
    ours, theirs = pair
    reads: Any = CountedReads(ours)
    wire = UnixWire(reads, 1_000_000, timeouts())
    messages = [b"{}", b"[]", b"[%b]" % (b" " * 70_000)]
    received: list[bytes] = []

    async def receive() -> None:
        while (whole := await wire.receive()) is not None:
            received.extend(whole)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive)
        for message in messages:
            await wait_all_tasks_blocked()
            theirs.sendall(message + b"\n")
        await wait_all_tasks_blocked()
        theirs.shutdown(socket.SHUT_WR)
    assert received == messages
    assert reads.lengths == [None, 3, 3, 65_536, 70_003 - 65_536, 0]


async def test_U06_after_a_half_close_pending_replies_are_delivered(served: Served) -> None:
    client = await line(served)
    await client.send(request("wait", 1, name="g"), request("ping", 2))
    await client.stream.send_eof()
    assert (await read(client))["id"] == 2
    await served.rig.until(lambda: served.rig.waiting == 1)
    served.rig.gates["g"].set()
    assert ok(await read(client)) == "g"
    assert await read(client) is None
    await served.rig.until(lambda: served.rig.gone)


async def test_U06_after_a_full_close_the_rest_is_cancelled(served: Served) -> None:
    client = await line(served)
    await client.send(request("wait", 1, name="g"))
    await client.stream.send_eof()
    await served.rig.until(lambda: served.rig.waiting == 1)
    await trio.testing.wait_all_tasks_blocked()
    assert served.rig.cancelled == 0
    await client.aclose()
    await served.rig.until(lambda: served.rig.gone)
    assert served.rig.cancelled == 1


async def test_U06_a_late_reply_after_a_half_close_may_be_large(served: Served) -> None:
    client = await line(served)
    await client.send(request("echo", size=5_000_000))
    await client.stream.send_eof()
    assert len(ok(await read(client))) == 5_000_000
    assert await read(client) is None


async def test_U07_a_slow_reader_is_kept(pair: tuple[socket.socket, ...]) -> None:
    ours, theirs = pair
    rig = Rig(timeouts=timeouts(stalled=0.5))
    theirs.setblocking(False)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            serve_connection, UnixWire(ours, 1000, rig.timeouts), Caller("unix"), rig.rpc_context
        )
        theirs.send(request("echo", size=1_500_000) + b"\n")
        begun, got = time.monotonic(), 0
        while got < 1_500_000:
            await trio.sleep(0.1)
            got += len(theirs.recv(200_000))
        assert time.monotonic() - begun > 0.6
        theirs.close()
    assert len(rig.gone) == 1


async def test_U07_reading_stops_for_a_peer_that_does_not_read(served: Served) -> None:
    """Replies that cannot be written stop the reading of requests: the queue stays small."""
    client = await line(served)
    assert ok(await ask(client, "ping"))
    (connection,) = served.rig.rpc_context.connections._open
    ping = request("echo", size=1000) + b"\n"
    with pytest.raises(trio.BrokenResourceError), trio.fail_after(PATIENCE_S):
        while True:
            await client.stream.send_all(ping * 100)
            assert connection._outbox.queued < served.rig.limits.max_queued
    await served.rig.until(lambda: served.rig.gone)


async def test_replies_that_come_all_at_once_wait_for_their_reader(served: Served) -> None:
    client = await line(served)
    most, size = served.rig.limits.max_in_flight, served.rig.limits.max_queued // 2
    await client.send(*(request("late", n, name="g", size=size) for n in range(most)))
    await served.rig.until(lambda: served.rig.waiting == most)
    (connection,) = served.rig.rpc_context.connections._open
    served.rig.gates["g"].set()
    await trio.testing.wait_all_tasks_blocked()
    assert connection._outbox.queued <= size + 1000
    for _ in range(most):
        assert len(ok(await read(client))) == size


async def test_many_messages_in_one_read_yield_to_other_connections(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    rig = Rig()
    turns, seen = 0, set()
    note = rig.note

    def record(caller: Caller, params: Any) -> str:
        seen.add(turns)
        return note(caller, params)

    rig.rpc_context.dispatcher._methods["note"]._handler = record
    theirs.send((request("note", name="n") + b"\n") * 800)

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(others)
        nursery.start_soon(
            serve_connection, UnixWire(ours, 1000, QUICK), Caller("unix"), rig.rpc_context
        )
        await rig.until(lambda: len(rig.calls) == 800)
        theirs.close()
        await rig.until(lambda: rig.gone)
        nursery.cancel_scope.cancel()
    assert len(seen) >= 800 // 64 // 2


async def test_U09_with_more_connects_than_descriptors_existing_peers_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    rig = Rig(limits=limits(max_connections=10_000), timeouts=timeouts())
    async with serving(rig, websocket=False) as served:
        first = await line(served)
        assert ok(await ask(first, "ping"))
        # Connect from outside: here the daemon is to run out, not its clients.
        script = (
            "import socket, sys, resource\n"
            "resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))\n"
            "held = []\n"
            "for _ in range(int(sys.argv[2])):\n"
            "    s = socket.socket(socket.AF_UNIX); s.setblocking(False)\n"
            "    try: s.connect(sys.argv[1])\n"
            "    except OSError: s.close()\n"
            "    else: held.append(s)\n"
            "print(len(held), flush=True)\n"
            "sys.stdin.read()\n"
        )
        used = len(os.listdir("/proc/self/fd"))
        limit = used + 100
        flood = await trio.lowlevel.open_process(
            [sys.executable, "-I", "-c", script, served.path, "600"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert flood.stdout is not None
        assert flood.stdin is not None
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        try:
            held = int(await flood.stdout.receive_some())
            assert held > 100
            with trio.fail_after(PATIENCE_S):
                while not rig.rpc_context.connections.refused["descriptors"]:
                    assert ok(await ask(first, "ping"))
            assert ok(await ask(first, "ping"))
            assert len(os.listdir("/proc/self/fd")) <= limit - descriptors.count_spare() + 2
            logged = [line for line in rig.lines if line.get("kind") == "descriptors"]
            assert 1 <= len(logged) <= 5
            await flood.stdin.aclose()
            await flood.wait()
            with trio.fail_after(PATIENCE_S):
                late = await line(served)
                assert ok(await ask(late, "ping"))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            flood.kill()
            await flood.wait()
            await flood.stdout.aclose()


def _not_refused(_sock: socket.socket) -> None:
    raise AssertionError("the lack of descriptors has not lasted")


async def test_clients_are_refused_once_a_lack_of_descriptors_has_lasted(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """The refusal uses a spare descriptor, so that every client gets an answer. Clients are accepted again
    once there is room."""
    room = False
    monkeypatch.setattr(accept, "has_room", lambda _fd, _use: room)
    async with serving(Rig(), websocket=False, seconds=1000) as served:
        began = trio.current_time()
        clients = [await line(served) for _ in range(3)]
        for client in clients:
            error = (await read(client))["error"]
            assert (error["code"], error["data"]["limit"]) == (-32009, "open_files")
            assert await client.receive() is None
        assert accept._MAX_WAIT_S <= trio.current_time() - began < accept._MAX_WAIT_S + 2
        room = True
        assert ok(await ask(await line(served), "ping"))


async def test_a_client_waits_to_be_accepted_until_there_is_room(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Accepted and closed at once, the client would lose a connection that was made."""
    # The last of each row is asked after the client was accepted; no room then, and it is asked again.
    rooms = [
        *(False, False, True, False),
        *(False, True, True),
        *(True,),
    ]
    monkeypatch.setattr(accept, "_PAUSE", 0.001)
    monkeypatch.setattr(accept, "has_room", lambda _fd, _use: rooms.pop(0))
    rig = Rig()
    with contextlib.ExitStack() as stack:
        listener, *clients = (stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(4))
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        accept_next = accept.acceptor(listener, rig.rpc_context, _not_refused)
        for client, pauses in zip(clients, (2, 3, 3), strict=True):
            client.connect(str(tmp_path / "s"))
            with trio.fail_after(PATIENCE_S):
                accepted = stack.enter_context(await accept_next())
            client.send(b"ping")
            assert accepted.recv(4) == b"ping"
            assert rig.rpc_context.connections.refused["descriptors"] == pauses
    assert not rooms


async def test_U10_running_out_of_descriptors_logs_little_and_recovers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(accept, "_PAUSE", 0.001)
    rig = Rig()
    real, peer = socket.socketpair()
    left = 100

    class Listener:
        family, type, proto = socket.AF_UNIX, socket.SOCK_STREAM, 0

        def setblocking(self, _on: bool) -> None: ...

        def fileno(self) -> int:
            return real.fileno()

        def _accept(self) -> tuple[int, str]:
            nonlocal left
            left -= 1
            if left:
                raise OSError(errno.EMFILE, "Too many open files")
            return accepted, ""

    accepted = os.dup(real.fileno())
    with real, peer:
        taken = await accept.acceptor(Listener(), rig.rpc_context, _not_refused)()  # type: ignore[arg-type]
        assert taken.fileno() == accepted and taken.family == socket.AF_UNIX
        taken.close()
    assert rig.rpc_context.connections.refused["descriptors"] == 99
    assert len(rig.lines) == 7  # the 1st, 2nd, 4th … 64th


async def test_a_connection_that_died_in_the_queue_is_no_fault() -> None:
    rig = Rig()
    real, peer = socket.socketpair()
    faults = [errno.ECONNABORTED, errno.EPROTO, errno.EPERM]

    class Listener:
        family, type, proto = socket.AF_UNIX, socket.SOCK_STREAM, 0

        def setblocking(self, _on: bool) -> None: ...

        def fileno(self) -> int:
            return real.fileno()

        def _accept(self) -> tuple[int, str]:
            if faults:
                raise OSError(faults.pop(), "x")
            return accepted, ""

    accepted = os.dup(real.fileno())
    with real, peer:
        taken = await accept.acceptor(Listener(), rig.rpc_context, _not_refused)()  # type: ignore[arg-type]
        assert taken.fileno() == accepted and taken.family == socket.AF_UNIX
        taken.close()


@pytest.mark.parametrize("levels", [70, 1_100, 20_000])
async def test_U13_nesting_is_refused_and_the_connection_stays(served: Served, levels: int) -> None:
    client = await line(served)
    deep = b"[" * levels + b"]" * levels
    await client.send(b'{"jsonrpc":"2.0","id":3,"method":"echo","params":{"text":' + deep + b"}}")
    reply = await read(client)
    assert code(reply) in (-32700, -32009)
    assert "max_nesting" in json.dumps(reply)
    assert ok(await ask(client, "ping"))


async def test_a_batch_that_cancels_a_call_before_it_is_answered(served: Served) -> None:
    client = await line(served)
    await client.send(request("wait", 1, name="x"))
    await client.send(batch(notification("$/cancelRequest", id=1), request("ping", 2)))
    told = [await read(client), await read(client)]
    assert [
        message["id"] for message in told if isinstance(message, list) for message in message
    ] == [2]
    assert [code(message) for message in told if isinstance(message, dict)] == [-32800]


async def test_U17_invalid_ids_are_refused(served: Served) -> None:
    client = await line(served)
    for id_ in ("1.5", "true", "{}", "[1]", "1" * 30, '"' + "x" * 100_000 + '"'):
        await client.send(f'{{"jsonrpc":"2.0","id":{id_},"method":"ping"}}'.encode())
        reply = await read(client)
        assert (reply["id"], code(reply)) == (None, -32600)
    assert ok(await ask(client, "ping"))


@pytest.mark.parametrize("rounds", [300, pytest.param(10_000, marks=pytest.mark.soak)])
async def test_U21_peers_that_close_during_a_write_harm_nothing(rounds: int) -> None:
    async with serving(Rig(timeouts=timeouts()), websocket=False, seconds=600) as served:
        steady = await line(served)
        ask_much = (request("echo", size=20_000) + b"\n") * 20
        for number in range(rounds):
            sock = socket.socket(socket.AF_UNIX)
            sock.setblocking(False)
            sock.connect(served.path)
            sock.send(ask_much)
            if number % 3:
                await trio.lowlevel.checkpoint()
            sock.close()
            if number % 10 == 0:
                assert ok(await ask(steady, "ping"))
        await served.rig.until(lambda: len(served.rig.gone) == rounds)
        assert not [line for line in served.rig.lines if line["level"] == "error"]


async def test_U26_ancillary_descriptors_are_not_received(served: Served) -> None:
    client = await line(served)
    assert ok(await ask(client, "ping"))
    before = len(os.listdir("/proc/self/fd"))
    with open("/dev/null") as spare:
        rights = array.array("i", [spare.fileno()] * 20)
        await client.stream.socket.sendmsg(
            [request("ping", 2) + b"\n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
        )
        assert (await read(client))["id"] == 2
    assert len(os.listdir("/proc/self/fd")) == before


async def test_U28_a_callers_text_is_cut_and_escaped(served: Served) -> None:
    client = await line(served)
    reply = await ask(client, "no\x1b[31m\n" * 10_000)
    assert code(reply) == -32601
    assert len(reply["error"]["message"]) <= 512
    assert "\x1b" not in reply["error"]["message"]
    assert "\n" not in reply["error"]["message"]


class _Ahead:
    """A socket whose peer is always ahead: a request to read, and room for answers. Stops
    reading after so many reads that no other task can have had a turn."""

    MOST = 10_000

    def __init__(self, sock: socket.socket) -> None:
        self.reads = 0
        self._sock = sock

    def recv(self, size: int) -> bytes:
        self.reads += 1
        return request("ping") + b"\n" if self.reads < self.MOST else b""

    def send(self, data: bytes) -> int:
        return len(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


async def test_a_busy_peer_yields_to_others(
    served: Served, pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await line(served)
    wire = UnixWire(pair[0], 1000, QUICK)
    ahead = _Ahead(pair[0])
    monkeypatch.setattr(wire, "_sock", ahead)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_connection, wire, Caller("unix"), served.rig.rpc_context)
        for _ in range(20):
            assert ok(await ask(other, "ping"))
        assert 0 < ahead.reads < ahead.MOST
        nursery.cancel_scope.cancel()


async def test_the_pid_of_the_peer_is_known(served: Served) -> None:
    client = await line(served)
    assert ok(await ask(client, "ping"))
    (connection,) = served.rig.rpc_context.connections._open
    assert connection._caller.pid == os.getpid()


async def test_a_lost_wire_reports_the_loss(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    wire = UnixWire(ours, 1000, QUICK)
    theirs.close()
    with pytest.raises(Disconnected):
        wire.write(b"x")
    await wire.close(graceful=True)
    assert ours.fileno() == -1


async def test_a_close_lasts_while_something_is_unread(
    pair: tuple[socket.socket, socket.socket], autojump_clock: object
) -> None:
    ours, theirs = pair
    wire = UnixWire(ours, 1024, QUICK)
    assert wire.write(b"the last reply") == 14
    began = trio.current_time()
    assert theirs.recv(100) == b"the last reply"
    await wire.close(graceful=True)
    assert trio.current_time() == began  # an editor that keeps its connection delays no stop
    assert theirs.recv(100) == b""


async def test_unread_data_is_waited_for(
    pair: tuple[socket.socket, socket.socket], autojump_clock: object
) -> None:
    ours, theirs = pair
    wire = UnixWire(ours, 1024, QUICK)
    assert wire.write(b"the last reply") == 14
    theirs.sendall(b"what nobody reads any more")
    began = trio.current_time()
    await wire.close(graceful=True)
    assert trio.current_time() == pytest.approx(began + QUICK.close_grace)


async def test_a_fault_in_the_rpc_layer_ends_one_connection(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = await line(served), await line(served)
    assert ok(await ask(good, "ping"))
    real = served.rig.rpc_context.dispatcher.receive

    def receive(caller: Caller, message: bytes, room: int) -> object:
        if b"trap" in message:
            raise MemoryError("planted")
        return real(caller, message, room)

    monkeypatch.setattr(
        type(served.rig.rpc_context.dispatcher), "receive", lambda _self, *a: receive(*a)
    )
    await bad.send(request("trap"))
    assert await read(bad) is None
    assert ok(await ask(good, "ping"))
    assert [line["event"] for line in served.rig.lines if line["level"] == "error"] == [
        "connection failed"
    ]


async def test_a_wire_is_writable_when_most_was_read_beside_a_sending_peer(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    """A write then needs no deadline, so a peer that reads nothing of it is not disconnected."""
    ours, theirs = pair
    ours.setblocking(False)
    theirs.setblocking(False)
    wire = UnixWire(ours, 1000, timeouts(stalled=30))
    await wire.writable()
    while wire.write(b"x" * 10_000):
        pass
    found: list[str] = []

    async def wait() -> None:
        await wire.writable()
        found.append("writable")

    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wire.send, b"more")
            nursery.start_soon(wait)
            await wait_all_tasks_blocked()
            assert not found
            read_all(theirs)


def read_all(sock: socket.socket) -> None:
    with contextlib.suppress(BlockingIOError):
        while sock.recv(1 << 20):
            pass


async def test_a_task_that_waits_for_input_keeps_no_exception(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    wire = UnixWire(pair[0], 1024, QUICK)
    gc.collect()
    before = sum(isinstance(value, BlockingIOError) for value in gc.get_objects())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wire.receive)
        await wait_all_tasks_blocked()
        after = sum(isinstance(value, BlockingIOError) for value in gc.get_objects())
        nursery.cancel_scope.cancel()
    assert after == before
