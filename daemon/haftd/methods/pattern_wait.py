"""Wait for a pattern in the output of a handle.

New output is matched at once, in the loop, as long as that takes a moment; the rest in threads, in which
clients take turns (`match_scheduler`). Output that comes meanwhile is matched after it, in order.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import trio

from haft_protocol.states import HandleState, Waited
from haftd.core.handles import Handle
from haftd.core.patterns import OutputMatcher
from haftd.match_scheduler import MatchScheduler, Turn
from haftd.regex import Pattern

from .base import DeferredReply, HandleWait, PendingReply

_TURN_S = 0.001
"""Seconds of matching in the loop at once, beside the last text."""
_MIN_MATCHING_S = 0.5
"""Seconds for output that is there already, even where the call waits for less."""

Reply = HandleState | PendingReply


class PatternWait:
    """A call's wait for a pattern until `deadline`; `matcher` may have the echo of the call's own input.

    `reply` returns the result for the reason at once, `reply_later` after a wait. `client` is the caller,
    whose waits take turns. A reader's wait reports the end in place of a notice.
    """

    __slots__ = (
        "_client",
        "_deadline",
        "_handle",
        "_is_reader",
        "_known_end",
        "_matcher",
        "_matching",
        "_matching_deadline",
        "_reply",
        "_reply_later",
        "_spool",
    )

    def __init__(
        self,
        handle: Handle,
        pattern: Pattern,
        matcher: OutputMatcher,
        client: object,
        deadline: float,
        reply: Callable[[Waited], Reply],
        reply_later: Callable[[Waited], Reply],
        *,
        is_reader: bool,
    ) -> None:
        self._handle = handle
        self._spool = handle.spool
        self._matcher = matcher
        self._matching = MatchScheduler(pattern.programsize)
        self._client = client
        self._deadline = deadline
        self._matching_deadline = deadline
        self._known_end = 0
        """End of the output at the beginning of the matching in threads."""
        self._reply = reply
        self._reply_later = reply_later
        self._is_reader = is_reader

    def begin(self) -> Reply:
        """Reply at once after a match, at the end of the output or without time to wait, else later."""
        reply = self._match_more()
        self._reply = self._reply_later
        return reply

    def _match_more(self) -> Reply:
        self._match_now()
        if self._matcher.match_range is None and self._has_unread():
            return self._match_later()
        return self._go_on()

    def _match_later(self) -> Reply:
        self._known_end = self._spool.end
        self._matching_deadline = max(self._deadline, trio.current_time() + _MIN_MATCHING_S)
        return DeferredReply(self._match_rest)

    def _go_on(self) -> Reply:
        """Reply if the wait is over, else wait for more output."""
        if self._matcher.match_range is not None:
            return self._reply("matched")
        is_whole = self._handle.stopped and not self._has_unread()
        if not is_whole and trio.current_time() < self._deadline:
            return HandleWait(
                (self._handle,),
                lambda: self._has_unread() or self._handle.stopped or None,
                lambda has_more: self._match_more() if has_more else self._go_on(),
                self._deadline,
                is_reader=self._is_reader,
            )
        if self._matcher.release_echo():
            return self._match_more()
        return self._reply_without_match()

    def _reply_without_match(self) -> Reply:
        return self._reply("stopped" if self._handle.stopped else "deadline")

    def _has_unread(self) -> bool:
        return self._matcher.has_unread(self._spool)

    def _match_now(self) -> None:
        """Match output in the loop, for a moment."""
        matcher, matching = self._matcher, self._matching
        until = time.monotonic() + _TURN_S
        while matcher.match_range is None and self._has_unread():
            size = min(matcher.size, matching.loop_size() - matcher.carried_size)
            if size <= 0:
                return
            text = matcher.next_text(self._spool, size)
            matcher.take(text, matching.match(text.search, len(text.text)), self._spool)
            if time.monotonic() >= until:
                return

    async def _match_rest(self) -> Reply:
        """Match the rest of the output in threads, then reply or wait for more."""

        def note_change() -> None:
            """Nothing to do: the end of the output is noticed after each text."""

        # A listener also keeps the handle, and a reader's the notice of its end away.
        handle = self._handle
        (handle.listen_for_reply if self._is_reader else handle.listen)(note_change)
        try:
            with trio.move_on_at(self._matching_deadline) as matching:
                while self._must_match():
                    await self._match_text()
        finally:
            (handle.unlisten_for_reply if self._is_reader else handle.unlisten)(note_change)
        # A reply to a client that is gone would take its output from the session.
        await trio.lowlevel.checkpoint_if_cancelled()
        if matching.cancelled_caught:  # the matcher lacks the text of an abandoned thread
            return self._reply_without_match()
        return self._go_on()

    def _must_match(self) -> bool:
        matcher = self._matcher
        if matcher.match_range is not None or not self._has_unread():
            return False
        is_known = matcher.has_unsearched or matcher.offset < self._known_end
        return is_known or trio.current_time() < self._deadline

    async def _match_text(self) -> None:
        matcher, matching = self._matcher, self._matching
        async with Turn(self._client) as turn:
            text = matcher.next_text(self._spool, matcher.size)
            match = await matching.match_in_thread(turn, text.search, len(text.text))
        matcher.take(text, match, self._spool)
