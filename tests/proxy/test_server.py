"""The proxy holds each tool to the rules of its credential, by name, address, port and scheme."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
import trio
from trio.testing import memory_stream_pair

from haftd.proxy import server
from haftd.proxy.heads import MAX_HEAD
from haftd.proxy.server import Proxy
from haftd.tools.definitions.access import AccessPolicy, NetRule
from tests.patience import PATIENCE_S

OWN = NetRule("127.0.0.1")
"""The address of the server is no public one."""
TLS = b"\x16\x03\x01\x00\x02\x01\x00"


@dataclass
class World:
    """A proxy, and a server that answers with what it was sent."""

    proxy: Proxy
    nursery: trio.Nursery
    port: int
    names: dict[str, Sequence[str]]
    asked: list[str] = field(default_factory=list)
    received: list[bytes] = field(default_factory=list)

    def url(self, *rules: NetRule, mark: str = "m") -> str:
        return self.proxy.admit(mark, "fetch", AccessPolicy(net=rules))

    async def ask(self, url: str, request: str, *fields: str, body: bytes = b"") -> bytes:
        """Send one request and read to the end."""
        async with await self.open(url, request, *fields) as stream:
            reply = b""
            while request.startswith("CONNECT") and b"\r\n\r\n" not in reply:
                reply += await stream.receive_some()
            if not request.startswith("CONNECT") or status(reply) == 200:
                await stream.send_all(body)
                await stream.send_eof()
            return reply + b"".join([bytes(data) async for data in stream])

    async def open(self, url: str, request: str, *fields: str) -> trio.SocketStream:
        parts = urlsplit(url)
        credential = base64.b64encode(f"{parts.username}:{parts.password}".encode()).decode()
        stream = await trio.open_tcp_stream(str(parts.hostname), parts.port or 0)
        lines = (f"{request} HTTP/1.1", f"Proxy-Authorization: Basic {credential}", *fields, "", "")
        await stream.send_all("\r\n".join(lines).encode())
        return stream

    async def tunnel(self, url: str, host: str, body: bytes = b"x", port: int = 0) -> bytes:
        return await self.ask(url, f"CONNECT {host}:{port or self.port}", body=body)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as found:
        yield found


@asynccontextmanager
async def open_world() -> AsyncIterator[World]:
    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            data = b""
            async for part in stream:
                data += part
                found.received.append(bytes(part))
                await stream.send_all(b"<" + part + b">")
                if b"Connection: close" in data and (
                    b"chunked" not in data or data.endswith(b"T: 1\r\n\r\n")
                ):
                    return

    async def resolve(host: str, port: int) -> Sequence[str]:
        found.asked.append(host)
        if host not in found.names:
            raise OSError(2, "no such name")
        return found.names[host]

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        names: dict[str, Sequence[str]] = {
            "a.org": ["127.0.0.1"],
            "localhost": ["127.0.0.1"],
            "127.0.0.1": ["127.0.0.1"],
            "::1": ["::1"],
            "both.org": ["127.0.0.9", "127.0.0.1"],
        }
        found = World(Proxy(nursery, resolve), nursery, listener.socket.getsockname()[1], names)
        yield found
        nursery.cancel_scope.cancel()


def status(reply: bytes) -> int:
    return int(reply.split(b" ", 2)[1])


@pytest.mark.parametrize(
    ("rules", "host", "code"),
    [
        ([NetRule("127.0.0.1")], "127.0.0.1", 200),
        ([NetRule("127.0.0.1")], "127.1", 200),
        ([NetRule("127.0.0.1")], "0x7f000001", 200),
        ([NetRule("127.0.0.1")], "[::ffff:127.0.0.1]", 200),
        ([NetRule("127.0.0.1")], "[::1]", 403),
        ([NetRule("::1")], "127.0.0.1", 403),
        ([NetRule("a.org")], "a.org", 403),
        ([NetRule("localhost")], "localhost", 403),
        ([NetRule("a.org"), NetRule("127.0.0.1")], "a.org", 200),
        ([NetRule("a.org"), NetRule("127.0.0.1")], "A.ORG.", 200),
        ([NetRule("a.org", port=1), NetRule("127.0.0.1")], "a.org", 403),
        ([NetRule("a.org"), NetRule("127.0.0.1", port=1)], "a.org", 403),
        ([NetRule("*", port=1)], "a.org", 403),
        ([NetRule("*"), NetRule("127.0.0.1", allow=False)], "a.org", 403),
        ([NetRule("*"), NetRule("127.0.0.1", allow=False)], "127.0.0.1", 403),
        ([NetRule("*"), NetRule("a.org", allow=False)], "a.org", 403),
        ([NetRule("*.a.org")], "a.org", 403),
        ([], "a.org", 403),
    ],
)
async def test_a_rule_decides_by_name_address_and_port(
    world: World, rules: list[NetRule], host: str, code: int
) -> None:
    reply = await world.tunnel(world.url(*rules), host)
    assert status(reply) == code
    assert reply.endswith(b"\r\n\r\n<x>") is (code == 200)
    assert bool(world.received) is (code == 200)
    if code == 403:
        assert b"`haft access fetch`" in reply and b"rules of fetch" in reply
        assert world.proxy.find_refused("m")


async def test_a_name_that_no_rule_permits_is_not_resolved(world: World) -> None:
    assert status(await world.tunnel(world.url(NetRule("b.org")), "a.org")) == 403
    assert world.asked == []


async def test_a_name_without_address_and_an_address_without_answer_are_told(world: World) -> None:
    url = world.url(NetRule("*"), OWN)
    assert b"has no address: no such name" in await world.tunnel(url, "missing.org")
    assert b"cannot be connected to: " in await world.tunnel(url, "127.0.0.1", port=1)


async def test_a_further_address_is_tried(world: World) -> None:
    assert (
        status(
            await world.tunnel(
                world.url(NetRule("*", port=world.port), NetRule("127.0.0.1")), "both.org"
            )
        )
        == 200
    )


async def test_each_tunnel_is_checked(world: World) -> None:
    """A redirect leads to a further request."""
    url = world.url(NetRule("a.org"), OWN)
    assert status(await world.tunnel(url, "a.org")) == 200
    assert status(await world.tunnel(url, "both.org")) == 403
    assert status(await world.tunnel(url, "a.org", port=world.port + 1)) in (502, 200)


@pytest.mark.parametrize(
    ("scheme", "body", "passes"),
    [
        ("https", TLS, True),
        ("https", b"GET / HTTP/1.1\r\n\r\n", False),
        ("https", b"SSH-2.0-x", False),
        ("http", b"GET / HTTP/1.1\r\n\r\n", True),
        ("http", TLS, False),
    ],
)
async def test_a_rule_with_a_scheme_holds_the_bytes_of_a_tunnel(
    world: World, scheme: str, body: bytes, passes: bool
) -> None:
    reply = await world.tunnel(world.url(NetRule("a.org", scheme), OWN), "a.org", body)
    assert status(reply) == 200
    assert (b"".join(world.received) == body) is passes
    assert passes or not world.received
    assert ("a scheme that no rule allows" in world.proxy.find_refused("m")) is not passes


async def test_two_tools_share_no_credential(world: World) -> None:
    first, second = world.url(NetRule("a.org"), OWN), world.url(NetRule("127.0.0.1"), mark="n")
    assert urlsplit(first).password != urlsplit(second).password
    assert urlsplit(first).port == urlsplit(second).port
    assert status(await world.tunnel(first, "both.org")) == 403
    assert status(await world.tunnel(second, "127.0.0.1")) == 200
    assert world.url(NetRule("a.org"), OWN) == first  # a further run of the call


@pytest.mark.parametrize("credential", ["", "x", "é"])
async def test_a_connection_without_a_valid_credential_is_refused(
    world: World, credential: str
) -> None:
    port = urlsplit(world.url(NetRule("*"))).port
    encoded = base64.b64encode(f"haft:{credential}".encode()).decode()
    for fields in ([], [f"Proxy-Authorization: Basic {encoded}"]):
        stream = await trio.open_tcp_stream("127.0.0.1", port or 0)
        lines = [f"CONNECT 127.0.0.1:{world.port} HTTP/1.1", *fields, "", ""]
        await stream.send_all("\r\n".join(lines).encode())
        assert status(bytes(await stream.receive_some())) == 407
        await stream.aclose()
    assert world.received == []


async def test_the_end_of_a_tool_ends_its_connections_and_its_credential(world: World) -> None:
    url = world.url(NetRule("a.org"), OWN)
    stream = await world.open(url, f"CONNECT a.org:{world.port}")
    assert status(bytes(await stream.receive_some())) == 200
    world.proxy.revoke("m")
    assert await stream.receive_some() == b""
    await stream.aclose()
    assert status(await world.tunnel(url, "a.org")) == 407


async def test_a_tool_has_no_more_than_so_many_connections(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 1)
    url = world.url(NetRule("a.org"), OWN)
    stream = await world.open(url, f"CONNECT a.org:{world.port}")
    assert status(bytes(await stream.receive_some())) == 200
    assert status(await world.tunnel(url, "a.org")) == 503
    await stream.aclose()


async def test_connections_without_a_head_push_the_oldest_of_them_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool that opens many holds no descriptor of the daemon's for each, and no other tool up."""
    monkeypatch.setattr(server, "MAX_UNCOUNTED", 2)
    url = world.url(NetRule("a.org"), OWN)
    known = await world.open(url, f"CONNECT a.org:{world.port}")
    assert status(bytes(await known.receive_some())) == 200
    port = urlsplit(url).port or 0
    idle = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(4)]
    for stream in idle[:2]:
        with pytest.raises((trio.BrokenResourceError, EOFError)), trio.fail_after(PATIENCE_S):
            if not await stream.receive_some():
                raise EOFError
    assert status(await world.tunnel(url, "a.org")) == 200
    await known.send_all(b"still")
    assert await known.receive_some() == b"<still>"
    for stream in (*idle, known):
        await stream.aclose()


