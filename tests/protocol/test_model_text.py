from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from haft_protocol.handles import AwaitResult
from haft_protocol.inquiries import Inquiry, Target, schema
from haft_protocol.model_text import await_text, has_failed, list_text, notices_text, state_text
from haft_protocol.questions import (
    AnswerType,
    Boolean,
    Choice,
    Form,
    Question,
    Secret,
    Select,
    Text,
)
from haft_protocol.states import HandleState, Notice, Running, Stopped, Waiting

COMMON = {"id": "h", "tool": "run", "session": "s", "cursor": 0, "generation": 1}
ERROR = {"message": "It broke.", "trace": [], "transient": False}


def state(**fields: Any) -> Any:
    form = {"state": "running", "elapsed_ms": 1000, **COMMON, **fields}
    return msgspec.convert({"content": "", **form}, HandleState)


def ended(by: str = "exit", **fields: Any) -> Any:
    form = {"state": "stopped", "elapsed_ms": 1000, **COMMON, "ended_by": {"by": by}, **fields}
    return msgspec.convert(form, HandleState)


def line(kind: str, *, certain: bool = True, prompt: str = "") -> dict[str, Any]:
    return {"kind": kind, "prompt": prompt, "certain": certain}


@pytest.mark.parametrize(
    ("shown", "header"),
    [
        (state(state="pending"), "[h: starting, 1.0 s]"),
        (state(), "[h: running, 1.0 s]"),
        (state(suspended=True), "[h: suspended by a signal, 1.0 s]"),
        (state(input_wanted=line("line")), "[h: running, 1.0 s, reads a line]"),
        (state(input_wanted=line("key")), "[h: running, 1.0 s, reads keys]"),
        (state(input_wanted=line("secret")), "[h: running, 1.0 s, reads a secret]"),
        (
            state(input_wanted=line("line", certain=False)),
            "[h: running, 1.0 s, seems idle, possibly reads a line]",
        ),
        (ended(exit={"code": 0}, result=""), "[h: exit 0, 1.0 s]"),
        (ended(exit={"code": 3}, content="", error=ERROR), "[h: exit 3, 1.0 s]"),
        (
            ended(exit={"signal": "SEGV"}, content="", error=ERROR),
            "[h: killed by SIGSEGV, 1.0 s]",
        ),
        (
            ended("abort", exit={"signal": "TERM"}, content="", error=ERROR),
            "[h: ended by handle_stop, 1.0 s]",
        ),
        (ended("abort", content="", error=ERROR), "[h: ended by handle_stop, 1.0 s]"),
        (
            ended("turn_end", exit={"signal": "TERM"}, content="", error=ERROR),
            "[h: ended with the turn, 1.0 s]",
        ),
        (
            ended("limit", exit={"signal": "KILL"}, content="", error=ERROR),
            "[h: ended by a limit, 1.0 s]\nIt broke.",
        ),
        (
            ended("lost", content="", error=ERROR),
            "[h: lost in a restart of haftd, 1.0 s]\nIt broke.",
        ),
        (ended(result="yes"), "[h: done, 1.0 s]\nyes"),
        (ended(error=ERROR), "[h: failed, 1.0 s]\nIt broke."),
        (state(elapsed_ms=9_940), "[h: running, 9.9 s]"),
        (state(elapsed_ms=119_000), "[h: running, 119 s]"),
        (state(elapsed_ms=7_140_000), "[h: running, 119 min]"),
        (state(elapsed_ms=7_200_000), "[h: running, 2 h]"),
    ],
)
def test_the_header_has_the_state(shown: Any, header: str) -> None:
    assert state_text(shown) == header


def test_only_a_tools_own_failure_is_a_failure() -> None:
    assert has_failed(ended(error=ERROR))
    assert not has_failed(ended(exit={"code": 3}, content="", error=ERROR))
    assert not has_failed(ended("limit", error=ERROR))
    assert not has_failed(state()) and not has_failed(ended(result=""))


