"""Failure of a tool."""

from __future__ import annotations

from collections.abc import Sequence


class ToolError(Exception):
    """The tool has failed; the caller gets the message unchanged. `transient`: the same call may
    succeed later.

    >>> ToolError("the server is busy", transient=True).transient
    True
    """

    def __init__(self, message: str, trace: Sequence[str] = (), *, transient: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.trace = tuple(trace)
        self.transient = transient
