from __future__ import annotations

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from haft_protocol import errors
from haft_protocol.encoding import encode_error
from haft_protocol.errors import CODES, RpcError, escaped, shown

SECTION_9 = {
    "handle_not_found": -32001, "handle_exists": -32002, "tool_not_found": -32003,
    "action_not_supported": -32004, "invalid_arguments": -32005, "not_authorized": -32006,
    "not_approved": -32007, "handle_stopped": -32008, "limit_exceeded": -32009,
    "untrusted_root": -32010, "invalid_answer": -32011, "spawn_failed": -32012,
    "shutting_down": -32013, "unsupported_runtime": -32014, "request_cancelled": -32800,
    "parse_error": -32700, "invalid_request": -32600, "method_not_found": -32601,
    "invalid_params": -32602, "internal_error": -32603,
}  # fmt: skip

HOSTILE = [
    "x" * 1_000_000,
    "a\nb\x1b[31m",
    "\x00\x9b",
    "\u202e\u200b\U000e0041",
    "é" * 600,
    "\ud800",
    "'\"`{}%s",
]


def test_the_codes_are_those_of_section_9() -> None:
    assert CODES == SECTION_9


def every_error(text: str) -> list[RpcError]:
    """Yield an error of each kind with `text` wherever a caller's or a tool's text can appear."""
    return [
        errors.parse_error(text),
        errors.invalid_request(text),
        errors.method_not_found(text),
        errors.invalid_params(text, field=text),
        errors.internal(text),
        errors.request_cancelled(),
        errors.handle_not_found(text, text),
        errors.handle_not_found(text, text, expired=True),
        errors.handle_exists(text, text, "running"),
        errors.tool_not_found(text, [text, text]),
        errors.tool_not_found(text, [text] * 20, text),
        errors.action_not_supported(text, text, text),
        errors.invalid_arguments(text, [{"path": text, "message": text}] * 3),
        errors.not_authorized(text),
        errors.handle_stopped(text, {"state": "stopped"}),
        errors.limit_exceeded("max_batch", 1, text),
        errors.invalid_answer(text),
        errors.spawn_failed(text, reason=text),
        errors.shutting_down(),
        errors.unsupported_runtime(text, text, text),
        errors.unsupported_source(text, text, text),
    ]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_U28_a_message_is_at_most_512_bytes_and_has_no_control_characters(text: str) -> None:
    for error in every_error(text):
        assert len(error.message.encode()) <= 512, error.kind
        assert error.message.isprintable(), error.kind
        assert error.data["kind"] == error.kind
        reply = encode_error(b"1", error)
        assert len(reply) < 8192, error.kind
        msgspec.json.decode(reply)


@given(st.text())
def test_U28_any_text_in_any_error_makes_a_reply(text: str) -> None:
    for error in every_error(text):
        assert len(error.message.encode()) <= 512
        assert error.message.isprintable()
        msgspec.json.decode(encode_error(b"1", error))


@given(st.text() | st.binary(), st.integers(10, 200))
def test_shown_text_is_quoted_cut_and_escaped(text: str | bytes, limit: int) -> None:
    found = shown(text, limit)
    assert len(found) <= limit
    assert found.isprintable()


@given(st.text() | st.binary(), st.integers(10, 200))
@example("running" * 9, 40)
def test_a_cut_in_escaped_text_is_visible(text: str | bytes, limit: int) -> None:
    """An ellipsis cannot be taken off with the quotes."""
    found = escaped(text, limit)
    assert len(found) <= limit
    assert found.isprintable()
    assert found == escaped(text, 10_000) or found.endswith("…")


def test_every_message_is_one_sentence_or_two() -> None:
    for error in every_error("why"):
        assert error.message.endswith((".", "why")), error.message
        assert ".." not in error.message
    assert ".." not in errors.spawn_failed("there is no such program.").message


def test_all_problems_are_in_the_data_up_to_a_hundred() -> None:
    problems = [{"path": f"a.{n}", "message": "is unknown"} for n in range(150)]
    assert errors.invalid_arguments("t", problems[:40]).data["problems"] == problems[:40]
    error = errors.invalid_arguments("t", problems)
    assert error.data["problems"] == problems[:100]
    assert error.data["more"] == 50
    assert "a.0: is unknown; a.1: is unknown" in error.message


def test_an_undefined_kind_is_an_internal_error() -> None:
    with pytest.raises(KeyError):
        RpcError("no_such_kind", "x")


def test_a_message_ends_in_one_mark() -> None:
    asks = errors.invalid_arguments("t", [{"path": "row", "message": "did you mean `rows`?"}])
    assert asks.message.endswith("did you mean `rows`?")
    says = errors.invalid_arguments("t", [{"path": "row", "message": "it is not known."}])
    assert says.message.endswith("it is not known.")


def test_an_unknown_tool_is_answered_with_all_tools_where_few() -> None:
    few = [f"tool_{at}" for at in range(12)]
    assert errors.tool_not_found("x", few).message == (
        f"There is no tool 'x'; the tools are: {', '.join(sorted(few))}."
    )
    assert errors.tool_not_found("x", []).message == "There is no tool 'x'; there are none."


def test_an_unknown_tool_is_answered_with_the_nearest_and_the_number_of_others() -> None:
    many = [*(f"other_{at:02}" for at in range(49)), "cargo_check", "cargo_test"]
    assert errors.tool_not_found("cargo_chek", many).message == (
        "There is no tool 'cargo_chek'; the nearest of 51 tools: cargo_check, cargo_test, and 49 "
        "more in `tools/list`."
    )
    named = ", ".join(sorted(many)[:12])
    assert errors.tool_not_found("zzz", many).message == (
        f"There is no tool 'zzz'; some of 51 tools: {named}, and 39 more in `tools/list`."
    )


def test_an_unknown_tool_is_answered_with_the_fault_of_its_definition() -> None:
    assert errors.tool_not_found("x", ["y"], "its definition was refused (f:3)").message == (
        "There is no tool 'x': its definition was refused (f:3); the tools are: y."
    )
