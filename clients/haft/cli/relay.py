"""Relay between a handle on pipes and this process: streams, input and signals of `haft run`.

- The handle's output arrives in pushes with backpressure: the program waits while it is not written here.
- Each wait is a single poll, and no write blocks: a signal is forwarded at once, also while the reader of
  standard output has stalled.
- Both streams are written in the order in which the daemon has read them.
- A signal that comes before the program runs is forwarded as well: the daemon delivers it at the start.
- A signal to end that comes after the program's end, while its result is reviewed, ends this process.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import sys
import time
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

import msgspec
from msgspec import Raw, UnsetType

from haft_protocol.pushes import BYTES, STATE, PushedBytes
from haft_protocol.states import HandleState, Pending, Running, Stopped, Waiting

from ..errors import RemoteError, ReplyTimeout
from . import show
from .terminal.pollable_client import PollableClient

STDIN, STDOUT, STDERR = 0, 1, 2

_PIPE_BUF = select.PIPE_BUF
"""A ready pipe takes so many bytes without blocking."""

_MAX_BACKLOG = 1 << 20
_CHUNK = 65_536
_LEAVING_S = 2.0
"""Time for the daemon to start the command or to answer, after a signal to end."""
_FOR_LONG_MS = 86_400_000
FORWARDED = ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "WINCH", "TSTP", "CONT")
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_GUARD = 'read -r _ || exec "$@"'
"""A program of a shell: execute the arguments when its input ends without a line."""
_NO_READER = ("handle_stopped", "action_not_supported", "handle_not_found")
_STATE: msgspec.json.Decoder[HandleState] = msgspec.json.Decoder(HandleState)
_BYTES = msgspec.json.Decoder(PushedBytes)


def split(push: PushedBytes) -> list[tuple[int, bytes]]:
    """Return the pieces of a push, each with the descriptor of its stream.

    >>> split(PushedBytes("sub.1", "a", 1, 10, 16, "b3V0ZXJy", stderr=((13, 16),)))
    [(1, b'out'), (2, b'err')]
    """
    data, at = b64decode(push.data), 0
    pieces = []
    for begin, end in () if isinstance(push.stderr, UnsetType) else push.stderr:
        pieces += [
            (STDOUT, data[at : begin - push.start]),
            (STDERR, data[begin - push.start : end - push.start]),
        ]
        at = end - push.start
    return [(fd, piece) for fd, piece in [*pieces, (STDOUT, data[at:])] if piece]


class Relay:
    """The relay of one handle and of these signals, for the length of a `with` block."""

    def __init__(
        self,
        client: PollableClient,
        handle: str,
        *,
        resume: Sequence[str],
        command_for: Callable[[str], str],
        forwarded: Iterable[str] = FORWARDED,
    ) -> None:
        """Relay by `client`; `resume` is a command that resumes the stopped handle, `command_for`
        shows one for its daemon and session."""
        self._command_for = command_for
        self._client = client
        self._resume = resume
        self._id = handle
        self._forwarded = forwarded
        self._pushed: deque[tuple[str, Raw]] = deque()
        self._queue: deque[tuple[int, bytes]] = deque()
        self._size = 0
        streams = {STDOUT: sys.stdout, STDERR: sys.stderr}
        self._closed = {fd for fd, stream in streams.items() if stream is None}
        """Streams without a reader; a descriptor closed at the start may be a socket's now."""
        self._last: Stopped | None = None
        self._awaits_review = False
        """True once the process has ended and a reviewer decides whether its output is released."""
        self._stdin: int | None = STDIN if sys.stdin is not None else None
        self._may_read = False
        """False before the process runs, and in the background of this terminal."""
        self._input: bytes | None = b"" if sys.stdin is None else None
        """Unsent input; empty at the end."""
        self._sent: tuple[int, bytes] | None = None
        self._awaits_answer = False
        self._replies: list[int] = []
        self._arrived: list[int] = []
        self._interrupts = 0
        self._wake_reader, self._wake_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._former_wakeup_fd = -1
        self._handlers: list[tuple[int, Any]] = []

    def hear(self, method: str, params: Raw) -> None:
        self._pushed.append((method, params))

    def __enter__(self) -> Relay:
        self._former_wakeup_fd = signal.set_wakeup_fd(self._wake_writer, warn_on_full_buffer=False)
        for name in self._forwarded:
            number = signal.Signals[f"SIG{name}"]
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._handlers.append((number, signal.signal(number, self._note)))
        # A read in the background then fails, instead of stopping this process.
        self._handlers.append((signal.SIGTTIN, signal.signal(signal.SIGTTIN, signal.SIG_IGN)))
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()
        os.close(self._wake_reader)
        os.close(self._wake_writer)

    def _restore(self) -> None:
        handlers, self._handlers = self._handlers, []
        for number, handler in handlers:
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._former_wakeup_fd)

    def start(self, spawned: int) -> None:
        """Wait for the reply to a spawn, then forward signals. Raises `RemoteError`, `ReplyTimeout`.

        A signal that ends a process ends this one during an approval, at its second time, and if
        the daemon does not answer.
        """
        seconds = self._client.patience
        deadline = None if seconds is None else time.monotonic() + seconds
        fetched: int | None = None
        leave_at: float | None = None
        silence = self._client.silence
        report_at = None if silence is None else time.monotonic() + silence[0]
        while self._client.take(spawned) is None:
            left_s = None if deadline is None else deadline - time.monotonic()
            if left_s is not None and left_s <= 0:
                raise ReplyTimeout(
                    "haftd did not answer `spawn` in time; the request was cancelled"
                )
            if silence is not None and report_at is not None:
                until_report = report_at - time.monotonic()
                if until_report <= 0:
                    report_at = None
                    silence[1]()
                    continue
                left_s = until_report if left_s is None else min(left_s, until_report)
            if leave_at is not None:
                until_leave = max(0.0, leave_at - time.monotonic())
                left_s = until_leave if left_s is None else min(left_s, until_leave)
            self._wait(left_s)
            ending = [number for number in self._arrived if number in _ENDING]
            is_late = leave_at is not None and time.monotonic() >= leave_at
            if is_late or len(ending) > len(set(ending)):
                self._end_by(ending[-1])
            if ending and fetched is None:
                leave_at = time.monotonic() + _LEAVING_S
                fetched = self._client.start("fetch", id=self._id, cursor=0, max_bytes=0)
            elif fetched is not None and self._awaits_decision(fetched):
                self._end_by(ending[0])

    def _awaits_decision(self, fetched: int) -> bool:
        try:
            state = self._client.take(fetched)
        except RemoteError:
            return False
        return isinstance(state, Pending) and state.needs == "decision"

    def _end_by(self, number: int) -> NoReturn:
        self._restore()
        signal.raise_signal(number)
        raise AssertionError(f"signal {number} neither ended the process nor raised")

    def run(self) -> Stopped:
        """Relay until the handle has stopped and all output is written; raise `ConnectionLost`."""
        self._may_read = True
        while True:
            self._take_pushes()
            if self._last is not None and not self._queue:
                return self._last
            self._send_input()
            self._wait()
            self._take_replies()
            self.forward_signals()

    def _note(self, number: int, _: FrameType | None) -> None:
        self._arrived.append(number)

    def _wait(self, seconds: float | None = None) -> None:
        poll = select.poll()
        poll.register(self._wake_reader, select.POLLIN)
        if self._size < _MAX_BACKLOG and self._last is None:
            room = select.POLLOUT if self._client.is_full else 0
            poll.register(self._client.fileno(), select.POLLIN | room)
        if self._queue:
            poll.register(self._queue[0][0], select.POLLOUT)
        if (
            self._stdin is not None
            and self._may_read
            and self._input is None
            and self._sent is None
        ):
            poll.register(self._stdin, select.POLLIN)
        for fd, _ in poll.poll(None if seconds is None else seconds * 1000):
            if fd == self._wake_reader:
                os.read(self._wake_reader, _CHUNK)
            elif fd == self._client.fileno():
                self._client.advance()
            elif self._queue and fd == self._queue[0][0]:
                self._write()
            elif fd == self._stdin:
                self._read()

    # --- output -----------------------------------------------------------------------------

    def _take_pushes(self) -> None:
        while self._pushed:
            method, params = self._pushed.popleft()
            if method == BYTES:
                for fd, piece in split(_BYTES.decode(params)):
                    if fd not in self._closed:
                        self._queue.append((fd, piece))
                        self._size += len(piece)
            elif method == STATE:
                state = _STATE.decode(params)
                self._awaits_answer = False
                if isinstance(state, Stopped):
                    self._last = state
                elif isinstance(state, Running) and state.review == "waits":
                    self._report_review()
                elif isinstance(state, Waiting):
                    answer = self._command_for(f"answer {state.id}")
                    line = show.state_line(msgspec.to_builtins(state))
                    show.line(f"{line}; {answer} answers", "yellow")

    def _report_review(self) -> None:
        if not self._awaits_review:
            self._awaits_review = True
            approve = self._command_for(f"approve {self._id}")
            show.line(
                f"{self._id}: its result awaits approval; decide in another terminal: {approve}; Ctrl-C ends the wait"
            )

    def _write(self) -> None:
        fd, data = self._queue.popleft()
        is_file = stat.S_ISREG(os.fstat(fd).st_mode)
        piece = data if is_file else data[:_PIPE_BUF]
        try:
            written = os.write(fd, piece)
        except BlockingIOError:
            written = 0
        except BrokenPipeError:
            self._close_stream(fd, len(data))
            return
        except OSError as fault:
            reason = os.strerror(fault.errno or 0)
            raise show.OutputFailed(
                f"the output cannot be written: {reason}; {self._id} runs on, "
                f"{self._command_for(f'logs {self._id}')} shows its output"
            ) from fault
        self._size -= written
        if written < len(data):
            self._queue.appendleft((fd, data[written:]))

    def _close_stream(self, fd: int, size: int) -> None:
        """Report a stream without a reader to the process, as the kernel does."""
        self._closed.add(fd)
        self._size -= size + sum(len(piece) for other, piece in self._queue if other == fd)
        self._queue = deque(entry for entry in self._queue if entry[0] != fd)
        self._signal("PIPE")

    # --- input ------------------------------------------------------------------------------

    def _read(self) -> None:
        assert self._stdin is not None, "standard input is ready and was not polled"
        try:
            self._input = os.read(self._stdin, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            # In the background of the terminal; SIGCONT comes with the foreground.
            self._may_read = False
            return
        if not self._input:
            self._stdin = None

    def _send_input(self) -> None:
        if self._input is None or self._sent is not None or self._awaits_answer or self._last:
            return
        data, self._input = self._input, None
        form: object = {"bytes": b64encode(data).decode()} if data else {"eof": True}
        self._sent = self._apply(form, wait="quiet", quiet_ms=0), data

    def _take_replies(self) -> None:
        self._replies = [number for number in self._replies if not self._is_answered(number)]
        if self._sent is None:
            return
        number, data = self._sent
        try:
            if self._client.take(number) is None:
                return
        except RemoteError as refused:
            if refused.kind == "invalid_answer":
                # A question is open; the next state comes when it is answered.
                self._input, self._awaits_answer = data, True
            elif refused.kind in _NO_READER:
                self._stdin = None
            else:
                raise
        self._sent = None

    def _apply(self, form: object, **waiting: object) -> int:
        return self._client.start(
            "apply",
            id=self._id,
            input=form,
            timeout_ms=_FOR_LONG_MS,
            cursor=0,
            max_bytes=0,
            **waiting,
        )

    # --- signals ----------------------------------------------------------------------------

    def forward_signals(self) -> None:
        arrived, self._arrived = self._arrived, []
        for number in arrived:
            if self._awaits_review and number in _ENDING:
                self._end_by(number)
            name = signal.Signals(number).name.removeprefix("SIG")
            if name == "TSTP":
                # An orphaned process group, which SIGTSTP does not stop.
                self._signal("STOP")
                with self._resumed_at_death():
                    signal.raise_signal(signal.SIGSTOP)
                continue
            self._may_read = self._may_read or name == "CONT"
            self._interrupts += name == "INT"
            if name == "INT" and self._interrupts == 2:
                abort = self._command_for(f"abort {self._id}")
                show.line(f"haft run: {abort} ends a command that ignores Ctrl-C")
            self._signal(name)

    @contextmanager
    def _resumed_at_death(self) -> Iterator[None]:
        """Start a program in a new session that resumes the command if this process dies within the block."""
        import subprocess  # only for stopped commands

        guard = subprocess.Popen(
            ["sh", "-c", _GUARD, "haft run", *self._resume],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield
        finally:
            guard.communicate(b"\n")

    def _signal(self, name: str) -> None:
        self._replies.append(self._apply({"signal": name}, wait="none"))

    def _is_answered(self, number: int) -> bool:
        """True for a taken reply; an ended process takes no signal."""
        try:
            return self._client.take(number) is not None
        except RemoteError:
            return True
