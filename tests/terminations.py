"""Ends of executions, as a runtime reports them."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from haft_protocol.states import By, EndedBy, Exit
from haftd.core.termination import Termination
from haftd.runtimes.base import ToolFailed


def termination(
    code: int | None = None,
    signal: str | None = None,
    by: By = "exit",
    failure: BaseException | None = None,
    **more: Any,
) -> Termination:
    """Return an end with an optional exit status and the tool's own failure."""
    exit = None if code is None else Exit(code=code)
    if signal is not None:
        exit = Exit(signal=signal)
    made = Termination()
    if failure is not None:
        assert isinstance(failure, ToolFailed)
        made = failure.termination
    return replace(made, by=EndedBy(by), exit=exit, **more)
