"""Encoding: one line of JSON with any content, and the id unchanged."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haft_protocol import encoding
from haft_protocol.encoding import (
    encode_error,
    encode_long_reply,
    encode_reply,
    encode_request,
    encode_text,
    is_long,
)
from haft_protocol.errors import limit_exceeded
from haft_protocol.states import Base64, EndedBy, Stopped

texts = st.text(st.characters(codec="utf-8"))
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_a_reply_is_one_json_line_that_holds_the_result(value: Any) -> None:
    reply = encode_reply(b"1", value)
    assert b"\n" not in reply
    assert json.loads(reply) == {"jsonrpc": "2.0", "id": 1, "result": value}


def test_a_name_that_is_not_utf8_still_gets_a_reply() -> None:
    reply = encode_reply(b"1", {"p\udcff": ["a\udcffb", 5]})
    assert json.loads(reply)["result"] == {"p?": ["a?b", 5]}


def test_an_error_reply_has_code_message_and_kind() -> None:
    reply = json.loads(encode_error(b'"a"', limit_exceeded("max_batch", 3, "Too many")))
    assert reply["id"] == "a"
    assert reply["error"]["code"] == -32009
    assert reply["error"]["data"] == {"kind": "limit_exceeded", "limit": "max_batch", "value": 3}


def test_a_daemon_request_has_an_id_and_a_notification_has_none() -> None:
    asked = {"jsonrpc": "2.0", "id": "haft.1", "method": "m", "params": {"a": "?"}}
    assert json.loads(encode_request("haft.1", "m", {"a": "\udcff"})) == asked
    del asked["id"]
    assert json.loads(encode_request(None, "m", {"a": "?"})) == asked


def test_base64_is_encoded_as_its_text_and_other_types_are_refused() -> None:
    message = encode_reply(b"1", {"data": Base64("aGVsbG8=")})
    assert json.loads(message)["result"] == {"data": "aGVsbG8="}
    with pytest.raises(NotImplementedError, match="a complex has no form on the wire"):
        encode_reply(b"1", 1j)


def ended(name: str = "n", *, content: str, output: str) -> Stopped:
    return Stopped(
        id=name,
        tool="t",
        session="s",
        cursor=1,
        generation=1,
        elapsed_ms=1,
        ended_by=EndedBy("exit"),
        content=content,
        output=output,
    )


@given(parts=st.lists(texts), around=texts)
def test_a_text_encoded_in_parts_is_the_text_in_a_long_reply(parts: list[str], around: str) -> None:
    encoded = encode_text(parts)
    state = ended(content=encoded, output=around)
    assert is_long(state)
    whole = encode_reply(b"1", ended(content="".join(parts), output=around))
    assert b"".join(encode_long_reply(b"1", state)) == whole
    with pytest.raises(NotImplementedError, match="EncodedText has no form"):
        encode_reply(b"1", state)


@given(content=texts, output=texts, name=st.sampled_from(["n", "\0", "n\udcff"]))
def test_a_long_reply_is_that_of_a_short_one(content: str, output: str, name: str) -> None:
    state = ended(name, content=f"{content}\0\n a long text \r {content}", output=output * 9)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoding, "_PIECE", 16)
        assert is_long(state)
        assert b"".join(encode_long_reply(b'"\\u0000"', state)) == encode_reply(b'"\\u0000"', state)
