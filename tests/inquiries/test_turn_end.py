"""The question at a turn's end."""

from __future__ import annotations

import pytest

from haft_protocol.questions import Form, Question, Text
from haftd.core.handles import Handle
from haftd.core.views import printable
from haftd.inquiries.turn_end import make_question
from tests.core.disks import make


def handle(id: str, output: str = "", *, starts: bool = True) -> Handle:
    handle = Handle(id=id, tool="run", session="s", generation=1, spool=make(), now=0.0)
    if starts:
        handle.start(0.0)
    if output:
        handle.append_output(output.encode(), 10.0)
    return handle


def test_each_handle_is_listed_with_state_age_and_last_lines() -> None:
    asks = handle("asks")
    asks.ask(Question(id="q", text="Sure?", answer_type=Text()), 5.0)
    question = make_question(
        [handle("build", "a\nb\n\nc\nd\ne\nf"), asks, handle("early", starts=False)], 200.0
    )
    assert question.pre_amble == (
        "build: run, running for 3 min, last output 3 min ago\n"
        "  | b\n  | c\n  | d\n  | e\n  | f\n"
        "asks: run, waiting for 3 min\n"
        "  asks: Sure?\n"
        "early: run, pending for 3 min"
    )
    assert "3 programs still run" in question.text
    assert isinstance(question.answer_type, Form)
    fields = question.answer_type.fields
    assert [(name, one.options) for name, one in fields.items()] == [
        (name, ("wait", "abort", "keep")) for name in ("build", "asks", "early")
    ]
    assert fields["asks"].text == "run, waiting for 3 min"


def test_a_program_cannot_forge_a_line_of_the_question() -> None:
    forged = "x\r\nevil: run, running for 1 s\r\x1b[2Ay\u2028z\u202e\x07"
    told = make_question([handle("h", forged)], 1.0).pre_amble or ""
    head, *lines = told.split("\n")
    assert head.startswith("h: ") and lines
    assert all(line.startswith("  | ") and line.isprintable() for line in lines)


@pytest.mark.parametrize("count", [1, 16, 256])
def test_the_question_stays_readable_with_any_number_of_handles(count: int) -> None:
    many = [handle(f"h{n}", ("word " * 100 + "\n") * 20 + "line\n") for n in range(count)]
    question = make_question(many, 3.0)
    told = question.pre_amble or ""
    assert len(told) < 24_000 + 80 * count
    assert sum(line == "  | line" for line in told.split("\n")) >= count


def test_a_line_is_cut_and_shows_invisible_characters() -> None:
    assert printable("a\tb\x00", 80) == "a\\tb\\x00"
    assert printable("x" * 100, 10) == "x" * 9 + "…"
    assert printable("x" * 10, 10) == "x" * 10


@pytest.mark.parametrize(
    ("after", "message"),
    [(119, "119 s"), (120, "2 min"), (7_199, "119 min"), (7_200, "2 h")],
)
def test_an_age_is_shown_in_a_readable_unit(after: int, message: str) -> None:
    assert make_question([handle("a")], float(after)).pre_amble == f"a: run, running for {message}"


def test_a_line_keeps_forty_characters_beside_however_many_handles() -> None:
    described = (
        make_question([handle(f"h{n}", "y" * 200) for n in range(1000)], 3.0).pre_amble or ""
    )
    lines = [line.removeprefix("  | ") for line in described.split("\n") if line.startswith("  | ")]
    assert len(lines) == 1000 and {len(line) for line in lines} == {40}
