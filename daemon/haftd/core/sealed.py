"""What a use has printed and how it ended, for as long as nobody may see it; and what then is told.

Rules: pure. What is sealed is not in the handle, so that no view, search or subscription can show it.
What a person was shown as the text is what is handed out: an output that is the result, else the
result or the failure alone, and what was printed beside it is dropped. Who says no, or to hand out
nothing, drops all of it, with how the process exited. Section 6, results.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from haft_protocol.errors import RpcError
from haft_protocol.states import EndedBy, Exit, ToolError

from .outcomes import failure_of
from .spool import Budget, Spool
from .text import Rendering, cut, cut_text

__all__ = ["Ending", "Sealed", "Shown", "Word", "dropped", "unsealed"]

DROPPED = "It was given up before anybody had decided whether its result is handed out; it is not"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a use ended; the fields are those of `Handle.end`."""

    by: EndedBy
    result: str | None = None
    failure: ToolError | None = None
    raw: bool = False
    exit: Exit | None = None
    limit: str | None = None
    unconfirmed: tuple[int, ...] = ()

    @property
    def is_output(self) -> bool:
        """Whether the text that it ended with is what it printed."""
        return self.raw or self.by.by != "exit"


@dataclass(frozen=True, slots=True)
class Shown:
    """A result for whoever decides about it. `text` is cut: of `bytes` in all `omitted` are left out.
    `failure` is the daemon's word on how it failed, None where it succeeded."""

    text: str
    bytes: int
    omitted: int
    failure: str | None
    failed: bool


@dataclass(frozen=True, slots=True)
class Word:
    """What was decided about a result. `text` stands in its place (`edit`), `said` says what became of it
    (`deny`, `skip`). `refusal` is the error of the call that waits for it."""

    decision: Literal["allow", "edit", "deny", "skip"]
    text: str = ""
    said: str = ""
    refusal: RpcError | None = None


class Sealed:
    """The output of one use, and its end once that has come."""

    __slots__ = ("_is_open", "ending", "spool")

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self.ending: Ending | None = None
        self._is_open = True

    def emit(self, data: bytes) -> None:
        """It printed `data`; dropped where nobody will see it any more."""
        if self._is_open:
            self.spool.append(data)

    def hand_out(self) -> Spool:
        """What it printed; nothing more is taken, and it is the caller's to close."""
        self._is_open = False
        self.spool.finish()
        return self.spool

    def drop(self) -> None:
        """Nobody will see it, unless it was handed out before."""
        if self._is_open:
            self._is_open = False
            self.spool.close()

    def show(self, rendering: Rendering, max_bytes: int) -> Shown:
        """The result for a person; it has ended."""
        ending = self.ending
        if ending is None:
            raise AssertionError("there is no result before the end")
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


def unsealed(sealed: Sealed, word: Word) -> tuple[Ending, Spool | None]:
    """What is told of the end after this word, and the output that is read from now on, None for
    none. The seal is broken or all of it dropped."""
    ending = sealed.ending
    if ending is None:
        raise AssertionError("nobody decides before the end")
    if word.decision == "allow" and ending.is_output:
        return ending, sealed.hand_out()
    sealed.drop()
    match word.decision:
        case "allow":
            return ending, None
        case "edit" if ending.is_output:
            return ending, _spool_of(word.text)
        case "edit" if ending.failure is not None:
            failure = ToolError(word.text, (), ending.failure.transient)
            return replace(ending, failure=failure), None
        case "edit":
            return replace(ending, result=word.text), None
        case "deny":
            failure = ToolError(word.said)
            return replace(ending, result=None, failure=failure, raw=False, exit=None), None
    if ending.by.by == "exit":
        ending = replace(ending, result=word.said, failure=None, raw=False)
    return replace(ending, exit=None), None


def dropped(sealed: Sealed, by: EndedBy) -> Ending:
    """What is told of an end about which nobody has decided, as it was given up."""
    sealed.drop()
    ending = sealed.ending
    if ending is None:
        raise AssertionError("what has not ended goes on")
    failure = ToolError(f"{DROPPED}.")
    return Ending(by=by, failure=failure, unconfirmed=ending.unconfirmed)


def _spool_of(text: str) -> Spool:
    data = text.encode()
    spool = Spool(len(data), 0, None, Budget(0))
    spool.append(data)
    return spool
