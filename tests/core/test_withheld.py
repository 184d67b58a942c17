from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from haft_protocol.states import EndedBy, Exit, ToolError
from haftd.core.spool import Budget, Spool
from haftd.core.termination import Termination
from haftd.core.text import STRIPPED
from haftd.core.withheld import ReviewDecision, WithheldResult

EXIT = EndedBy("exit")
PRINTED = Termination(by=EXIT, exit=Exit(code=0))
FAILED = Termination(by=EXIT, exit=Exit(code=3))
SAID = Termination(by=EXIT, result="said", exit=Exit(code=0))
BROKE = Termination(by=EXIT, failure=ToolError("broke", ("at x",), True), exit=Exit(code=1))
PASSED = Termination(by=EndedBy("limit"), limit="wall_s", exit=Exit(signal="TERM"))
ALL = (PRINTED, FAILED, SAID, BROKE, PASSED)


SHOWN = st.characters(exclude_categories=["C", "Z"], include_characters=" \n")
"""Characters that are shown as they are; what a terminal would act on takes no room."""


def withheld(printed: bytes = b"printed") -> WithheldResult:
    one = WithheldResult(Spool(1 << 20, 0, None, Budget(0)))
    one.emit(printed)
    return one


def content(spool: Spool | None) -> bytes:
    return b"" if spool is None else spool.read(0, spool.end)


@pytest.mark.parametrize(
    ("termination", "text", "failed", "failure"),
    [
        (PRINTED, "printed", False, None),
        (FAILED, "printed", True, "The process exited with code 3."),
        (SAID, "said", False, None),
        (BROKE, "broke\nat x", True, None),
        (PASSED, "printed", True, "It was ended because it exceeded its limit `wall_s`; the process was ended by signal TERM."),
    ],
)  # fmt: skip
def test_a_withheld_result_is_shown_as_its_outcome(
    termination: Termination, text: str, failed: bool, failure: str | None
) -> None:
    shown = withheld().show(termination, STRIPPED, 100)
    assert (shown.text, shown.failed, shown.failure) == (text, failed, failure)
    assert (shown.bytes, shown.omitted) == (len(text), 0)


@given(st.text(SHOWN, max_size=300), st.integers(1, 80), st.sampled_from([PRINTED, SAID]))
def test_omitted_bytes_are_counted(text: str, most: int, termination: Termination) -> None:
    if termination is SAID:
        termination = Termination(by=EXIT, result=text)
    shown = withheld(text.encode()).show(termination, STRIPPED, most)
    assert shown.bytes == len(text.encode())
    assert (shown.omitted > 0) == (shown.bytes > most)


def test_an_allowed_result_is_released_unchanged() -> None:
    for termination in ALL:
        outcome, spool = withheld().release(termination, ReviewDecision("allow"))
        assert outcome == termination
        assert content(spool) == (b"printed" if termination.is_output else b"")


def test_an_edited_result_replaces_the_text() -> None:
    for termination in ALL:
        outcome, spool = withheld().release(termination, ReviewDecision("edit", text="other"))
        assert outcome.by == termination.by and outcome.exit == termination.exit
        assert content(spool) == (b"other" if termination.is_output else b"")
    assert withheld().release(SAID, ReviewDecision("edit", text="other"))[0].result == "other"
    outcome, _ = withheld().release(BROKE, ReviewDecision("edit", text="other"))
    assert outcome.failure == ToolError("other", (), True)


def test_a_hint_that_quotes_the_output_is_released_with_the_output_only() -> None:
    hinted = replace(PRINTED, hint="a path")
    for decision in (
        ReviewDecision("edit", text="other"),
        ReviewDecision("deny", explanation="word"),
        ReviewDecision("skip", explanation="word"),
    ):
        assert withheld().release(hinted, decision)[0].hint == ""
    assert withheld().release(hinted, ReviewDecision("allow"))[0] == hinted


@pytest.mark.parametrize("decision", ["deny", "skip"])
def test_a_denied_or_skipped_result_keeps_no_output(decision: str) -> None:
    for termination in ALL:
        result = withheld()
        outcome, spool = result.release(
            termination,
            ReviewDecision("deny" if decision == "deny" else "skip", explanation="word"),
        )
        assert spool is None and result.spool.read(0, 100) == b"" and outcome.exit is None
        if decision == "deny":
            assert outcome.failure == ToolError("word") and outcome.result is None
        elif termination is PASSED:
            assert outcome.failure is None and outcome.result is None and outcome.limit == "wall_s"
        else:
            assert (outcome.result, outcome.failure, outcome.is_raw) == ("word", None, False)
        assert "printed" not in repr(outcome) and "broke" not in repr(outcome)


def test_a_discarded_result_names_the_canceller() -> None:
    result = withheld()
    outcome = result.discard(SAID, EndedBy("abort", "vim"))
    assert outcome.by == EndedBy("abort", "vim") and outcome.result is None and outcome.exit is None
    assert outcome.failure is not None and "cancelled before" in outcome.failure.message
    assert result.spool.read(0, 100) == b""


def test_a_discarded_result_names_surviving_processes() -> None:
    termination = Termination(by=EXIT, result="said", unconfirmed=(7,))
    assert withheld().discard(termination, EndedBy("abort")).unconfirmed == (7,)


def test_late_output_is_not_released() -> None:
    result = withheld()
    _, spool = result.release(PRINTED, ReviewDecision("allow"))
    result.emit(b"late")
    assert content(spool) == b"printed"
    result.drop()
    assert content(spool) == b"printed"
