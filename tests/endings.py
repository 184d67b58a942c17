"""Ends of executions, as a runtime reports them."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from haft_protocol.states import By, EndedBy, Exit
from haftd.core.ending import Ending
from haftd.runtimes.base import ToolFailed


def ending(
    code: int | None = None,
    signal: str | None = None,
    by: By = "exit",
    failure: BaseException | None = None,
    **more: Any,
) -> Ending:
    """Return an end with an optional exit status and the tool's own failure."""
    exit = None if code is None else Exit(code=code)
    if signal is not None:
        exit = Exit(signal=signal)
    made = Ending()
    if failure is not None:
        assert isinstance(failure, ToolFailed)
        made = failure.ending
    return replace(made, by=EndedBy(by), exit=exit, **more)
