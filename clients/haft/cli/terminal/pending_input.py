"""Queue of typed input that the process has not taken.

The next piece is sent once the terminal has taken the last one, so a process that does not read
delays only the typing. A piece is sent as an object, which never answers a question that has just
opened. Text that cannot be sent is reported, never dropped silently.
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
    def __init__(self, client: PollableClient, handle: str) -> None:
        self._client = client
        self._id = handle
        self._queue: deque[str] = deque()
        self._sent: tuple[int, str] | None = None
        self._is_paused = False

    @property
    def unsent(self) -> int:
        return sum(map(len, self._queue))

    def add(self, text: str) -> str | None:
        """Take typed text; return a message if there is no room."""
        if self.unsent + len(text) > _MAX_PENDING:
            return f"the program does not read: {len(text)} characters were not sent"
        if self._queue and len(self._queue[-1]) + len(text) <= _PIECE:
            self._queue[-1] += text
        else:
            self._queue += [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
        return None

    def send(self) -> None:
        """Send the next piece once the last has arrived.

        `wait="quiet"` without a quiet time is answered as soon as the terminal has the text.
        """
        if self._sent or not self._queue or self._is_paused:
            return
        piece = self._queue.popleft()
        number = self._client.start(
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

    def resume(self) -> None:
        """Resume after a refusal: the new state shows whether the handle asks a question."""
        self._is_paused = False

    def take_reply(self) -> str | None:
        """Take the reply to the sent piece, if any; return a message if the daemon refused the piece."""
        if self._sent is None:
            return None
        number, piece = self._sent
        try:
            if self._client.take(number) is None:
                return None
        except RemoteError as refused:
            self._sent = None
            return self._refused(piece, refused)
        self._sent = None
        return None

    def _refused(self, piece: str, refused: RemoteError) -> str | None:
        lines = _LINES.findall(piece)
        if refused.kind == "invalid_answer":
            # A question has opened of which no state has come yet.
            self._queue.appendleft(piece)
            self._is_paused = True
        elif refused.kind == "handle_stopped":
            self._queue.clear()
        elif refused.kind != "action_not_supported":
            raise refused
        elif len(lines) > 1:
            # The daemon refuses one of the lines; the other lines may pass.
            self._queue.extendleft(reversed(lines))
        else:
            return refused.message
        return None
