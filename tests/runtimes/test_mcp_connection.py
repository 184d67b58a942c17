"""A connection to an MCP server, without a server: the era's params, and the server's own requests."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest
from msgspec import Raw

from haft_protocol.mcp import MODERN
from haftd.runtimes.mcp.connection import Connection
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
