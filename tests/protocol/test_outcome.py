from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haft_protocol.outcome import (
    Failure,
    Malformed,
    NeedsInput,
    Outcome,
    Progress,
    Raw,
    SchemaUnreadable,
    Success,
    read_event,
    read_outcome,
    read_schema,
)
from haft_protocol.questions import Boolean, Question, Select, Text

ASK = {"id": "q", "text": "Go on?", "answer_type": {"type": "boolean"}}
ASKED = Question(id="q", text="Go on?", answer_type=Boolean())

FORMS: list[tuple[dict[str, Any], Outcome]] = [
    ({"type": "success", "content": "ok"}, Success("ok")),
    ({"type": "error", "message": "no", "trace": ["a", "b"], "transient": True}, Failure("no", ("a", "b"), True)),
    ({"type": "error", "message": "no"}, Failure("no")),
    ({"type": "error", "message": "no", "trace": None}, Failure("no")),
    ({"type": "needs_input", "question": ASK}, NeedsInput(ASKED)),
    ({"type": "needs_input", "question": {**ASK, "answer_type": "Boolean"}}, NeedsInput(ASKED)),
    (
        {"type": "needs_input", "question": {**ASK, "answer_type": {"Select": {"options": ["y", "n"]}}}},
        NeedsInput(Question(id="q", text="Go on?", answer_type=Select(("y", "n")))),
    ),
    ({"type": "running", "content": "50 %"}, Progress("50 %")),
    ({"type": "running", "content": None}, Progress("")),
    ({"type": "running"}, Progress("")),
    ({"type": "spawned", "content": "$ "}, Progress("$ ")),
    ({"type": "waiting", "content": "so far", "question": ASK}, NeedsInput(ASKED, "so far")),
    ({"type": "waiting", "content": None, "question": {**ASK, "answer_type": "Text"}}, NeedsInput(Question(id="q", text="Go on?", answer_type=Text()))),
    ({"type": "stopped", "result": {"Ok": "done"}}, Success("done")),
    ({"type": "stopped", "result": {"Err": {"message": "no", "trace": ["a"], "transient": False}}}, Failure("no", ("a",))),
    ({"type": "stopped", "result": {"Err": "no"}}, Failure("no")),
    ({"type": "stopped", "result": "done"}, Success("done")),
    ({"type": "stopped", "error": {"message": "no", "trace": [], "transient": True}}, Failure("no", (), True)),
    ({"type": "stopped", "result": None, "error": {"message": "no"}}, Failure("no")),
    ({"type": "stopped", "content": "done", "error": None}, Success("done")),
    ({"type": "stopped", "content": "", "error": {"message": "no"}}, Failure("no")),
    ({"type": "stopped", "content": "so far", "result": "done"}, Success("done", "so far")),
    ({"type": "stopped", "content": "so far", "result": {"Ok": "done"}}, Success("done", "so far")),
    ({"type": "stopped", "content": "so far", "result": {"Err": "no"}}, Failure("no", output="so far")),
    ({"type": "stopped", "content": "so far", "error": {"message": "no"}}, Failure("no", output="so far")),
    ({"type": "stopped"}, Success("")),
]  # fmt: skip


@pytest.mark.parametrize(("form", "read"), FORMS)
def test_each_form_is_parsed(form: dict[str, Any], read: Outcome) -> None:
    for indent in (None, 2):
        text = b"\n " + json.dumps(form, indent=indent).encode() + b"\r\n"
        assert read_outcome(text) == read
    assert read_event(json.dumps(form).encode()) == read
    assert (
        read_event(json.dumps({"jsonrpc": "2.0", "method": "state", "params": form}).encode())
        == read
    )


@pytest.mark.parametrize(
    "text",
    [
        b"", b" ", b"plain", b"5", b"null", b"[]", b'"success"', b"{", b"{}", b"{} {}", b"\xff\xfe",
        b'{"type":"Success","content":"x"}', b'{"type":["success"]}', b'{"type":null}', b'{"type":"odd"}',
        b'warning\n{"type":"success","content":"x"}', b'{"type":"success","content":"x"}\ntrailer',
        b'{"type":"success","content":"\xff"}', b'{"type":"success","content":"x","n":1e999}',
        b'{"a":' * 3000 + b"1" + b"}" * 3000,
    ],
)  # fmt: skip
def test_anything_else_is_raw(text: bytes) -> None:
    assert read_outcome(text) == Raw()
    assert read_event(text) == Raw()


