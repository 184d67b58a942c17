"""End of an execution, as reported by a runtime, changed by a review, and shown to readers.

Frozen. Except for faults of haftd itself, `outcomes` words an end.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from haft_protocol.states import EndedBy, Exit, ToolError

EXIT = EndedBy("exit")
LIMIT = EndedBy("limit")
LOST = EndedBy("lost")


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """Cause and result of the end.

    `by` is the cause known to the reporter: a runtime that ends an execution on request does not
    know the requester, and reports `LOST`. Without `result` and `failure` the output is the result.
    `failure` is the tool's own; with `shows_output` the output is returned beside the failure.
    `limit` names the exceeded limit, `unconfirmed` the processes that could not be ended.
    """

    by: EndedBy = EXIT
    result: str | None = None
    failure: ToolError | None = None
    shows_output: bool = False
    exit: Exit | None = None
    limit: str | None = None
    unconfirmed: tuple[int, ...] = ()

    @property
    def is_raw(self) -> bool:
        """True if the output is the result, or stands beside the tool's failure."""
        return self.shows_output or (self.result is None and self.failure is None)

    @property
    def is_output(self) -> bool:
        """True if the text of the end is the printed output, not a result that the tool built."""
        return self.is_raw or self.by.by != "exit"

    def with_cause(self, requested_by: EndedBy | None) -> Ending:
        """Return the end with its cause, where `requested_by` has requested it."""
        if self.by != LOST:
            return self
        if requested_by is not None:
            return replace(self, by=requested_by)
        if self.failure is not None:
            return replace(self, by=EXIT)
        failure = ToolError(internal_failure(), transient=True)
        return replace(self, failure=failure, shows_output=True)


def internal_failure(incident: str | None = None) -> str:
    """Format an error of haftd itself, with the log's `incident` where there is one."""
    under = "" if incident is None else f" under {incident}"
    return f"haftd failed while it held this tool, and ended it; its log says more{under}."
