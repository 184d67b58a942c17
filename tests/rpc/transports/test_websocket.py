"""The WebSocket: authentication by host, origin and token, and robustness."""

from __future__ import annotations

import json
import random
import socket
import struct
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio_websocket
from wsproto.connection import ConnectionState

from haftd.rpc.transports import websocket
from haftd.rpc.transports.handshake import Gatekeeper, Refusal
from haftd.rpc.transports.websocket import (
    NotLoopback,
    WebSocketWire,
    open_websocket_listener,
)
from tests.patience import PATIENCE_S
from tests.rpc.rig import (
    TOKEN,
    Rig,
    Served,
    StreamClient,
    WebSocketClient,
    ask,
    code,
    limits,
    ok,
    read,
    request,
    serving,
    shake,
    timeouts,
    upgrade,
)


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving(Rig(timeouts=timeouts(handshake=3))) as found:
        yield found


def shaking(port: int) -> bytes:
    """Return a valid handshake."""
    return (
        f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: Upgrade\r\n"
        f"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    ).encode()


async def alive(served: Served) -> bool:
    return bool(ok(await ask(await served.connect("websocket"), "ping")))


async def test_a_valid_token_is_accepted_in_both_places(served: Served) -> None:
    status, text = await upgrade(served.port)
    assert status == 101
    assert "sec-websocket-protocol" not in text.lower()
    status, text = await upgrade(
        served.port,
        authorization=None,
        sec_websocket_protocol=f"haft.v1, haft.token.{TOKEN}",
    )
    assert status == 101
    assert "haft.v1" in text
    assert TOKEN not in text


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:{port}", ""])
async def test_W01_an_unlisted_origin_is_refused(served: Served, origin: str) -> None:
    status, _ = await upgrade(served.port, origin=origin)
    assert status == 403
    assert served.rig.rpc_context.connections.refused["origin"] == 1


@pytest.mark.parametrize(
    "host",
    [
        "attacker.example",
        "attacker.example:{port}",
        "127.0.0.1:1",
        "127.0.0.1.evil:{port}",
        "",
        "127.0.0.1",
    ],
)
async def test_W03_an_unknown_host_is_refused(served: Served, host: str) -> None:
    status, text = await upgrade(served.port, host=host)
    assert status in (400, 403)
    assert "101" not in text


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "LocalHost:{port}"])
async def test_W03_known_hosts_are_served(served: Served, host: str) -> None:
    assert (await upgrade(served.port, host=host))[0] == 101


async def test_W04_no_origin_and_no_token_is_no_authentication(served: Served) -> None:
    status, text = await upgrade(served.port, authorization=None)
    assert status == 401
    assert TOKEN not in text
    assert served.rig.rpc_context.connections.refused["token"] == 1


@pytest.mark.parametrize(
    "shown",
    [
        "Bearer ",
        "Bearer",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}x",
        f"Basic {TOKEN}",
        TOKEN,
        "Bearer " + "x" * 10_000,
        b"Bearer \xff\xfe",
    ],
)
async def test_W05_an_invalid_token_is_refused(served: Served, shown: str | bytes) -> None:
    status, _ = await upgrade(served.port, authorization=shown)
    assert status in (400, 401)
    assert await alive(served)


async def test_W05_a_megabyte_of_token_is_refused(served: Served) -> None:
    status, _ = await upgrade(served.port, authorization="Bearer " + "x" * 1_000_000)
    assert status in (0, 400, 401)
    assert await alive(served)


async def test_W05_two_tokens_are_refused(served: Served) -> None:
    status, _ = await upgrade(served.port, sec_websocket_protocol=f"haft.v1, haft.token.{TOKEN}")
    assert status == 401


def test_W05_and_W20_after_ten_failures_each_answer_is_later_than_the_one_before() -> None:
    now = 100.0
    gate = Gatekeeper(TOKEN, hosts=["localhost"], origins=[], clock=lambda: now)
    gate.bound("127.0.0.1", 7)

    def fail() -> float:
        verdict = gate.judge("localhost:7", [(b"authorization", b"Bearer no")], [])
        assert isinstance(verdict, Refusal)
        return verdict.delay

    assert [fail() for _ in range(10)] == [0.0] * 10
    assert [fail() for _ in range(3)] == [1.0, 2.0, 3.0]
    assert gate.judge("localhost:7", [(b"authorization", f"Bearer {TOKEN}".encode())], []) is None
    now += 61
    assert fail() == 0.0


