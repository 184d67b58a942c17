from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from haft_protocol.errors import RpcError
from haft_protocol.methods import (
    METHODS,
    AwaitParams,
    Empty,
    FetchParams,
    HandlesListParams,
    InitializeParams,
    InquiriesAskParams,
    SpawnParams,
    ToolsCallParams,
    ToolsDescribeParams,
)
from haft_protocol.rpc import read_params


def refused(raw: bytes | None, kind: type[Any], method: str = "") -> RpcError:
    with pytest.raises(RpcError) as caught:
        read_params(None if raw is None else Raw(raw), kind, method)
    return caught.value


def test_params_are_decoded_into_their_type() -> None:
    params = read_params(Raw(b'{"id":"build","wait":"output","cursor":5}'), FetchParams)
    assert params == FetchParams(id="build", wait="output", cursor=5)
    assert params.session is UNSET


@pytest.mark.parametrize("absent", [None, b"{}", b"null", b"[]", b"[ \n]"])
def test_absent_params_are_the_defaults(absent: bytes | None) -> None:
    raw = None if absent is None else Raw(absent)
    assert read_params(raw, Empty) == Empty()
    assert "the field `id` is missing" in refused(absent, FetchParams).message


def test_an_unknown_field_is_named_with_the_methods_fields() -> None:
    error = refused(b'{"tool":"run","id":"a","timout_ms":5}', SpawnParams)
    assert error.code == -32602
    assert "unknown field `timout_ms`" in error.message
    assert "`timeout_ms`" in error.message
    assert "spawn takes: tool (required), id (required)" in error.message
    assert error.data == {"kind": "invalid_params", "field": "timout_ms"}


def test_the_caller_may_name_the_method_in_params() -> None:
    assert "ping takes: session, root" in refused(b'{"x":1}', Empty, "ping").message


@pytest.mark.parametrize("raw", [b'["build"]', b"[[1]]", b"[[]]", b"[null]"])
def test_a_list_is_refused_because_params_are_by_name(raw: bytes) -> None:
    for kind in (FetchParams, Empty):
        error = refused(raw, kind)
        assert error.code == -32602
        assert "by name" in error.message


@pytest.mark.parametrize("raw", [b"5", b'"x"', b"true"])
def test_a_scalar_is_refused_because_params_is_an_object(raw: bytes) -> None:
    error = refused(raw, Empty)
    assert error.code == -32602
    assert "object" in error.message


@pytest.mark.parametrize(
    ("kind", "raw", "field", "words"),
    [
        (FetchParams, b"{}", "id", "the field `id` is missing"),
        (FetchParams, b'{"id":5}', "id", "`id` must be a name of 1 to 64"),
        (FetchParams, b'{"id":"a b"}', "id", "`id` must be a name of 1 to 64"),
        (FetchParams, b'{"id":"a\\n"}', "id", "`id` must be a name of 1 to 64"),
        (FetchParams, b'{"id":""}', "id", "`id` must be a name of 1 to 64"),
        (FetchParams, b'{"id":"a","session":"*"}', "session", "`session` must be a name"),
        (FetchParams, b'{"id":"a","root":"rel"}', "root", "absolute path"),
        (FetchParams, b'{"id":"a","root":"/a\\u0000"}', "root", "absolute path"),
        (FetchParams, b'{"id":"a","timeout_ms":"5"}', "timeout_ms", "must be an integer, not a string"),
        (FetchParams, b'{"id":"a","timeout_ms":-1}', "timeout_ms", "must be an integer >= 0"),
        (FetchParams, b'{"id":"a","timeout_ms":1.5}', "timeout_ms", "must be an integer, not a number with a fraction"),
        (FetchParams, b'{"id":"a","timeout_ms":true}', "timeout_ms", "must be an integer, not true or false"),
        (FetchParams, b'{"id":"a","wait":"soon"}', "wait", '"stopped", not \'soon\''),
        (FetchParams, b'{"id":"a","wait":5}', "wait", 'must be one of "input", "none"'),
        (FetchParams, b'{"id":"a","pattern":null}', "pattern", "must be a string, not null"),
        (HandlesListParams, b'{"session":"**"}', "session", "`*` for all"),
        (AwaitParams, b'{"all":"a"}', "all", "`all` must be an array, not a string"),
        (AwaitParams, b'{"all":["a","b c"]}', "all[1]", "`all[1]` must be a name"),
        (SpawnParams, b'{"tool":"t","id":"a","env":{"A":1}}', "env[...]", "must be a string or null, not an integer"),
        (SpawnParams, b'{"tool":"t","id":"a","args":[]}', "args", "must be an object or null, not an array"),
        (InitializeParams, b'{"protocol":1,"client":{"nam":"x"}}', "client.nam", "`client` takes: name (required)"),
        (InitializeParams, b'{"protocol":1,"client":{}}', "client.name", "the field `client.name` is missing"),
        (InitializeParams, b'{"protocol":"2","client":{"name":"x"}}', "protocol", "must be an integer"),
        (InquiriesAskParams, b'{"question":{"id":"q","text":"t","answer_type":{"type":"select"}}}', "question.answer_type.options", "`question.answer_type` takes: options (required)."),
        (InquiriesAskParams, b'{"question":{"id":"q","text":"t","answer_type":{"type":"form","fields":{"a":{}}}}}', "question.answer_type.fields[...].options", "`question.answer_type.fields[...]` takes: options (required), text."),
        (InquiriesAskParams, b'{"question":{"id":"q","text":"t","answer_type":{}}}', "question.answer_type.type", "the field `question.answer_type.type` is missing."),
        (InquiriesAskParams, b'{"question":{"id":"q","text":"t","answer_type":{"type":"date"}}}', "question.answer_type.type", '`question.answer_type.type` must be one of "boolean"'),
    ],
)  # fmt: skip
def test_an_invalid_field_is_named_with_its_valid_values(
    kind: type[Any], raw: bytes, field: str, words: str
) -> None:
    error = refused(raw, kind)
    assert error.code == -32602
    assert error.data["field"] == field
    assert words in error.message, error.message


