"""A connection to an MCP server, without a server: the era's params, and the server's own requests."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest
import trio
from msgspec import Raw
from trio.testing import MockClock

from haft_protocol.mcp import MODERN, SERVER_NAME, UNSUPPORTED_VERSION
from haftd.runtimes.mcp.connection import PROBE_S, Connection, Unusable, _probe, open_connection
from haftd.runtimes.mcp.peer import Disconnected, Peer, Pending, ServerError
from haftd.runtimes.mcp.shapes import ServerCapabilities, ServerInfo

LEGACY = "2025-11-25"
QUESTION = {"message": "Which?", "requestedSchema": {"type": "object", "properties": {}}}


class FakePeer:
    """A peer that keeps what is sent; `calls` are those that run."""

    def __init__(self, *calls: object) -> None:
        self.calls = calls
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.replies: list[tuple[object, object]] = []
        self.on_request: Any = None
        self.on_notification: Any = None

    def send(self, method: str, params: dict[str, Any]) -> None:
        self.sent.append((method, params))

    def answer(self, id: object, result: object) -> None:
        self.replies.append((id, result))

    def refuse(self, id: object, code: int, message: str) -> None:
        self.replies.append((id, code))

    def owners(self) -> tuple[object, ...]:
        return self.calls


class Call:
    def __init__(self) -> None:
        self.asked: list[str] = []

    @property
    def is_asking(self) -> bool:
        return bool(self.asked)

    def elicit(self, elicitation: Any, reply: object) -> None:
        self.asked.append(elicitation.message)


def connected(version: str = LEGACY, *calls: Call) -> tuple[FakePeer, Connection]:
    peer = FakePeer(*calls)
    connection = Connection(
        cast(Any, peer), version, ServerCapabilities(), ServerInfo(name="s", version="1")
    )
    return peer, connection


def requested(
    peer: FakePeer, method: str, params: object = None, owner: Call | None = None
) -> None:
    peer.on_request(7, method, Raw(msgspec.json.encode(params or {})), owner)


def test_a_request_of_the_modern_era_names_the_client_and_a_legacy_one_does_not() -> None:
    peer, connection = connected(LEGACY)
    connection.send("tools/call", {"name": "add"})
    assert peer.sent == [("tools/call", {"name": "add"})]
    peer, connection = connected(MODERN)
    connection.send("tools/call", {"name": "add"})
    [(_, params)] = peer.sent
    assert params["name"] == "add"
    assert params["_meta"]["io.modelcontextprotocol/clientInfo"]["name"] == "haftd"


@pytest.mark.parametrize("version", [LEGACY, MODERN])
@pytest.mark.parametrize(
    ("method", "reply"),
    [
        ("ping", {}),
        ("sampling/createMessage", -32601),
        ("roots/list", -32601),
        ("tools/list", -32601),
    ],
)
def test_each_request_of_a_server_has_one_reply(version: str, method: str, reply: object) -> None:
    peer, _ = connected(version)
    requested(peer, method)
    assert peer.replies == [(7, reply)]


def test_a_question_outside_of_a_result_is_of_the_legacy_era_alone() -> None:
    peer, _ = connected(MODERN)
    requested(peer, "elicitation/create", QUESTION)
    assert peer.replies == [(7, -32601)]


def test_a_question_that_cannot_be_read_is_refused() -> None:
    peer, _ = connected()
    requested(peer, "elicitation/create", {"message": 3})
    assert peer.replies == [(7, -32602)]


def test_a_question_is_put_by_its_call_or_by_the_only_one_that_can_have_asked() -> None:
    first, second = Call(), Call()
    peer, _ = connected(LEGACY, first, second)
    requested(peer, "elicitation/create", QUESTION, first)
    assert (first.asked, second.asked) == (["Which?"], [])
    # The first call asks already.
    requested(peer, "elicitation/create", QUESTION)
    assert (first.asked, second.asked) == (["Which?"], ["Which?"])
    assert peer.replies == []


def test_a_question_without_an_open_call_is_refused() -> None:
    peer, _ = connected(LEGACY)
    requested(peer, "elicitation/create", QUESTION)
    assert peer.replies == [(7, -32602)]


def test_a_question_of_either_call_waits_until_one_is_left() -> None:
    first, second = Call(), Call()
    peer, connection = connected(LEGACY, first, second)
    requested(peer, "elicitation/create", QUESTION)
    assert first.asked == second.asked == []
    peer.calls = (second,)
    connection.assign()
    assert second.asked == ["Which?"]


DISCOVERED = {"supportedVersions": [MODERN], "capabilities": {}}
REFUSAL = {"code": -32600, "message": "no"}


class Wire:
    """A server that replies to each method after some seconds, if at all; an error is a dict with a code."""

    def __init__(self, nursery: trio.Nursery, **replies: tuple[float, dict[str, Any]]) -> None:
        self.peer = Peer(self)
        self.cancelled: list[str] = []
        self._nursery = nursery
        self._replies = replies

    def send(self, message: bytes, pending: Pending | None = None) -> None:
        if pending is not None:
            self._nursery.start_soon(self._reply, pending)

    async def _reply(self, pending: Pending) -> None:
        seconds, reply = self._replies.get(pending.method.rpartition("/")[2], (float("inf"), {}))
        await trio.sleep(seconds)
        kind = "error" if "code" in reply else "result"
        self.peer.receive(msgspec.json.encode({"jsonrpc": "2.0", "id": pending.id, kind: reply}))

    def cancel(self, pending: Pending) -> bool:
        self.cancelled.append(pending.method)
        return True


@pytest.mark.parametrize(
    ("discover_s", "initialize_s", "outcome"),
    [
        (1.0, None, MODERN),
        (PROBE_S + 1, 2.0, MODERN),
        (PROBE_S + 3, 2.0, "no"),
        (None, 2.0, "no"),
    ],
)
async def test_a_slow_server_that_refuses_a_legacy_client_is_a_modern_one(
    discover_s: float | None,
    initialize_s: float | None,
    outcome: str,
    autojump_clock: MockClock,
) -> None:
    replies: dict[str, tuple[float, dict[str, Any]]] = {}
    if discover_s is not None:
        replies["discover"] = (discover_s, DISCOVERED)
    if initialize_s is not None:
        replies["initialize"] = (initialize_s, REFUSAL)
    async with trio.open_nursery() as nursery:
        wire = Wire(nursery, **replies)
        try:
            found = await _probe(wire.peer, "auto")
        except ServerError as error:
            assert error.message == outcome
        else:
            assert isinstance(found, Connection) and found.is_modern and outcome == MODERN
        is_late = discover_s is None or (initialize_s or 0) + PROBE_S < discover_s
        assert wire.cancelled == (["server/discover"] if is_late else [])
        nursery.cancel_scope.cancel()


VERSION_ERROR = {"code": UNSUPPORTED_VERSION, "message": "old"}
INITIALIZED = {"protocolVersion": LEGACY, "capabilities": {}, "serverInfo": {"name": "x"}}


@pytest.mark.parametrize(
    ("discovered", "modern", "auto"),
    [
        (DISCOVERED, MODERN, MODERN),
        ({"supportedVersions": ["2099-01-01"]}, "speaks 2099-01-01, not ", LEGACY),
        ({"supportedVersions": 1}, "answered `server/discover` with an invalid result", LEGACY),
        (REFUSAL, "answered `server/discover` with an error: no", LEGACY),
        (VERSION_ERROR, "does not speak the revision ", LEGACY),
        (
            {**VERSION_ERROR, "data": {"supported": [LEGACY]}},
            "does not speak the revision ",
            LEGACY,
        ),
        (
            {**VERSION_ERROR, "data": {"supported": [MODERN]}},
            *["refuses the revision that it claims to speak"] * 2,
        ),
        (
            {**DISCOVERED, "_meta": {"io.modelcontextprotocol/serverInfo": {"name": SERVER_NAME}}},
            *["is haft itself"] * 2,
        ),
    ],
)
@pytest.mark.parametrize("era", ["modern", "auto", "legacy"])
async def test_the_reply_to_a_discovery_decides_the_era(
    era: Any, discovered: dict[str, Any], modern: str, auto: str
) -> None:
    expected = {"modern": modern, "auto": auto, "legacy": LEGACY}[era]
    async with trio.open_nursery() as nursery:
        wire = Wire(nursery, discover=(0, discovered), initialize=(0, INITIALIZED))
        try:
            shown = (await open_connection(wire.peer, era)).version
        except Unusable as error:
            shown = str(error)
        assert shown.startswith(expected) and wire.cancelled == []


def test_a_lost_connection_fails_each_request_once() -> None:
    events: list[object] = []
    peer = Peer(cast(Any, FakeTransport()))
    peer.on_lost = lambda reason, owners: events.append((reason.message, owners))
    first, second = peer.begin("a", {}, owner="x"), peer.begin("b", {}, owner="x")
    peer.lose(Disconnected("is gone"))
    peer.lose(Disconnected("is gone again"))
    assert events == [("is gone", ["x"])]
    for pending in (first, second):
        with pytest.raises(Disconnected, match=r"^is gone$"):
            pending.result()
        peer.end(pending)
    with pytest.raises(Disconnected):
        peer.begin("c", {})


class FakeTransport:
    def send(self, message: bytes, pending: Pending | None = None) -> None:
        pass
