"""A session's read position in a handle (docs/protocol.md, "Reading output").

Only a `delta` moves `offset`, over returned and omitted output.
"""

from __future__ import annotations

from typing import Final

import msgspec


class Read(msgspec.Struct, frozen=True):
    """A reader was shown a state."""

    offset: int | None
    """New read offset; None keeps the former one."""
    is_session: bool
    """True if this is the session's reader."""
    viewed: int | None = None
    """Output's end at a view of the screen; None keeps the former one."""


class ReadPosition(msgspec.Struct, frozen=True):
    offset: int = 0
    """Start of the next delta. Frozen at the stop."""
    viewed: int = 0
    """Output's end at the last view of the screen."""
    notified: int = 0
    """Output's end at the last notice of unread output."""
    question: int = 0
    """Number of the last shown question."""
    is_end_shown: bool = False
    """The session was shown the end."""
    end_read_at: float | None = None
    """Time of the end's first read, by any reader."""

    def read_output(self, read: Read, question: int) -> ReadPosition:
        """Return the position after a read of a live handle; `question` is the number shown last."""
        offset = self.offset if read.offset is None else read.offset
        viewed = self.viewed if read.viewed is None else read.viewed
        if not read.is_session:
            question = self.question
        if offset == self.offset and viewed == self.viewed and question == self.question:
            return self
        return ReadPosition(
            offset, viewed, self.notified, question, self.is_end_shown, self.end_read_at
        )

    def read_end(self, read: Read, now: float) -> ReadPosition:
        viewed = self.viewed if read.viewed is None else read.viewed
        is_end_shown = self.is_end_shown or read.is_session
        at = now if self.end_read_at is None else self.end_read_at
        return ReadPosition(self.offset, viewed, self.notified, self.question, is_end_shown, at)


START: Final = ReadPosition()
