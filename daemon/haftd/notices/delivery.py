"""Delivery of notices to a session's queue and subscribers."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

import msgspec

from haft_protocol.states import Notice
from haftd.core.handles import Handle

from .matches import PatternMatches
from .queues import NoticeQueues


class NoticeDelivery(msgspec.Struct, frozen=True):
    """`push` is called with a session and its new notice."""

    queues: NoticeQueues
    push: Callable[[str, Notice], None]

    def state_changed(self, handle: Handle) -> None:
        """Deliver a handle's question or end, if its settings want the notice."""
        self._push(handle, self.queues.add_state_change(handle, time.time()))

    def output_found(self, handle: Handle, matches: Collection[PatternMatches]) -> None:
        """Deliver notices of new output, one a pattern, and one for any output."""
        now = time.time()
        notices = [self.queues.add_matches(handle, match, now) for match in matches]
        if handle.settings.notify.on_content:
            notices.append(self.queues.add_output(handle, now))
        for notice in notices:
            self._push(handle, notice)

    def _push(self, handle: Handle, notice: Notice | None) -> None:
        if notice is not None:
            self.push(handle.session, notice)
