"""Output withheld until a reviewer decides (docs/protocol.md, "Approvals"), and so absent from
views, searches and subscriptions."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec.structs import replace

from haft_protocol.errors import RpcError
from haft_protocol.states import EndedBy, ToolError

from .spool import Budget, Spool
from .termination import Termination, failure_of
from .text import Rendering, cut, cut_text

DROPPED = "It was cancelled before anybody decided whether to release its result; the result is not released"


class ResultExcerpt(msgspec.Struct, frozen=True):
    """Result for the reviewer."""

    text: str
    bytes: int
    """Size of the whole text."""
    omitted: int
    """Bytes left out of `text`."""
    failure: str | None
    failed: bool


class ReviewDecision(msgspec.Struct, frozen=True):
    """Decision on a result."""

    decision: Literal["allow", "edit", "deny", "skip"]
    text: str = ""
    """For `edit`: replaces the result."""
    explanation: str = ""
    """For `deny` and `skip`."""
    refusal: RpcError | None = None
    """Error of the call that awaits the result."""


class WithheldResult:
    __slots__ = ("_is_open", "spool")

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self._is_open = True

    def emit(self, data: bytes) -> None:
        if self._is_open:
            self.spool.append(data)

    def drop(self) -> None:
        if self._is_open:
            self._is_open = False
            self.spool.close()

    def show(self, termination: Termination, rendering: Rendering, max_bytes: int) -> ResultExcerpt:
        error = failure_of(termination)
        if termination.is_output:
            end = self.spool.end
            piece = cut(self.spool, 0, end, max_bytes, final=True, rendering=rendering)
            failure = None if error is None else error.message
            return ResultExcerpt(piece.text, end, piece.omitted, failure, error is not None)
        text = termination.result or ""
        if error is not None:
            text = "\n".join((error.message, *error.trace))
        text, whole, kept = cut_text(text, max_bytes)
        return ResultExcerpt(text, whole, whole - kept, None, error is not None)

    def release(
        self, termination: Termination, decision: ReviewDecision
    ) -> tuple[Termination, Spool | None]:
        """Return the end for readers and a spool to read from, if any, for the caller to close.

        `deny` and `skip` drop everything, with the exit status.
        """
        if decision.decision == "allow" and termination.is_output:
            self._is_open = False
            self.spool.finish()
            return termination, self.spool
        self.drop()
        if decision.decision != "allow":
            termination = replace(termination, hint="")  # it quotes the output
        match decision.decision:
            case "allow":
                return termination, None
            case "edit" if termination.is_output:
                return termination, _spool_of(decision.text)
            case "edit" if termination.failure is not None:
                failure = ToolError(decision.text, (), termination.failure.transient)
                return replace(termination, failure=failure), None
            case "edit":
                return replace(termination, result=decision.text), None
            case "deny":
                failure = ToolError(decision.explanation)
                denied = replace(
                    termination, result=None, failure=failure, shows_output=False, exit=None
                )
                return denied, None
        if termination.by.by == "exit":
            termination = replace(
                termination, result=decision.explanation, failure=None, shows_output=False
            )
        return replace(termination, exit=None), None

    def discard(self, termination: Termination, by: EndedBy) -> Termination:
        """Drop the output; return the end of a result abandoned by `by`."""
        self.drop()
        return Termination(
            by=by, failure=ToolError(f"{DROPPED}."), unconfirmed=termination.unconfirmed
        )


def _spool_of(text: str) -> Spool:
    data = text.encode()
    spool = Spool(len(data), 0, None, Budget(0))
    spool.append(data)
    return spool
