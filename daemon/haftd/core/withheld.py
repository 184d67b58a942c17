"""The output and the end of an execution, withheld until a reviewer has decided.

Rules: pure. A withheld result is not in the handle, so that no view, search or subscription can show it. The text
that the reviewer was shown is what is released: an output that is the result, else the result or the failure
alone, without the output beside it. `deny` and `skip` drop all of it, with the exit status. Section 6, results.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from haft_protocol.errors import RpcError
from haft_protocol.states import EndedBy, Exit, ToolError

from .outcomes import failure_of
from .spool import Budget, Spool
from .text import Rendering, cut, cut_text

__all__ = ["Ending", "ReviewDecision", "Shown", "WithheldResult"]

DROPPED = "It was given up before anybody had decided whether its result is handed out; it is not"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The end of an execution; the fields are those of `Handle.end`."""

    by: EndedBy
    result: str | None = None
    failure: ToolError | None = None
    raw: bool = False
    exit: Exit | None = None
    limit: str | None = None
    unconfirmed: tuple[int, ...] = ()

    @property
    def is_output(self) -> bool:
        """True if the text of the end is the printed output."""
        return self.raw or self.by.by != "exit"


@dataclass(frozen=True, slots=True)
class Shown:
    """A result as the reviewer is shown it. `text` is cut: of `bytes` in all `omitted` are left out.
    `failure` is the daemon's description of how it failed, None where it succeeded."""

    text: str
    bytes: int
    omitted: int
    failure: str | None
    failed: bool


@dataclass(frozen=True, slots=True)
class ReviewDecision:
    """A decision about a result. `text` stands in its place (`edit`), `said` says what became of it
    (`deny`, `skip`). `refusal` is the error of the call that waits for it."""

    decision: Literal["allow", "edit", "deny", "skip"]
    text: str = ""
    said: str = ""
    refusal: RpcError | None = None


class WithheldResult:
    """The output of one execution, and its end once ended."""

    __slots__ = ("_is_open", "ending", "spool")

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self.ending: Ending | None = None
        self._is_open = True

    def emit(self, data: bytes) -> None:
        """Take output; it is dropped once the decision is made."""
        if self._is_open:
            self.spool.append(data)

    def drop(self) -> None:
        """Drop the output, unless it was released before."""
        if self._is_open:
            self._is_open = False
            self.spool.close()

    def show(self, rendering: Rendering, max_bytes: int) -> Shown:
        """Return the result as the reviewer is shown it; the execution has ended."""
        ending = self._ended()
        error = failure_of(
            ending.by, ending.exit, ending.failure, raw=ending.raw, limit=ending.limit
        )
        if ending.is_output:
            end = self.spool.end
            piece = cut(self.spool, 0, end, max_bytes, final=True, rendering=rendering)
            failure = None if error is None else error.message
            return Shown(piece.text, end, piece.omitted, failure, error is not None)
        text = ending.result or ""
        if error is not None:
            text = "\n".join((error.message, *error.trace))
        text, whole, kept = cut_text(text, max_bytes)
        return Shown(text, whole, whole - kept, None, error is not None)

    def release(self, decision: ReviewDecision) -> tuple[Ending, Spool | None]:
        """Return the end as it is told after this decision, and the output that is read from now on, which the
        caller closes; None for none."""
        ending = self._ended()
        if decision.decision == "allow" and ending.is_output:
            self._is_open = False
            self.spool.finish()
            return ending, self.spool
        self.drop()
        match decision.decision:
            case "allow":
                return ending, None
            case "edit" if ending.is_output:
                return ending, _spool_of(decision.text)
            case "edit" if ending.failure is not None:
                failure = ToolError(decision.text, (), ending.failure.transient)
                return replace(ending, failure=failure), None
            case "edit":
                return replace(ending, result=decision.text), None
            case "deny":
                failure = ToolError(decision.said)
                return replace(ending, result=None, failure=failure, raw=False, exit=None), None
        if ending.by.by == "exit":
            ending = replace(ending, result=decision.said, failure=None, raw=False)
        return replace(ending, exit=None), None

    def discard(self, by: EndedBy) -> Ending:
        """Return the end as it is told where the result was given up before a decision."""
        self.drop()
        return Ending(
            by=by, failure=ToolError(f"{DROPPED}."), unconfirmed=self._ended().unconfirmed
        )

    def _ended(self) -> Ending:
        if self.ending is None:
            raise AssertionError("there is no result before the end")
        return self.ending


def _spool_of(text: str) -> Spool:
    data = text.encode()
    spool = Spool(len(data), 0, None, Budget(0))
    spool.append(data)
    return spool
