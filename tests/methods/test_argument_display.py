"""The text of a program that shows arguments, or the reason why there is none."""

from __future__ import annotations

import pytest

from haftd.methods.argument_display import _read
from haftd.runtimes.process.helper import Failed

ASKS = b'{"type": "needs_input", "question": {"id": "q", "text": "Which?", "answer_type": {"type": "boolean"}}}'


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        (b"all of it\n", "all of it"),
        (b"two\n\n", "two\n"),
        (b"\xff", "\ufffd"),
        (b'{"type": "stopped", "result": "text"}', "text"),
        (b"", Failed("output", "The program that shows the arguments printed nothing")),
        (b" \n\n", Failed("output", "The program that shows the arguments printed nothing")),
        (
            b'{"type": "stopped", "error": {"message": "No disk."}}',
            Failed("output", "The program that shows the arguments has failed: No disk"),
        ),
        (
            Failed("start", "there is no such file."),
            Failed(
                "start", "The program that shows the arguments cannot be run: there is no such file"
            ),
        ),
        (
            Failed("time", "took too long"),
            Failed("time", "The program that shows the arguments took too long"),
        ),
        (
            ASKS,
            Failed(
                "output",
                "The program that shows the arguments asks a question, and nobody answers it",
            ),
        ),
    ],
)
def test_a_program_that_shows_arguments_prints_them_or_fails_with_a_reason(
    output: bytes | Failed, shown: str | Failed
) -> None:
    assert _read(output) == shown