def test_hosts_and_origins_may_be_configured() -> None:
    gate = Gatekeeper(
        TOKEN, hosts=["dev.local:9000"], origins=["https://App.example/"], clock=lambda: 0.0
    )
    gate.bound("::1", 7)
    right = (b"authorization", f"Bearer {TOKEN}".encode())
    assert gate.judge("dev.local:9000", [right, (b"origin", b"https://app.example")], []) is None
    assert gate.judge("[::1]:7", [right], ["haft.v1"]) == "haft.v1"
    for host in ("dev.local", "dev.local:7", "[::1]", "::1", "[::1]:8"):
        assert isinstance(gate.judge(host, [right], []), Refusal), host
    refused = gate.judge("[::1]:7", [right, (b"origin", b"https://app.example:444")], [])
    assert isinstance(refused, Refusal)
    assert refused.status == 403


async def test_W07_the_token_is_in_no_log_line_and_no_reply(served: Served) -> None:
    await upgrade(served.port, authorization=f"Bearer {TOKEN}x")
    await upgrade(served.port, host="evil.example")
    await upgrade(served.port, host=b"\xff")
    client = await served.connect("websocket")
    await client.send(request("boom"), TOKEN[:10].encode())
    assert code(await read(client)) == -32603
    assert TOKEN not in json.dumps(served.rig.lines, default=repr)


@pytest.mark.parametrize(
    "header", ["host", "sec_websocket_protocol", "origin", "upgrade", "connection"]
)
async def test_W08_non_ascii_headers_get_a_400(served: Served, header: str) -> None:
    status, _ = await upgrade(served.port, **{header: b"caf\xe9\xff"})
    assert status in (400, 401, 403)
    assert await alive(served)


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00garbage\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET \xff HTTP/1.1\r\n\r\n",
        b"\r\n\r\n\r\n",
    ],
)
async def test_W09_an_invalid_handshake_is_refused(served: Served, data: bytes) -> None:
    status, _ = await shake(served.port, data)
    assert status in (0, 400)
    assert await alive(served)


async def test_W09_a_wrong_version_is_refused(served: Served) -> None:
    status, _ = await upgrade(served.port, sec_websocket_version="8")
    assert status == 426
    assert await alive(served)