async def test_a_request_for_a_url_is_passed_on_once(world: World) -> None:
    url = world.url(NetRule("a.org", "http"), OWN)
    place = f"a.org:{world.port}"
    smuggled = b"abcGET http://127.0.0.1/ HTTP/1.1\r\n\r\n"
    fields = ("Content-Length: 3", "Host: evil")
    await world.ask(url, f"POST http://{place}/p?q", *fields, body=smuggled)
    sent = b"".join(world.received)
    assert sent.startswith(f"POST /p?q HTTP/1.1\r\nHost: {place}\r\n".encode())
    assert b"GET" not in sent and b"evil" not in sent and b"Proxy" not in sent
    assert status(await world.ask(url, f"GET http://both.org:{world.port}/")) == 403


@pytest.mark.parametrize("cut", range(8))
@pytest.mark.parametrize("length", [0, 1, 4, 7])
async def test_a_body_of_a_length_is_passed_on_whole_and_nothing_behind_it(
    cut: int, length: int
) -> None:
    (source, tool), (target, there) = memory_stream_pair(), memory_stream_pair()
    data = b"abcdGET"
    await tool.send_all(data[cut:])
    await tool.send_eof()
    await server._send_length(cast(Any, source), cast(Any, target), data[:cut], length)
    await target.send_eof()
    assert b"".join([bytes(part) async for part in there]) == data[:length]


