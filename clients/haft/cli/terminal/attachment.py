"""Attachment: a person's terminal and a handle's, joined until one of them ends.

The handle's output is read by offset, so each byte is drawn once and the session's read offset does
not move. The daemon leaves out the queries. The picture is painted first, and again after haft's
own messages. Neither a process that does not read nor a stalled terminal delays the exit.
"""

from __future__ import annotations

import base64
import signal
import time

import msgspec
from msgspec import UNSET

from haft.cli.options import UsageError
from haft.cli.show import takes
from haft.cli.values import read_answer
from haft.errors import HaftError, RemoteError
from haft_protocol.methods import View
from haft_protocol.questions import Question, Secret
from haft_protocol.states import HandleState, Screen, Stopped, Waiting

from .keyboard import AnswerLine, Command, Event, Keyboard
from .own_terminal import OwnTerminal
from .pending_input import PendingInput
from .pollable_client import PollableClient
from .terminal_modes import TerminalModes, notice

HELP = " {key} d detaches · {key} {key} types {key} · everything else goes to the program "
HOW_TO_LEAVE = " {key} d leaves it running · {key} ? helps "

_OUTPUT = 65_536
_FOR_LONG_MS = 86_400_000
_QUESTION_MS = 500
_NOTICE_S = 5.0
_CALL_S = 5.0
_DRAIN_S = 2.0
_READABLE_S = 1.0
"""Least time of a notice on the screen in spite of keys."""

Size = tuple[int, int]
_USUAL: Size = (24, 80)


