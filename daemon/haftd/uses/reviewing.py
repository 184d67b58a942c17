"""The review of one use's result: it stays sealed until somebody has given the word.

Rules: while the tool runs its output is taken and shown to nobody. Its end is told when the word is
there, once; until then the handle goes on as it was, although nothing of it may run any more. An end
that somebody else has decided, or a fault of ours, is told at once and drops what was printed: nobody
is asked about it. So does an end of the waiting itself. Nothing is run again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog
import trio

from haft_protocol.errors import RpcError
from haft_protocol.states import EndedBy, Review
from haftd.core.handles import Handle
from haftd.core.lifecycle import State
from haftd.core.outcomes import fault
from haftd.core.sealed import Ending, Sealed, Shown, Word, dropped, unsealed
from haftd.core.spool import Spool

__all__ = ["Reviewer", "Reviewing"]

SHOWN = 16_384
"""Bytes of a result that are shown to whoever decides."""

_REVIEWED = ("exit", "limit")
"""The ends that are reviewed: those that nobody asked for."""

_BECAME: dict[str, Review] = {
    "allow": "allowed",
    "edit": "edited",
    "deny": "denied",
    "skip": "skipped",
}

log = structlog.get_logger("haftd.uses.reviewing")

Reviewer = Callable[[Handle, Shown], Awaitable[Word]]
"""Seeks the word about a result. Raises the `RpcError` with which it is refused."""


class Reviewing:
    """What stands between the end of a use and those who read it."""

    __slots__ = ("_complete", "_ender", "_handle", "_reviewer", "_scope", "_sealed", "done")

    def __init__(self, handle: Handle, spool: Spool, reviewer: Reviewer) -> None:
        self._handle = handle
        self._sealed = Sealed(spool)
        self._reviewer = reviewer
        self._scope = trio.CancelScope()
        self._ender: Callable[[], EndedBy | None] = lambda: None
        self._complete = trio.Event()
        self.done = trio.Event()
        """Nothing is sealed any more."""
        handle.review = "held"

    @property
    def has_ended(self) -> bool:
        """Whether the use has ended, and the end waits to be told."""
        return self._sealed.ending is not None

    def emit(self, data: bytes) -> None:
        """It printed something."""
        self._sealed.emit(data)

    def hold(self, ending: Ending, now: float) -> bool:
        """Keep the end until there is a word about it; false where it is to be told at once."""
        if ending.by.by not in _REVIEWED:
            self._handle.review = "dropped"
            self._sealed.drop()
            return False
        self._sealed.ending = ending
        if self.done.is_set():
            # It was given up while it ended: nobody waits for a word any more.
            self._give_up()
            return True
        self._handle.review = "waits"
        if self._handle.state is State.WAITING:
            self._handle.withdraw(now)
        else:
            self._handle.touch(now)
        return True

    def complete(self) -> None:
        """No more output will come."""
        if self.has_ended:
            self._complete.set()

    def cancel(self) -> None:
        """Nobody is to decide any more."""
        self._scope.cancel()

    async def run(self, ender: Callable[[], EndedBy | None]) -> None:
        """Wait for the end and for the word, then tell the end. `ender` is who ends it meanwhile."""
        self._ender = ender
        try:
            with self._scope:
                await self._complete.wait()
                if (word := await self._seek()) is not None:
                    self._tell(word)
        finally:
            if self.has_ended and not self._handle.stopped:
                self._give_up()
            self._sealed.drop()
            self.done.set()

    async def _seek(self) -> Word | None:
        """The word; None where there will be none."""
        handle = self._handle
        try:
            return await self._reviewer(handle, self._sealed.show(handle.rendering, SHOWN))
        except RpcError as refusal:
            if refusal.kind == "shutting_down":
                return None  # It has run: nobody is to be told to try again.
            return Word("deny", said=refusal.message, refusal=refusal)
        except Exception:
            log.exception("a result could not be reviewed", handle=handle.id, tool=handle.tool)
            return Word("deny", said=fault())

    def _give_up(self) -> None:
        """Tell the end without a word."""
        self._handle.review = "dropped"
        self._end(dropped(self._sealed, self._ender() or EndedBy("shutdown")), None)

    def _tell(self, word: Word) -> None:
        self._handle.review = _BECAME[word.decision]
        self._handle.refusal = word.refusal
        self._end(*unsealed(self._sealed, word))

    def _end(self, ending: Ending, spool: Spool | None) -> None:
        handle = self._handle
        if spool is not None:
            handle.spool.close()
            handle.spool = spool
        handle.end_as(ending, trio.current_time(), complete=True)