MALFORMED: list[tuple[dict[str, Any], str]] = [
    ({"type": "success"}, "`content` is missing; it must be a string"),
    ({"type": "success", "content": 5}, "`content` is a number; it must be a string"),
    ({"type": "success", "content": None}, "`content` is null; it must be a string"),
    ({"type": "error"}, "`message` is missing; it must be a string"),
    ({"type": "error", "message": ["x"]}, "`message` is an array; it must be a string"),
    ({"type": "error", "message": "x", "trace": "y"}, "`trace` is a string; it must be an array of strings"),
    ({"type": "error", "message": "x", "trace": ["y", 1]}, "`trace` has an item that is not a string; it must be an array of strings"),
    ({"type": "error", "message": "x", "transient": 1}, "`transient` is a number; it must be true or false"),
    ({"type": "needs_input"}, "`question` is missing; it must be an object"),
    ({"type": "needs_input", "question": "x"}, "`question` is a string; it must be an object"),
    ({"type": "needs_input", "question": {**ASK, "id": 5}}, "its `question` is wrong: Expected `str`, got `int` - at `$.id`"),
    ({"type": "needs_input", "question": {"text": "t", "answer_type": "Text"}}, "its `question` is wrong: Object missing required field `id`"),
    ({"type": "waiting", "question": {"id": "q", "text": "t"}}, "its `question` is wrong: the question has no `answer_type`"),
    ({"type": "waiting", "question": {**ASK, "answer_type": "Colour"}}, "its `question` is wrong: its `answer_type` is wrong: Expected `object`, got `str`"),
    ({"type": "waiting", "question": ASK, "content": 5}, "`content` is a number; it must be a string"),
    ({"type": "running", "content": True}, "`content` is a boolean; it must be a string"),
    ({"type": "spawned", "content": {}}, "`content` is an object; it must be a string"),
    ({"type": "stopped", "result": 5}, '`result` must be a string, {"Ok": …} or {"Err": …}'),
    ({"type": "stopped", "result": {}}, '`result` must be a string, {"Ok": …} or {"Err": …}'),
    ({"type": "stopped", "result": {"Ok": "a", "Err": "b"}}, '`result` must be a string, {"Ok": …} or {"Err": …}'),
    ({"type": "stopped", "result": {"Ok": 5}}, "`result.Ok` is a number; it must be a string"),
    ({"type": "stopped", "result": {"Err": {"trace": []}}}, "`result.Err.message` is missing; it must be a string"),
    ({"type": "stopped", "result": {"Err": 5}}, "`result.Err` is a number; it must be an object or a string"),
    ({"type": "stopped", "error": {"message": "x", "trace": {"a": 1}}}, "`error.trace` is an object; it must be an array of strings"),
    ({"type": "stopped", "error": 5}, "`error` is a number; it must be an object or a string"),
    ({"type": "stopped", "content": []}, "`content` is an array; it must be a string"),
]  # fmt: skip


@pytest.mark.parametrize(("form", "why"), MALFORMED)
def test_an_outcome_with_an_invalid_field_is_malformed_and_names_the_field(
    form: dict[str, Any], why: str
) -> None:
    text = json.dumps(form).encode()
    state = json.dumps({"jsonrpc": "2.0", "method": "state", "params": form}).encode()
    wanted = Malformed(f"a malformed `{form['type']}` outcome: {why}")
    assert (read_outcome(text), read_event(text), read_event(state)) == (wanted, wanted, wanted)


def test_only_the_notification_state_is_read_from_an_envelope() -> None:
    state = {"type": "success", "content": "x"}
    for form in (
        {"jsonrpc": "2.0", "method": "other", "params": state},
        {"jsonrpc": "2.0", "method": "state", "params": [state]},
        {"jsonrpc": "2.0", "method": "state", "params": state, "id": 1},
        {"jsonrpc": "1.0", "method": "state", "params": state},
        {"jsonrpc": "2.0", "method": "state"},
    ):
        assert read_event(json.dumps(form).encode()) == Raw()
    envelope = json.dumps({"jsonrpc": "2.0", "method": "state", "params": state}).encode()
    assert read_outcome(envelope) == Raw()


@given(
    st.binary()
    | st.recursive(
        st.none() | st.booleans() | st.text(max_size=5),
        lambda i: (
            st.lists(i, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "type",
                        "content",
                        "result",
                        "error",
                        "question",
                        "message",
                        "Ok",
                        "Err",
                        "id",
                        "text",
                        "answer_type",
                    ]
                ),
                i
                | st.sampled_from(
                    ["success", "error", "stopped", "waiting", "running", "needs_input", "Boolean"]
                ),
                max_size=4,
            )
        ),
    ).map(lambda v: json.dumps(v).encode())
)
def test_any_output_is_parsed_without_an_exception(text: bytes) -> None:
    assert isinstance(
        read_outcome(text), Success | Failure | NeedsInput | Progress | Malformed | Raw
    )
    assert isinstance(read_event(text), Success | Failure | NeedsInput | Progress | Malformed | Raw)


def test_a_binary_describes_its_tools() -> None:
    first, second = read_schema(
        b'{"tools":[{"name":"check","summary":"s","description":"d","parameters":{"package":{"type":"string"}}},'
        b'{"name":"fmt","more":1}]}'
    )
    assert (first.name, first.summary, first.description) == ("check", "s", "d")
    assert first.parameters == {"package": {"type": "string"}}
    assert (second.name, second.parameters) == ("fmt", {})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "nothing"), (b" \n", "nothing"), (b"usage: x", "no description"), (b"{}", "tools"),
        (b'{"tools":[]}', "no tool"), (b'{"tools":[{}]}', "name"), (b'{"tools":[{"name":5}]}', "name"),
        (b'{"tools":[{"name":"a"},{"name":"a"}]}', "twice"), (b"\xff", "no description"),
        (b'{"tools":[{"name":"a","parameters":[]}]}', "parameters"), (b'{"tools":[{"name":"\xff"}]}', "no description"),
    ],
)  # fmt: skip
def test_an_invalid_self_description_has_a_reason(text: bytes, words: str) -> None:
    with pytest.raises(SchemaUnreadable, match=words):
        read_schema(text)