@pytest.mark.parametrize(
    ("length", "body"), [(3, b"abc"), (None, b"3\r\nabc\r\n0\r\n\r\n")], ids=["length", "chunks"]
)
async def test_a_server_that_replies_to_the_body_gets_it(length: int | None, body: bytes) -> None:
    (source, tool), (target, there) = memory_stream_pair(), memory_stream_pair()

    async def answer() -> None:
        taken = b""
        while len(taken) < len(body):
            taken += bytes(await there.receive_some())
        assert taken == body
        await there.send_all(b"reply")
        await there.send_eof()

    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            await server._exchange(cast(Any, source), cast(Any, target), length, body)
            assert bytes(await tool.receive_some()) == b"reply"


async def test_a_body_in_chunks_ends_with_its_trailer(world: World) -> None:
    url = world.url(NetRule("a.org"), OWN)
    chunks = b"3;x=y\r\nab-\r\n0\r\nT: 1\r\n\r\n"
    request = f"POST http://a.org:{world.port}/"
    await world.ask(
        url, request, "Transfer-Encoding: chunked", body=chunks + b"GET / HTTP/1.1\r\n\r\n"
    )
    assert b"".join(world.received).endswith(b"Connection: close\r\n\r\n" + chunks)


@pytest.mark.parametrize(
    ("trailer", "passed"), [(b"T: 1", b"0\r\nT: 1\r\n\r\n"), (b"T: 1\n\nGET / HTTP/1.1", b"0\r\n")]
)
async def test_a_trailer_hides_no_further_request(trailer: bytes, passed: bytes) -> None:
    """Some servers take a bare LF as the end of a line."""
    (source, tool), (target, there) = memory_stream_pair(), memory_stream_pair()
    await tool.send_eof()
    data = b"0\r\n" + trailer + b"\r\n\r\n"
    await server._send_chunks(cast(Any, source), cast(Any, target), data)
    await target.send_eof()
    assert b"".join([bytes(part) async for part in there]) == passed


async def test_a_head_has_a_bound(world: World) -> None:
    stream = await world.open(world.url(NetRule("*")), "GET http://a/", f"X: {'y' * MAX_HEAD}")
    assert status(bytes(await stream.receive_some())) == 400
    await stream.aclose()


async def test_a_head_has_a_deadline(world: World, autojump_clock: object) -> None:
    port = urlsplit(world.url(NetRule("*"))).port
    stream = await trio.open_tcp_stream("127.0.0.1", port or 0)
    await stream.send_all(b"CONNECT ")
    assert await stream.receive_some() == b""
    await stream.aclose()
