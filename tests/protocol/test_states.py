"""Handle states on the wire."""

from __future__ import annotations

import json
from typing import Any, get_args

import msgspec
import msgspec.inspect
import pytest

from haft_protocol.methods import AwaitResult
from haft_protocol.questions import Boolean, Question
from haft_protocol.states import (
    EndedBy,
    Exit,
    HandleState,
    InputWanted,
    Pending,
    Running,
    Stopped,
    ToolError,
    Truncated,
    Waiting,
)

COMMON: dict[str, Any] = {
    "id": "a", "tool": "run", "session": "default", "cursor": 3, "generation": 1, "elapsed_ms": 5,
}  # fmt: skip

STATES: list[tuple[HandleState, dict[str, Any]]] = [
    (Pending(**COMMON, content=""), {"state": "pending", "content": ""}),
    (Running(**COMMON, content="x", omitted=2), {"state": "running", "content": "x", "omitted": 2}),
    (Running(**COMMON, content="", input_wanted=None), {"state": "running", "content": "", "input_wanted": None}),
    (
        Running(**COMMON, content="", input_wanted=InputWanted("line", "? "), waited="input"),
        {"state": "running", "content": "", "input_wanted": {"kind": "line", "prompt": "? "}, "waited": "input"},
    ),
    (
        Waiting(**COMMON, content="", question=Question(id="q", text="t", answer_type=Boolean())),
        {"state": "waiting", "content": "", "question": {"id": "q", "text": "t", "answer_type": {"type": "boolean"}}},
    ),
    (
        Stopped(**COMMON, ended_by=EndedBy("exit"), exit=Exit(code=0), result="ok", output_complete=True),
        {"state": "stopped", "ended_by": {"by": "exit"}, "exit": {"code": 0}, "result": "ok", "output_complete": True},
    ),
    (
        Stopped(
            **COMMON, ended_by=EndedBy("abort", "editor"), exit=Exit(signal="TERM"), error=ToolError("m"), content="",
            truncated=Truncated(9, 3, None),
        ),
        {
            "state": "stopped", "ended_by": {"by": "abort", "client": "editor"}, "exit": {"signal": "TERM"},
            "error": {"message": "m", "trace": [], "transient": False}, "content": "",
            "truncated": {"bytes": 9, "kept": 3, "path": None},
        },
    ),
]  # fmt: skip


def test_a_state_is_written_with_exactly_its_fields_and_parsed_again() -> None:
    for state, own in STATES:
        written = msgspec.json.encode(state)
        assert json.loads(written) == {**COMMON, **own}
        assert msgspec.json.decode(written, type=HandleState) == state


def test_timed_out_is_written_only_when_true() -> None:
    assert msgspec.to_builtins(AwaitResult((), ())) == {"completed": (), "pending": ()}
    assert msgspec.to_builtins(AwaitResult((), (), True))["timed_out"] is True


@pytest.mark.parametrize("kind", get_args(HandleState))
def test_each_state_has_its_tag_as_a_constant_beside_the_wire(kind: type[HandleState]) -> None:
    tag = msgspec.inspect.type_info(kind).tag  # type: ignore[attr-defined]
    assert kind.state == tag and "state" not in kind.__struct_fields__


def test_the_state_is_told_apart_by_its_name_and_cannot_be_changed() -> None:
    data = {"state": "running", "id": "h", "tool": "t", "session": "s", "cursor": 0}
    state: HandleState = msgspec.convert(
        data | {"generation": 1, "elapsed_ms": 0, "content": "text"}, HandleState
    )
    assert state.state != "stopped" and state.content == "text", "mypy narrows the union"
    with pytest.raises(AttributeError):
        state.state = "stopped"  # type: ignore[misc, assignment]
    assert msgspec.json.encode(state).count(b'"state"') == 1