def test_the_output_follows_the_header_with_the_cause_of_its_end() -> None:
    limit = ended("limit", exit={"signal": "KILL"}, content="so far\n", error=ERROR)
    assert state_text(limit).splitlines()[1:] == ["so far", "It broke."]
    assert state_text(ended(exit={"code": 1}, content="said\n", error=ERROR)).splitlines()[1:] == [
        "said"
    ]


def test_a_prompt_appears_once_behind_the_output() -> None:
    asks = line("line", prompt="ok?\x07")
    assert state_text(state(content="a\n", input_wanted=asks)).splitlines()[1:] == ["a", "ok? "]
    again = state(content="a\nok? ", input_wanted=line("line", prompt="ok? "))
    assert state_text(again).splitlines()[1:] == ["a", "ok? "]


def test_a_prompt_that_ends_in_a_newline_appears_once() -> None:
    for prompt in ("Name?", "Name?\n"):
        shown = state(content="a\nName?\n", input_wanted=line("line", prompt=prompt))
        assert state_text(shown).splitlines()[1:] == ["a", "Name?"]


def test_the_last_row_of_a_full_screen_program_is_no_prompt_beside_it() -> None:
    asks = line("key", prompt="settings  All")
    drawn = state(content="one\nsettings  All\n", input_wanted=asks)
    assert state_text(drawn).splitlines()[1:] == ["one", "settings  All"]


def test_a_start_waits_for_approval_only_where_there_is_one() -> None:
    shown = state(state="pending")
    assert state_text(shown, approval="a1").splitlines() == [
        "[h: waits for approval, 1.0 s]", "[a person decides: haft approve a1 --allow, or --deny]",
    ]  # fmt: skip
    result = AwaitResult(completed=(), pending=(shown,))
    assert await_text(result, {}) == "[h: starting, 1.0 s]"
    assert await_text(result, {}, {"h"}) == "[h: waits for approval, 1.0 s]"
    row = {**COMMON, "state": "pending", "elapsed_ms": 0, "age_s": 1.0, "command": "x"}
    assert list_text([row]) == "h: starting, 1.0 s: x"
    assert list_text([row], {"h"}) == "h: waits for approval, 1.0 s: x"


def test_a_screen_is_its_rows_and_the_cursor_position() -> None:
    screen = {
        "rows": 4, "cols": 20, "cursor": [1, 2], "alt": True, "title": "", "revision": 1, "scrollback": 0,
        "lines": ["one   ", "", "two", "", ""],
    }  # fmt: skip
    shown = state_text(state(screen=screen, input_wanted=line("key", prompt="two")))
    assert shown.splitlines()[1:] == [
        "one", "", "two", "[screen 4x20, cursor at row 1, column 2]",
    ]  # fmt: skip


def test_omitted_output_can_be_read_from_its_offset() -> None:
    body = "one\n… 50 bytes left out …\nlast\n"
    cut = state_text(state(content=body, cursor=100, omitted=50))
    hint = cut.splitlines()[-1]
    # Those of "last\n" come last, and the missing ones before them.
    assert hint == '[50 bytes left out; handle_read {"id": "h", "from": 45}]'
    assert state_text(state(content="x", omitted=7)).splitlines()[-1] == "[7 bytes left out]"


def test_omissions_of_a_result_are_in_a_file_or_gone() -> None:
    kept = {"bytes": 5_000, "kept": 1_000, "path": "/spool/h"}
    saved = ended(exit={"code": 0}, result="x", truncated=kept)
    assert state_text(saved).endswith("\n[4,000 bytes left out; all is in /spool/h]")
    gone = ended(exit={"code": 0}, result="x", truncated={**kept, "path": None})
    assert state_text(gone).endswith("\n[4,000 bytes left out]")


def asks(answer_type: AnswerType) -> Waiting:
    question = Question(id="q", text="Well?", pre_amble="Look:", answer_type=answer_type)
    form = {"state": "waiting", "elapsed_ms": 1000, **COMMON, "content": ""}
    shown = msgspec.convert({**form, "question": msgspec.to_builtins(question)}, HandleState)
    assert isinstance(shown, Waiting)
    return shown


