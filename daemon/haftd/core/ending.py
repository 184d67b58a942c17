"""The end of an execution, as one value.

Rules: frozen, and no words: `outcomes` words it.
"""

from __future__ import annotations

import msgspec

from haft_protocol.states import EndedBy, Exit, ToolError


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """The end of an execution: its cause, and its result.

    Without `result` and `failure` the output is the result. `failure` is the tool's own, and `shows_output` says
    that the output is handed out beside it. `limit` names the limit that ended the execution, `unconfirmed` the
    processes that could not be ended.
    """

    by: EndedBy
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
