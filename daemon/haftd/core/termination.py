"""Termination of an execution: reported by a runtime, changed by a review, shown to readers."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from haft_protocol.states import EndedBy, Exit, ToolError

EXIT = EndedBy("exit")
LIMIT = EndedBy("limit")
LOST = EndedBy("lost")


class Termination(msgspec.Struct, frozen=True, kw_only=True):
    """Cause and result of an execution's end.

    A runtime that ends an execution on request does not know the requester: `by=LOST`. Without
    `result` and `failure` the output is the result; `shows_output` returns it beside the tool's
    `failure`. `unconfirmed` has pids that survived KILL, `hint` a sentence on a failure's probable
    cause.
    """

    by: EndedBy = EXIT
    result: str | None = None
    failure: ToolError | None = None
    shows_output: bool = False
    exit: Exit | None = None
    limit: str | None = None
    unconfirmed: tuple[int, ...] = ()
    hint: str = ""

    @property
    def is_raw(self) -> bool:
        return self.shows_output or (self.result is None and self.failure is None)

    @property
    def is_output(self) -> bool:
        """True if readers get the printed output instead of a built result."""
        return self.is_raw or self.by.by != "exit"

    def with_cause(self, requested_by: EndedBy | None) -> Termination:
        """Replace the cause `LOST` by `requested_by`, else by the tool's own failure or an internal error."""
        if self.by != LOST:
            return self
        if requested_by is not None:
            return replace(self, by=requested_by)
        if self.failure is not None:
            return replace(self, by=EXIT)
        failure = ToolError(internal_failure(), transient=True)
        return replace(self, failure=failure, shows_output=True)


def internal_failure(incident: str | None = None) -> str:
    under = "" if incident is None else f" under {incident}"
    return f"haftd failed while it held this tool, and ended it; its log says more{under}."