@pytest.mark.parametrize("rounds", [150, pytest.param(20_000, marks=pytest.mark.soak)])
async def test_W09_fuzz_and_resets_end_only_their_own_connection(rounds: int) -> None:
    async with serving(Rig(timeouts=timeouts(handshake=3)), seconds=600) as served:
        chance = random.Random(rounds)
        whole = shaking(served.port)
        steady = await served.connect("websocket")
        for number in range(rounds):
            data = bytearray(whole)
            for _ in range(chance.randrange(4)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            del data[chance.randrange(1, len(data) + 1) :]
            if chance.random() < 0.5:
                data += chance.randbytes(chance.randrange(200))
            sock = socket.create_connection(("127.0.0.1", served.port))
            sock.sendall(data)
            if chance.random() < 0.7:
                await trio.lowlevel.checkpoint()
            if chance.random() < 0.6:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
            if number % 50 == 0:
                assert ok(await ask(steady, "ping"))
        assert ok(await ask(steady, "ping"))
        assert not [line for line in served.rig.lines if line["level"] == "error"]


async def connected(served: Served) -> trio_websocket.WebSocketConnection:
    client = await served.connect("websocket")
    assert isinstance(client, WebSocketClient)
    return client.connection


async def test_W11_a_message_over_the_limit_is_closed_with_1009_and_the_limit() -> None:
    async with serving(Rig(limits=limits(max_message=1000), timeouts=timeouts())) as served:
        connection = await connected(served)
        await connection.send_message("x" * 1001)
        with pytest.raises(trio_websocket.ConnectionClosed) as closed, trio.fail_after(PATIENCE_S):
            await connection.get_message()
        assert getattr(closed.value.reason, "code", 0) == 1009
        assert "1000" in str(getattr(closed.value.reason, "reason", ""))
        assert await alive(served)


async def test_W11_endless_fragments_are_not_collected() -> None:
    async with serving(Rig(timeouts=timeouts(ping=0.1, partial=0.2))) as served:
        connection = await connected(served)
        stream, lock = connection._stream, connection._stream_lock
        piece = b"\x01\x80\0\0\0\0"
        with (
            pytest.raises((trio.BrokenResourceError, trio.ClosedResourceError)),
            trio.fail_after(PATIENCE_S),
        ):
            while True:
                async with lock:
                    await stream.send_all(piece)
                piece = b"\x00\x80\0\0\0\0"  # an empty continuation
                await trio.sleep(0.02)
        assert await alive(served)


async def test_W12_compression_is_not_negotiated(served: Served) -> None:
    status, text = await upgrade(served.port, sec_websocket_extensions="permessage-deflate")
    assert status == 101
    assert "deflate" not in text


async def test_W13_a_missing_handshake_times_out() -> None:
    async with serving(Rig(timeouts=timeouts(handshake=0.2))) as served:
        for begun in (b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n"):
            status, _ = await shake(served.port, begun)
            assert status in (0, 400)
        assert await alive(served)


async def test_W13_a_disconnect_before_the_handshake_leaves_nothing() -> None:
    async with serving(Rig(timeouts=timeouts(handshake=600))) as served:
        before = len(served.nursery.child_tasks)
        for data in (b"", b"GET / HTTP/1.1\r\n"):
            stream = await trio.open_tcp_stream("127.0.0.1", served.port)
            await stream.send_all(data)
            await trio.testing.wait_all_tasks_blocked()
            assert len(served.nursery.child_tasks) == before + 1
            await stream.aclose()
            with trio.fail_after(PATIENCE_S):
                while len(served.nursery.child_tasks) > before:
                    await trio.sleep(0.01)


async def test_W13_when_full_the_oldest_handshake_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(websocket, "_HANDSHAKES", 4)
    async with serving(Rig(timeouts=timeouts(handshake=600))) as served:
        held = [await trio.open_tcp_stream("127.0.0.1", served.port) for _ in range(12)]
        assert await alive(served)
        with trio.fail_after(PATIENCE_S):
            await held[0].receive_some()  # it was closed
        assert served.rig.rpc_context.connections.refused["handshakes"] >= 8
        for stream in held:
            await stream.aclose()


async def test_W14_a_flood_of_headers_is_refused(served: Served) -> None:
    flood = b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"y" * 100) for n in range(5000))
    status, _ = await shake(served.port, flood)
    assert status in (0, 400, 431)
    assert await alive(served)


async def test_W15_a_dead_peer_is_noticed() -> None:
    async with serving(Rig(timeouts=timeouts(ping=0.1))) as served:
        connection = await connected(served)
        await connection.send_message(request("wait", 1, name="g").decode())
        await served.rig.until(lambda: served.rig.waiting == 1)
        stream = connection._stream
        assert isinstance(stream, trio.SocketStream)
        # A peer with a responsive kernel and a stuck program: reads stop.
        connection._reader_running = False
        await served.rig.until(lambda: served.rig.gone)
        assert served.rig.cancelled == 1
        assert await alive(served)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", ""])
def test_W16_only_loopback_addresses_are_bound(host: str) -> None:
    with pytest.raises(NotLoopback, match="loopback"):
        open_websocket_listener(host, 0)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.3.2.1", "::1"])
def test_W16_loopback_addresses_are_recognised(host: str) -> None:
    try:
        sock = open_websocket_listener(host, 0)
    except OSError:
        assert host == "::1", "a machine may be without IPv6"
        return
    assert sock.getsockname()[1] > 0
    assert not sock.get_inheritable()
    sock.close()


@pytest.mark.parametrize("cut", [1, 50, 10_000])
async def test_W21_frames_sent_with_the_handshake_are_served_after_it(
    served: Served, cut: int
) -> None:
    stream = await trio.open_tcp_stream("127.0.0.1", served.port)
    served.clients.append(StreamClient(stream, "lines"))

    def frame(data: bytes) -> bytes:
        return b"\x81" + bytes([0x80 | len(data)]) + b"\0\0\0\0" + data

    data = shaking(served.port)
    data += frame(request("initialize", client={"name": "x"}, protocol=1)) + frame(request("ping"))
    for start in range(0, len(data), cut):
        await stream.send_all(data[start : start + cut])
    got = b""
    with trio.fail_after(PATIENCE_S):
        while b"pong" not in got:
            got += await stream.receive_some()
    assert got.startswith(b"HTTP/1.1 101")
    assert b"welcome" in got


