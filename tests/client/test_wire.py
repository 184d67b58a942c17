"""The numbering of a conversation, without a socket, by the encoder with types and by the one without."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from haft.errors import ProtocolFault, RemoteError
from haft.exchange import Exchange
from haft.json_exchange import JsonExchange, encode
from haft.wire import Conversation

JSON = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
both_kinds = pytest.mark.parametrize("kind", [Conversation, JsonExchange])


def sent(wire: Exchange) -> list[Any]:
    """Return the messages to send."""
    lines = bytes(wire.to_send).splitlines()
    wire.to_send.clear()
    return [json.loads(line) for line in lines]


def reply(number: int, result: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode() + b"\n"


@both_kinds
@given(order=st.permutations(range(6)), cuts=st.lists(st.integers(0, 400), max_size=12))
def test_each_reply_finds_its_request_in_any_order_and_any_cut(
    kind: type[Exchange], order: list[int], cuts: list[int]
) -> None:
    wire = kind()
    numbers = [wire.request("ping", {}) for _ in range(6)]
    stream = b"".join(reply(numbers[i], {"of": i}) for i in order)
    edges = sorted({0, *(min(c, len(stream)) for c in cuts), len(stream)})
    arrived: list[int] = []
    for begin, end in pairwise(edges):
        arrived += wire.feed(stream[begin:end])
    assert arrived == [numbers[i] for i in order]
    for i, number in enumerate(numbers):
        answer = wire.take(number)
        assert not isinstance(answer, RemoteError) and answer is not None
        assert json.loads(bytes(answer)) == {"of": i}
        assert wire.take(number) is None


@both_kinds
def test_a_forgotten_request_is_cancelled_once_and_its_late_reply_ignored(
    kind: type[Exchange],
) -> None:
    wire = kind()
    number = wire.request("fetch", {"id": "a"})
    sent(wire)
    wire.forget(number)
    wire.forget(number)
    assert sent(wire) == [{"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": number}}]
    assert wire.feed(reply(number, 1)) == []
    assert wire.take(number) is None


@both_kinds
def test_a_received_reply_is_not_cancelled(kind: type[Exchange]) -> None:
    wire = kind()
    number = wire.request("ping", {})
    sent(wire)
    wire.feed(reply(number, 1))
    wire.take(number)
    wire.forget(number)
    assert sent(wire) == []


@both_kinds
def test_an_error_without_an_id_belongs_to_the_connection(kind: type[Exchange]) -> None:
    wire = kind()
    wire.request("ping", {})
    wire.feed(
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32009,"message":"Too many.",'
        b'"data":{"kind":"limit_exceeded","limit":"max_connections","value":1}}}\n'
    )
    assert isinstance(wire.fault, RemoteError)
    assert (wire.fault.code, wire.fault.kind) == (-32009, "limit_exceeded")
    assert wire.fault.data["value"] == 1


@both_kinds
def test_a_message_over_the_daemons_limit_is_refused_and_not_sent(kind: type[Exchange]) -> None:
    wire = kind()
    wire.greet({})
    early = wire.request("ping", {"a": "x" * 100_000})
    after = wire.request("ping", {})
    assert [message["method"] for message in sent(wire)] == ["initialize"]
    greeted = {"protocol": 1, "limits": {"max_message": 99_000}}
    assert wire.feed(reply(1, greeted)) == [1, early]
    refusal = wire.take(early)
    assert isinstance(refusal, RemoteError)
    assert (refusal.code, refusal.data["limit"], refusal.data["value"]) == (
        -32009,
        "max_message",
        99_000,
    )
    assert [message["id"] for message in sent(wire)] == [after]

    size = len(kind()._line({"jsonrpc": "2.0", "id": 4, "method": "p", "params": {"a": ""}})) - 1
    fitting = 99_000 - size
    wire.request("p", {"a": "x" * fitting})
    assert len(wire.to_send) == 99_001
    wire.to_send.clear()
    for refused in (
        lambda: wire.request("p", {"a": "x" * (fitting + 1)}),
        lambda: wire.batch([("p", {"a": "x" * fitting})]),
    ):
        with pytest.raises(RemoteError, match="`max_message` is 99000"):
            refused()
    wire.answer("q", "x" * 99_000)
    (error,) = sent(wire)
    assert (error["id"], error["error"]["code"]) == ("q", -32009)


@both_kinds
def test_a_long_message_waits_for_the_daemons_limit_alone_with_what_follows(
    kind: type[Exchange],
) -> None:
    wire = kind()
    wire.greet({})
    numbers = [wire.request("ping", {}), wire.request("ping", {"a": "x" * 100_000})]
    wire.forget(numbers[1])
    assert [message["id"] for message in sent(wire)] == [1, numbers[0]]
    wire.feed(reply(1, {"protocol": 1}))
    assert [message["method"] for message in sent(wire)] == ["ping", "$/cancelRequest"]


@both_kinds
def test_a_batch_reply_is_split(kind: type[Exchange]) -> None:
    wire = kind()
    one, two = wire.batch([("ping", {}), ("ping", {})])
    assert [m["id"] for m in sent(wire)[0]] == [one, two]
    both = b"[" + reply(two, 2).strip() + b"," + reply(one, 1).strip() + b"]\n"
    assert wire.feed(both) == [two, one]


def test_notifications_are_delivered_and_requests_refused() -> None:
    heard: list[tuple[str, bytes]] = []
    wire = Conversation(lambda method, params: heard.append((method, bytes(params))))
    wire.feed(
        b'{"jsonrpc":"2.0","method":"handle/state","params":{"id":"a"}}\n'
        b'{"jsonrpc":"2.0","id":"x","method":"inquiry/ask","params":{}}\n'
    )
    assert heard == [("handle/state", b'{"id":"a"}')]
    (refusal,) = sent(wire)
    assert (refusal["id"], refusal["error"]["code"]) == ("x", -32601)


@both_kinds
@pytest.mark.parametrize("junk", [b"HTTP/1.1 400\n", b"\xff\xfe\n", b"[1]\n", b"[" * 5000 + b"\n"])
def test_invalid_bytes_are_a_protocol_fault(kind: type[Exchange], junk: bytes) -> None:
    with pytest.raises(ProtocolFault):
        kind().feed(junk)


@both_kinds
def test_a_text_with_surrogates_is_refused_before_sending(kind: type[Exchange]) -> None:
    wire = kind()
    with pytest.raises(ValueError, match="surrogate"):
        wire.request("apply", {"id": "a", "input": "\udc80"})
    assert sent(wire) == []


def test_requests_of_the_daemon_are_refused_without_types() -> None:
    wire = JsonExchange()
    wire.feed(b'{"jsonrpc":"2.0","method":"handle/state"}\n{"id":"x","method":"inquiry/ask"}\n')
    (refusal,) = sent(wire)
    assert (refusal["id"], refusal["error"]["code"]) == ("x", -32601)


@given(
    value=st.recursive(
        JSON, lambda inner: st.lists(inner) | st.dictionaries(st.text('abü"'), inner)
    )
)
def test_json_without_types_is_encoded_as_with_them(value: object) -> None:
    assert encode(value) == msgspec.json.encode(value)
