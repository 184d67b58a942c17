from __future__ import annotations

from typing import get_args

import pytest

from haft_protocol.states import By, EndedBy, Exit, ToolError
from haftd.core.termination import Termination, failure_of, internal_failure

TERM = Exit(signal="TERM")


@pytest.mark.parametrize(
    ("by", "exit", "limit", "sentence"),
    [
        (EndedBy("exit"), Exit(code=7), None, "The process exited with code 7."),
        (EndedBy("exit"), TERM, None, "The process was ended by signal TERM."),
        (
            EndedBy("abort", "nvim"),
            TERM,
            None,
            "It was aborted by nvim; the process was ended by signal TERM.",
        ),
        (EndedBy("abort"), None, None, "It was aborted."),
        (
            EndedBy("limit"),
            TERM,
            "cpu_s",
            "It was ended because it exceeded its limit `cpu_s`; the process was ended by signal TERM.",
        ),
        (
            EndedBy("shutdown", "pid 7"),
            Exit(code=0),
            None,
            "It was ended because haftd was shut down by pid 7; the process exited with code 0.",
        ),
    ],
)
def test_an_end_names_its_cause_and_exit(
    by: EndedBy, exit: Exit | None, limit: str | None, sentence: str
) -> None:
    failure = failure_of(Termination(by=by, exit=exit, limit=limit))
    assert failure is not None and failure.message == sentence


@pytest.mark.parametrize("by", get_args(By))
def test_only_an_own_exit_with_status_zero_is_a_success(by: By) -> None:
    for result in (None, "built"):
        failure = failure_of(Termination(by=EndedBy(by), exit=Exit(code=0), result=result))
        assert (failure is None) == (by == "exit")
        assert failure is None or failure.transient == (by == "lost")


def test_a_failure_of_a_tool_is_passed_on_unchanged() -> None:
    own = ToolError("no such branch", ("a", "b"), True)
    for by in get_args(By):
        assert failure_of(Termination(by=EndedBy(by), exit=Exit(code=0), failure=own)) is own


def test_a_structured_success_does_not_ask_for_the_exit() -> None:
    assert failure_of(Termination(by=EndedBy("exit"), exit=Exit(code=3), result="built")) is None


def test_an_internal_failure_names_the_log_and_the_incident() -> None:
    assert internal_failure("ab12").endswith("its log has the details under ab12.")
    assert internal_failure().endswith("its log has the details.")