async def test_a_reply_that_fits_the_socket_needs_no_task_of_the_library(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await served.connect("websocket")
    server_sends: list[object] = []
    send = trio_websocket.WebSocketConnection.send_message

    async def counted(self: trio_websocket.WebSocketConnection, message: str | bytes) -> None:
        if self.is_server:
            server_sends.append(message)
        await send(self, message)

    monkeypatch.setattr(trio_websocket.WebSocketConnection, "send_message", counted)
    assert ok(await ask(client, "ping"))
    assert server_sends == []


async def test_a_pong_comes_behind_a_long_reply_that_is_partly_written(served: Served) -> None:
    size = 12_000_000

    def frame(opcode: int, data: bytes) -> bytes:
        return bytes([0x80 | opcode, 0x80 | len(data)]) + b"\0\0\0\0" + data

    stream = await trio.open_tcp_stream("127.0.0.1", served.port)
    served.clients.append(StreamClient(stream, "lines"))
    hello = request("initialize", client={"name": "x"}, protocol=1)
    await stream.send_all(
        shaking(served.port) + frame(1, hello) + frame(1, request("echo", 2, size=size))
    )
    got = bytearray()
    end = b"\x8a\x06there?"
    with trio.fail_after(PATIENCE_S):
        while b"\x81\x7f" not in got:
            got += await stream.receive_some()
        await stream.send_all(frame(9, b"there?"))
        while not got.endswith(end):
            got += await stream.receive_some()
    start = got.index(b"\x81\x7f") + 10
    length = int.from_bytes(got[start - 8 : start], "big")
    assert len(got) - len(end) == start + length
    assert len(json.loads(got[start : start + length])["result"]) == size


async def test_bytes_that_the_socket_did_not_take_come_before_the_next() -> None:
    left, right = socket.socketpair()
    with left, right:
        stream = websocket._Stream(left, timeouts(stalled=PATIENCE_S))
        first = bytes(range(256)) * 16_384
        assert not stream.write(first)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send_all, b"next")
            peer, data = trio.SocketStream(trio.socket.from_stdlib_socket(right)), bytearray()
            with trio.fail_after(PATIENCE_S):
                while len(data) < len(first) + 4:
                    data += await peer.receive_some()
        assert data == first + b"next"
        assert stream.write(b"last") and await peer.receive_some() == b"last"


async def test_a_reply_is_written_at_once_only_between_the_librarys_frames_while_open() -> None:
    library = SimpleNamespace(
        _stream_lock=trio.StrictFIFOLock(),
        _wsproto=SimpleNamespace(state=ConnectionState.OPEN, send=lambda event: event.data),
    )
    written: list[str] = []

    def write(frame: str) -> bool:
        written.append(frame)
        return True

    stream = SimpleNamespace(write=write)
    wire = WebSocketWire(cast(Any, library), cast(Any, stream), 1000, timeouts())
    async with library._stream_lock:
        assert wire.write(b"locked") == 0
    library._wsproto.state = ConnectionState.REMOTE_CLOSING
    assert wire.write(b"closing") == 0
    library._wsproto.state = ConnectionState.OPEN
    assert wire.write(b"open") == 4 and written == ["open"]


async def test_initialize_comes_first(served: Served) -> None:
    client = await served.connect("websocket", hello=False)
    assert code(await ask(client, "ping")) == -32006
    await client.send(
        b"[" + request("spawn", 1, tool="t", id="x") + b"," + request("ping", 2) + b"]"
    )
    assert [code(reply) for reply in await read(client)] == [-32006, -32006]
    assert served.rig.calls == []
    assert ok(await ask(client, "initialize", client={"name": "x"}, protocol=1)) == "welcome"
    assert ok(await ask(client, "ping"))


async def test_a_binary_frame_is_refused_with_a_sentence(served: Served) -> None:
    connection = await connected(served)
    await connection.send_message(request("ping"))
    client = WebSocketClient(connection)
    assert code(await read(client)) == -32600
    assert await read(client) is None
    assert await alive(served)


async def test_U14_an_invalid_utf8_text_frame_closes_its_connection(served: Served) -> None:
    connection = await connected(served)
    await connection._stream.send_all(b"\x81\x82\0\0\0\0\xff\xfe")
    with pytest.raises(trio_websocket.ConnectionClosed) as closed, trio.fail_after(PATIENCE_S):
        await connection.get_message()
    assert getattr(closed.value.reason, "code", 0) in (
        1006,
        1007,
    )  # the library closes without a frame
    assert await alive(served)