@pytest.mark.parametrize("number", [b"1e400", b"-1e400", b"1" * 5000, b"1" * 1_000_000])
def test_U15_an_unrepresentable_number_is_a_parse_error(number: bytes) -> None:
    for raw in (
        b'{"tool":"t","id":"a","args":{"n":[' + number + b"]}}",
        b'{"tool":"t","id":"a","quiet_ms":' + number + b"}",
    ):
        error = refused(raw, SpawnParams)
        assert error.code == -32700
        assert "out of range" in error.message
        assert len(error.message) < 200


def test_session_star_is_allowed_for_the_list_only() -> None:
    assert read_params(Raw(b'{"session":"*"}'), HandlesListParams).session == "*"


@given(st.text(max_size=300))
def test_U28_the_message_is_short_and_plain_for_any_field_name(name: str) -> None:
    try:
        raw = json.dumps({name: 1}, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return
    if name in ("session", "root"):
        return
    error = refused(raw, Empty)
    assert len(error.message.encode()) <= 512
    assert error.message.isprintable()
    assert len(error.data["field"].encode()) <= 512


keys = st.sampled_from(
    [
        "id",
        "tool",
        "session",
        "root",
        "wait",
        "view",
        "args",
        "env",
        "client",
        "any",
        "all",
        "input",
        "policy",
        "pattern",
    ]
)


@given(
    st.sampled_from(sorted(METHODS)),
    st.dictionaries(
        keys,
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats(allow_nan=False)
            | st.text(max_size=5),
            lambda i: st.lists(i, max_size=2) | st.dictionaries(keys, i, max_size=2),
            max_leaves=5,
        ),
    ),
)
def test_any_params_are_decoded_or_refused_with_a_short_sentence(
    method: str, params: dict[str, Any]
) -> None:
    raw = json.dumps(params).encode("utf-8", "surrogatepass")
    kind = METHODS[method].params
    try:
        assert isinstance(read_params(Raw(raw), kind, method), kind)
    except RpcError as error:
        assert error.code in (-32602, -32700)
        assert len(error.message.encode()) <= 512
        assert error.message.isprintable()


def test_params_are_written_without_their_defaults() -> None:
    assert msgspec.json.encode(SpawnParams(tool="run", id="a")) == b'{"tool":"run","id":"a"}'
    assert msgspec.json.encode(Empty()) == b"{}"


def test_too_deep_nesting_is_refused() -> None:
    raw = b'{"tool":"t","id":"a","args":' + b'{"a":' * 5000 + b"1" + b"}" * 5001
    assert refused(raw, SpawnParams).code == -32602


@pytest.mark.parametrize(
    ("kind", "raw", "word", "ours"),
    [
        (ToolsCallParams, b'{"name":"run","arguments":{}}', "name", "tool"),
        (SpawnParams, b'{"name":"run","id":"a"}', "name", "tool"),
        (InitializeParams, b'{"clientInfo":{"name":"x"},"protocol":1}', "clientInfo", "client"),
        (InitializeParams, b'{"protocolVersion":"2025-11-25"}', "protocolVersion", "protocol"),
        (SpawnParams, b'{"tool":"run","id":"a","arguments":{}}', "arguments", "args"),
        (ToolsCallParams, b'{"tool":"run","args":{}}', "args", "arguments"),
        (ToolsCallParams, b'{"tool":"run","input":{}}', "input", "arguments"),
        (ToolsDescribeParams, b'{"names":["run"]}', "names", "tools"),
    ],
)
def test_an_mcp_term_is_answered_with_ours(
    kind: type[Any], raw: bytes, word: str, ours: str
) -> None:
    error = refused(raw, kind)
    assert f"unknown field `{word}` (is `{ours}` meant?)" in error.message
    assert error.data["field"] == word


@pytest.mark.parametrize(
    ("field", "most"),
    [("timeout_ms", 86_400_000), ("quiet_ms", 86_400_000), ("max_bytes", 268_435_456)],
)
def test_bounds_of_a_number_are_part_of_the_range(field: str, most: int) -> None:
    for value in (0, most):
        params = read_params(Raw(json.dumps({"id": "h", field: value}).encode()), FetchParams)
        assert getattr(params, field) == value
    for value in (-1, most + 1):
        raw = json.dumps({"id": "h", field: value}).encode()
        assert field in refused(raw, FetchParams).message
