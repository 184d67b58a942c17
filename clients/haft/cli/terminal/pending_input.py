"""Typed input that the program has not taken yet.

A piece is sent once the terminal has the last one, so a program that does not read delays only the
typing. Pieces are objects, which cannot answer a question that has just opened. Unsent text is
reported.
"""

from __future__ import annotations

import re
from collections import deque

from haft.errors import RemoteError

from .pollable_client import PollableClient

_PIECE = 16_384
_MAX_PENDING = 16 << 20
_FOR_LONG_MS = 86_400_000
_LINES = re.compile(r"[^\r\n]*[\r\n]|[^\r\n]+")


class PendingInput:
    def __init__(self, line: PollableClient, handle: str) -> None:
        self._line = line
        self._id = handle
        self._waiting: deque[str] = deque()
        self._sent: tuple[int, str] | None = None
        self._held_up = False

    @property
    def waiting(self) -> int:
        return sum(map(len, self._waiting))

    def add(self, text: str) -> str | None:
        """Take typed text; return a message if there is no room."""
        if self.waiting + len(text) > _MAX_PENDING:
            return f"the program does not read: {len(text)} characters were left out"
        if self._waiting and len(self._waiting[-1]) + len(text) <= _PIECE:
            self._waiting[-1] += text
        else:
            self._waiting += [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
        return None

    def send(self) -> None:
        """Send the next piece once the last has arrived; a wait without a quiet time ends on
        arrival."""
        if self._sent or not self._waiting or self._held_up:
            return
        piece = self._waiting.popleft()
        number = self._line.start(
            "apply",
            id=self._id,
            input={"text": piece},
            wait="quiet",
            quiet_ms=0,
            timeout_ms=_FOR_LONG_MS,
            cursor=0,
            max_bytes=0,
        )
        self._sent = number, piece

    def go_on(self) -> None:
        """Resume: a new state shows whether the handle asks."""
        self._held_up = False

    def arrived(self) -> str | None:
        """Check for the arrival of the sent piece; return a message if impossible."""
        if self._sent is None:
            return None
        number, piece = self._sent
        try:
            if self._line.take(number) is None:
                return None
        except RemoteError as refused:
            self._sent = None
            return self._refused(piece, refused)
        self._sent = None
        return None

    def _refused(self, piece: str, refused: RemoteError) -> str | None:
        lines = _LINES.findall(piece)
        if refused.kind == "invalid_answer":
            # A question has opened that is not known here yet.
            self._waiting.appendleft(piece)
            self._held_up = True
        elif refused.kind == "handle_stopped":
            self._waiting.clear()
        elif refused.kind != "action_not_supported":
            raise refused
        elif len(lines) > 1:
            # One of the lines is unacceptable; the others may pass.
            self._waiting.extendleft(reversed(lines))
        else:
            return refused.message
        return None
