"""The act that a handle waits for, derived from its state alone."""

from __future__ import annotations

from typing import get_args

import pytest
from msgspec import UnsetType

from haft_protocol.questions import Boolean, Question
from haft_protocol.states import EndedBy, InputKind, InputWanted, Running
from haftd.core.handles import Handle, HandleSettings
from haftd.core.termination import Termination
from haftd.core.views import handle_state, needs_of
from tests.core.disks import make

QUESTION = Question(id="q", text="Go on?", answer_type=Boolean())
EXIT = EndedBy(by="exit")


def handle_of(*, needs_approval: bool = False, is_reviewed: bool = False) -> Handle:
    return Handle(
        id="h",
        tool="run",
        session="s",
        generation=1,
        spool=make(),
        now=0.0,
        terminal=True,
        needs_approval=needs_approval,
        settings=HandleSettings(is_reviewed=is_reviewed),
    )


def running(**settings: bool) -> Handle:
    handle = handle_of(**settings)
    handle.start(0.0, terminal=True)
    return handle


def needs(handle: Handle) -> str:
    return handle_state(handle, 0.0).needs


@pytest.mark.parametrize("kind", get_args(InputKind))
def test_a_program_that_reads_needs_that_input(kind: InputKind) -> None:
    handle = running()
    assert needs_of(handle, kind) == kind
    assert needs_of(handle, None) == "nothing"
    by_list = handle_state(handle, 0.0, reads=kind)
    by_fetch = handle_state(handle, 0.0, input_wanted=InputWanted(kind, "?"))
    assert by_list.needs == by_fetch.needs == kind
    assert isinstance(by_list, Running) and isinstance(by_list.input_wanted, UnsetType)


def test_an_open_question_needs_an_answer_until_it_is_answered() -> None:
    handle = running()
    handle.ask(QUESTION, 1.0)
    assert needs(handle) == "answer"
    handle.answer(2.0)
    assert needs(handle) == "nothing"


def test_a_start_that_awaits_approval_needs_a_decision() -> None:
    handle = handle_of(needs_approval=True)
    assert needs(handle) == "decision"
    handle.approve(terminal=True)
    assert needs(handle) == "nothing"


def test_a_withheld_result_needs_a_decision() -> None:
    handle = running(is_reviewed=True)
    assert needs(handle) == "nothing"
    handle.withhold(Termination(by=EXIT), 1.0)
    assert needs(handle) == "decision"
    handle.release(Termination(by=EXIT), 2.0, review="allowed")
    assert needs(handle) == "nothing"


def test_a_handle_that_ends_needs_nothing() -> None:
    handle = running()
    handle.ask(QUESTION, 1.0)
    handle.request_stop(EndedBy(by="abort"))
    assert needs(handle) == "nothing"
    handle.end(Termination(by=EXIT), 2.0)
    assert needs_of(handle, "line") == "nothing"