def inquiry(shown: Waiting, target: Target = "assistant") -> Inquiry:
    return Inquiry(
        session="s",
        inquiry_id="tool_call.run.c",
        question=shown.question,
        schema=schema("tool_call.run.c", shown.question.answer_type),
        target=target,
    )


@pytest.mark.parametrize(
    ("answer_type", "takes", "example"),
    [
        (Boolean(), "true or false", True),
        (Text(), "a string", "…"),
        (Select(options=("a", 2)), 'one of "a", 2', "a"),
        (
            Form(fields={"one": Choice(options=("wait", "abort"))}),
            'an object (one: one of "wait", "abort")',
            {"one": "wait"},
        ),
    ],
)
def test_a_question_shows_its_input_and_how_to_answer(
    answer_type: AnswerType, takes: str, example: object
) -> None:
    shown = asks(answer_type)
    header, *question, hint = state_text(shown, inquiry=inquiry(shown)).splitlines()
    assert header == "[h: asks, 1.0 s]" and question == ["Look:", "Well?"]
    rest, _, call = hint.removesuffix("]").partition("; answer by handle_send ")
    assert rest == f"[takes {takes}" and json.loads(call) == {"id": "h", "answer": example}


def test_a_question_not_for_the_model_is_marked() -> None:
    shown = asks(Boolean())
    assert state_text(shown).endswith("\n[another client is being asked]")
    by_a_person = "\n[a person answers: haft answer tool_call.run.c]"
    assert state_text(shown, inquiry=inquiry(shown, "user")).endswith(by_a_person)
    secret = asks(Secret())
    assert state_text(secret, inquiry=inquiry(secret)).endswith(by_a_person)


def test_several_handles_are_listed_in_order() -> None:
    done = ended(exit={"code": 0}, result="out\n")
    shown = asks(Boolean())
    runs = state(id="r", content="not told here")
    assert isinstance(done, Stopped) and isinstance(runs, Running)
    result = AwaitResult(completed=(done,), pending=(runs,), waiting=(shown,))
    first, out, asked, *question, hint, last = await_text(result, {"h": inquiry(shown)}).split("\n")
    assert (first, out, asked, last) == (
        "[h: exit 0, 1.0 s]", "out", "[h: asks, 1.0 s]", "[r: running, 1.0 s]",
    )  # fmt: skip
    assert question == ["Look:", "Well?"] and "handle_send" in hint
    assert "another client" in await_text(result, {})


def test_a_list_has_a_line_per_handle() -> None:
    row = {
        "state": "running",
        "elapsed_ms": 5,
        **COMMON,
        "age_s": 300.0,
        "command": "a\nb" + "x" * 99,
    }
    (told,) = list_text([row]).splitlines()
    assert told == f"h: running, 5 min: a b{'x' * 56}…"
    assert list_text([]) == "no handles"


def test_a_row_of_a_failed_tool_says_failed() -> None:
    row = {**COMMON, "state": "stopped", "elapsed_ms": 5, "age_s": 1.0, "command": "x"}
    failed = {**row, "ended_by": {"by": "exit"}, "error": ERROR}
    assert list_text([failed]) == "h: failed, 1.0 s: x"
    assert list_text([{**failed, "exit": {"code": 1}}]) == "h: exit 1, 1.0 s: x"


def test_a_row_without_a_command_shows_the_tool() -> None:
    row = {**COMMON, "state": "pending", "elapsed_ms": 0, "age_s": 1.0, "command": ""}
    assert list_text([row], {"h"}) == "h: waits for approval, 1.0 s: run"


def test_a_notice_is_one_line_of_bounded_length() -> None:
    notices = [Notice("tool.stopped", "info", f"{n}\n" + "x" * 400, 0.0) for n in (1, 2)]
    first, second = notices_text(notices).splitlines()
    assert first.startswith("[info] 1 x") and second.startswith("[info] 2 x")
    assert len(first) == len("[info] ") + 300 and first.endswith("…")
