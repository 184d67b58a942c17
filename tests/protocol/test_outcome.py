"""What a tool prints: both generations of forms are read, everything else stays raw."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haft_protocol.outcome import (
    Failure,
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
    ({"type": "stopped"}, Success("")),
]  # fmt: skip


@pytest.mark.parametrize(("form", "read"), FORMS)
def test_each_form_is_read(form: dict[str, Any], read: Outcome) -> None:
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
        b'{"type":"success"}', b'{"type":"success","content":5}', b'{"type":"success","content":null}',
        b'{"type":"Success","content":"x"}', b'{"type":"error"}', b'{"type":"error","message":5}',
        b'{"type":"error","message":"x","trace":"y"}', b'{"type":"error","message":"x","trace":[1]}',
        b'{"type":"error","message":"x","transient":1}', b'{"type":"needs_input"}',
        b'{"type":"needs_input","question":"x"}', b'{"type":"needs_input","question":{"id":"q"}}',
        b'{"type":"waiting","question":{"id":"q","text":"t","answer_type":"Colour"}}',
        b'{"type":"stopped","result":5}', b'{"type":"stopped","result":{"Ok":5}}',
        b'{"type":"stopped","result":{"Ok":"a","Err":"b"}}', b'{"type":"stopped","result":{}}',
        b'{"type":"stopped","error":5}', b'{"type":"running","content":5}', b'{"type":["success"]}',
        b'warning\n{"type":"success","content":"x"}', b'{"type":"success","content":"x"}\ntrailer',
        b'{"type":"success","content":"\xff"}', b'{"type":"success","content":"x","n":1e999}',
        b'{"a":' * 3000 + b"1" + b"}" * 3000,
    ],
)  # fmt: skip
def test_anything_else_is_raw(text: bytes) -> None:
    assert read_outcome(text) == Raw()
    assert read_event(text) == Raw()


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
def test_any_output_is_read_without_an_exception(text: bytes) -> None:
    assert isinstance(read_outcome(text), Success | Failure | NeedsInput | Progress | Raw)
    assert isinstance(read_event(text), Success | Failure | NeedsInput | Progress | Raw)


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
def test_a_binary_that_does_not_describe_itself_is_told_why(text: bytes, words: str) -> None:
    with pytest.raises(SchemaUnreadable, match=words):
        read_schema(text)