class Attachment:
    def __init__(
        self,
        client: PollableClient,
        handle: str,
        own: OwnTerminal,
        *,
        read_only: bool,
        clipboard: bool = False,
        key: str = "\\",
        inline: bool = False,
    ) -> None:
        """With `inline` the output follows the screen's content, until a message needs the whole
        screen."""
        self._client = client
        self._id = handle
        self._own = own
        self._read_only = read_only
        self._inline = inline
        self._clipboard = clipboard
        self._modes = TerminalModes()
        self._keyboard = Keyboard(key)
        self._key = f"C-{key}"
        self._hints = HELP.format(key=self._key), HOW_TO_LEAVE.format(key=self._key)
        """Notices that the next key removes."""
        self._state: HandleState | None = None
        self._cursor = 0
        self._output: int | None = None
        self._requested = 0
        """Offset of the output that was requested last."""
        self._pending_input = PendingInput(client, handle)
        self._answer = AnswerLine()
        self._question: Question | None = None
        self._notice: tuple[str, float] | None = None
        """Text over the last rows, and the time of its first display."""
        self._original_size: Size | None = None
        self._size: Size | None = None
        self._wrong_size = False

    def run(self) -> HandleState | None:
        """Join both until the handle stops, and return the handle's state; return None when detached."""
        self._own.write(b"\x1b[22;0t")
        self._set_size()
        if not self._inline:
            self._own.write(self._scroll_up())
            self._paint()
            self._notify(self._hints[1], bell=False)
        while True:
            if isinstance(self._state, Stopped):
                return self._drain(self._state)
            self._ask_for_output()
            if self._question is None:
                self._pending_input.send()
            keys = self._own.wait(
                self._client.fileno(), self._client.is_full, self._notice_timeout()
            )
            if self._own.ended_by is not None:
                return None
            if keys and self._take_keys(keys):
                return None
            self._client.advance()
            self._take_output()
            self._notify_if_any(self._pending_input.take_reply())
            self._handle_signals()

    def close(self) -> None:
        """Restore the person's terminal: modes, styles, title, the cursor below."""
        self._own.flush(leaving=True)
        below = b"" if self._inline else b"\r\n\x1b[J"
        self._own.write(self._modes.undo() + b"\x1b[23;0t" + below)
        self._own.flush(leaving=True)

    def leave(self) -> int:
        """Restore the handle's size, unless another client has changed it; return the number of
        typed characters that did not reach the process.

        An unresponsive daemon delays this by one call's time.
        """
        if self._original_size is not None and self._original_size != self._size:
            until = time.monotonic() + _CALL_S
            try:
                if self._size_now() == self._size:
                    left_s = max(0.0, until - time.monotonic())
                    self._resize(self._original_size, timeout=left_s)
            except HaftError:
                pass  # The handle has ended or asks, or the daemon is gone.
        return self._pending_input.unsent

    def _area(self) -> Size:
        return self._own.size() or _USUAL

    def _scroll_up(self) -> bytes:
        """Move the person's screen into the terminal's scrollback."""
        rows, _ = self._area()
        return b"\x1b[%d;1H%b" % (rows, b"\n" * rows)

    def _drain(self, state: Stopped) -> HandleState:
        """Draw the last output, which may come a moment after the end; return the state without the
        figures of a single reply."""
        until = time.monotonic() + _DRAIN_S
        while True:
            self._requested = self._cursor
            fresh = self._fetch("raw", max_bytes=_OUTPUT)
            if fresh.generation != state.generation or not isinstance(fresh, Stopped):
                return state
            state = fresh
            before = self._cursor
            self._draw(fresh)
            self._own.flush(10.0)
            if self._cursor == before:
                state = msgspec.structs.replace(state, omitted=0, truncated=UNSET)
                if state.output_complete is not False or time.monotonic() > until:
                    return state
                time.sleep(0.05)

    def _fetch(self, view: View, max_bytes: int = 0) -> HandleState:
        # With a cursor the read offset stays: the session belongs to the assistant.
        return self._client.fetch(
            self._id,
            view=view,
            cursor=self._cursor,
            reader="terminal",
            clipboard=self._clipboard,
            max_bytes=max_bytes,
            timeout=_CALL_S,
        )

    def _ask_for_output(self) -> None:
        if self._output is not None or self._own.is_stalled:
            return
        self._requested = self._cursor
        fields: dict[str, object] = {"id": self._id, "view": "raw", "cursor": self._cursor}
        fields |= {"for": "terminal", "clipboard": self._clipboard}
        if self._question is None:
            fields |= {"wait": "output", "timeout_ms": _FOR_LONG_MS, "max_bytes": _OUTPUT}
        else:
            # A question stays visible; only a fetch shows that another client has answered it.
            fields |= {"wait": "stopped", "timeout_ms": _QUESTION_MS, "max_bytes": 0}
        self._output = self._client.start("fetch", **fields)

    def _take_output(self) -> None:
        if self._output is None:
            return
        state = self._client.take(self._output)
        if state is None:
            return
        self._output = None
        self._pending_input.resume()
        if self._state is not None and state.generation != self._state.generation:
            raise UsageError(f"{self._id} was started again meanwhile; attach again")
        self._state = state
        question = state.question if isinstance(state, Waiting) else None
        if question != self._question:
            self._paint()  # with or without the question over it
        elif question is None and not isinstance(state, Stopped):
            self._draw(state)

    def _draw(self, state: HandleState) -> None:
        if self._requested != self._cursor:
            return  # Painted meanwhile: the next request begins where the picture ends.
        if state.omitted and not isinstance(state, Stopped):
            # Dropped output cannot be drawn: the current picture replaces it.
            self._paint()
            return
        data = _bytes_of(state)
        self._cursor = state.cursor
        if self._wrong_size and data:
            self._paint()
            return
        self._own.write(self._modes.note(data))
        self._draw_over()

    def _paint(self) -> None:
        """Draw the whole picture, and continue at its offset in the output."""
        if self._inline:
            self._inline = False
            self._own.write(self._scroll_up())
        state = self._fetch("paint")
        self._state = state
        picture = _bytes_of(state)
        if isinstance(state, Stopped) and not picture:
            return
        self._own.write(self._modes.undo() + b"\x1b[H\x1b[2J")
        self._own.write(self._modes.note(picture))
        self._cursor = state.cursor
        question = state.question if isinstance(state, Waiting) else None
        if question != self._question:
            self._answer = AnswerLine()
        self._question = question
        self._draw_over()

    def _draw_over(self) -> None:
        """Draw haft's own messages, which the picture or new output may have hidden."""
        if self._question is not None:
            self._show_question(self._question)
        elif self._notice is not None:
            rows, cols = self._area()
            self._own.write(notice(self._notice[0], rows, cols))

    def _notify(self, text: str, *, bell: bool = True) -> None:
        self._notice = text, time.monotonic()
        self._own.write(b"\a" if bell else b"")
        self._draw_over()

    def _notify_if_any(self, text: str | None) -> None:
        if text is not None:
            self._notify(text)

    def _notice_has_stood(self, seconds: float) -> bool:
        return self._notice is not None and time.monotonic() >= self._notice[1] + seconds

    def _dismiss(self) -> None:
        self._notice = None
        self._paint()

    def _take_keys(self, keys: bytes) -> bool:
        """Take typed bytes; return True to detach."""
        asked = self._notice is not None and self._notice[0] in self._hints
        if self._notice_has_stood(_READABLE_S) or asked:
            self._dismiss()
        for event in self._keyboard.feed(keys):
            if event is Command.DETACH:
                return True
            self._take_event(event)
        return False

    def _take_event(self, event: Event) -> None:
        if isinstance(event, str):
            if self._read_only:
                self._notify(f"read-only: nothing is typed; {self._key} d detaches", bell=False)
            elif self._question is not None:
                self._answer_with(event, self._question)
            else:
                self._notify_if_any(self._pending_input.add(event))
        elif event is Command.HELP:
            self._notify(self._hints[0], bell=False)
        elif event is Command.NOT_TEXT:
            self._notify("the typed text is not UTF-8 and was dropped")

    def _show_question(self, question: Question, *, wrong: str = "") -> None:
        typed = "" if isinstance(question.answer_type, Secret) else self._answer.text
        parts = [
            wrong,
            question.pre_amble or "",
            question.text,
            takes(msgspec.to_builtins(question.answer_type)),
        ]
        text = " ".join(part.strip() for part in parts if part)
        rows, cols = self._area()
        self._own.write(notice(f"{text} {typed}", rows, cols, asks=True))

    def _answer_with(self, text: str, question: Question) -> None:
        answer, rest = self._answer.feed(text)
        if answer is None:
            self._show_question(question)
            return
        try:
            value = (
                question.default
                if not answer and question.default is not None
                else read_answer(answer, question)
            )
            # Only for this question: otherwise a secret might be typed into the process.
            self._apply(value, question=question.id)
        except (UsageError, RemoteError) as refused:
            self._own.write(b"\a")
            self._show_question(question, wrong=f"{refused}.")
            return
        self._paint()
        if rest:
            self._take_event(rest)

    def _handle_signals(self) -> None:
        if self._own.take_signal(signal.SIGTSTP):
            self._own.write(self._modes.undo() + b"\r\n")
            self._own.flush()
            self._own.give_back()
            signal.raise_signal(signal.SIGSTOP)
        if self._own.take_signal(signal.SIGCONT):
            self._own.take()
            self._follow_size()
        if self._own.take_signal(signal.SIGWINCH):
            self._follow_size()
        if self._notice_has_stood(_NOTICE_S):
            self._dismiss()

    def _follow_size(self) -> None:
        self._set_size()
        if not self._inline:
            self._paint()

    def _notice_timeout(self) -> float | None:
        if self._notice is None:
            return None
        return max(0.0, self._notice[1] + _NOTICE_S - time.monotonic())

    def _set_size(self) -> None:
        """Set the handle's terminal to the person's size, unless the attachment is read-only."""
        size, now = self._own.size(), self._size_now()
        self._wrong_size = self._read_only and size != now
        if size is None or now is None or self._read_only:
            return
        if size != now:
            try:
                self._resize(size)
            except RemoteError as refused:
                if refused.kind != "handle_stopped":
                    self._notify(refused.message)
                return
            self._original_size = self._original_size or now
        self._size = size

    def _size_now(self) -> Size | None:
        shown = self._fetch("screen").screen
        return (shown.rows, shown.cols) if isinstance(shown, Screen) else None

    def _resize(self, size: Size, timeout: float = _CALL_S) -> None:
        self._apply({"resize": {"rows": size[0], "cols": size[1]}}, timeout=timeout)

    def _apply(self, input: object, question: str | None = None, timeout: float = _CALL_S) -> None:
        self._client.apply(
            self._id,
            input,
            question=question,
            wait="none",
            cursor=self._cursor,
            max_bytes=0,
            timeout=timeout,
        )


def _bytes_of(state: HandleState) -> bytes:
    content = state.content
    return base64.b64decode(content) if isinstance(content, str) else b""
