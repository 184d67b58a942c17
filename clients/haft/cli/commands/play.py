"""`haft play`: show a recording in the person's terminal, at its own speed."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from haft_protocol.params import ID_FORM
from haft_protocol.terminal_queries import QueryFilter

from ...asciicast import Event, NotARecording, lines_of, read
from .. import show
from ..options import UsageError, non_empty
from ..statuses import Status
from ..terminal.own_terminal import OwnTerminal, drop_late_messages
from ..terminal.terminal_modes import TerminalModes

EPILOG = """\
FILE is an asciicast of version 2 or 3, as `haft record` and asciinema write it; `-` is standard input.
In a terminal, the space bar pauses, `.` plays one step, `q` and Ctrl-C quit. Without a terminal the output
is also written with its timing.

examples:
  haft play build.cast
  haft record build | haft play -
  haft play build.cast --speed 4 --idle 1
"""

_MAX_SPEED = 1000.0
_MAX_PAUSE_S = 2_000_000.0
"""A pause that every system call takes: 23 days."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", type=non_empty, metavar="FILE", help="a recording, as `haft record` writes it, or -"
    )
    parser.add_argument("--speed", type=float, metavar="FACTOR", help="this many times as fast (1)")
    parser.add_argument(
        "--idle",
        type=float,
        metavar="SECONDS",
        help="shorten each longer pause to this many seconds (default: the recording's limit, if it has one)",
    )


def run(options: argparse.Namespace) -> int:
    if options.json:
        raise UsageError("play has no --json: it is for a person")
    speed = getattr(options, "speed", 1.0)
    idle = getattr(options, "idle", None)
    if not 0 < speed <= _MAX_SPEED:
        raise UsageError(f"--speed must be above 0 and at most {_MAX_SPEED:.0f}")
    if idle is not None and not idle >= 0:
        raise UsageError("--idle must be 0 or more")
    with _opened(options.file) as file:
        try:
            header, events = read(lines_of(file))
            pauses = _Pauses(speed, header.idle_limit_s if idle is None else idle)
            on_terminal = sys.stdout is not None and sys.stdout.isatty()
            if on_terminal and (keys := _keyboard(options.file)) is not None:
                return _on_a_terminal(keys, events, pauses, (header.rows, header.cols))
            return _as_text(events, pauses)
        except NotARecording as fault:
            raise UsageError(f"{options.file!r} is not a recording (asciicast): {fault}") from None
        except OSError as fault:
            raise UsageError(f"{options.file!r} cannot be read: {fault.strerror}") from None


def _opened(file: str) -> BinaryIO:
    if file == "-":
        if sys.stdin is None:
            raise UsageError("standard input is closed")
        return sys.stdin.buffer
    try:
        return Path(file).open("rb")
    except FileNotFoundError:
        if not re.fullmatch(ID_FORM, file):
            raise UsageError(f"there is no file {file!r}") from None
        recorded = f"haft record {file} | haft play -"
        raise UsageError(
            f"there is no file {file!r}; to play a handle of this name: {recorded}"
        ) from None
    except (OSError, ValueError) as fault:
        raise UsageError(f"{file!r} cannot be read: {getattr(fault, 'strerror', fault)}") from None


class _Pauses:
    """Times of the events, with a speed and a longest pause."""

    def __init__(self, speed: float, idle_s: float | None) -> None:
        self._speed = speed
        self._idle_s = idle_s
        self._last_ms = 0

    def before(self, event: Event) -> float:
        """Return the seconds between the event before and this one."""
        seconds = (event.at_ms - self._last_ms) / 1000
        self._last_ms = event.at_ms
        if self._idle_s is not None:
            seconds = min(seconds, self._idle_s)
        return min(max(seconds, 0) / self._speed, _MAX_PAUSE_S)


def _keyboard(file: str) -> int | None:
    """Return a descriptor of the terminal for keys: standard input may be the recording."""
    if file != "-" and sys.stdin is not None and sys.stdin.isatty():
        return sys.stdin.fileno()
    try:
        return os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return None


def _as_text(events: Iterator[Event], pauses: _Pauses) -> int:
    for event in events:
        pause = pauses.before(event)
        if event.code == "o":
            time.sleep(pause)
            show.write(event.data)
    return Status.DONE


def _on_a_terminal(
    keys: int, events: Iterator[Event], pauses: _Pauses, size: tuple[int, int]
) -> int:
    output, modes = QueryFilter(), TerminalModes()
    with OwnTerminal(keys, sys.stdout.fileno()) as terminal:
        own = terminal.size()
        player = _Player(terminal, keys)
        for event in events:
            if not player.wait(pauses.before(event)):
                break
            if event.code == "o":
                terminal.write(modes.note(output.feed(event.data.encode("utf-8", "replace"))))
        terminal.write(modes.undo())
        terminal.flush(leaving=True)
        ended_by = terminal.ended_by
    with drop_late_messages():
        show.line("")
        if own is not None and (own[0] < size[0] or own[1] < size[1]):
            show.line(
                f"haft play: this was recorded on a terminal of {size[1]}x{size[0]} cells", "dim"
            )
    return Status.DONE if ended_by is None else 128 + ended_by


class _Player:
    """Waits between events, and takes the person's keys meanwhile."""

    def __init__(self, terminal: OwnTerminal, keys: int) -> None:
        self._terminal = terminal
        self._keys = keys
        self._paused = False

    def wait(self, seconds: float) -> bool:
        """True when the next event is due, False when the person ends the playback."""
        terminal = self._terminal
        until = time.monotonic() + seconds
        while True:
            left_s = until - time.monotonic()
            if terminal.ended_by is not None:
                return False
            if not self._paused and left_s <= 0 and not terminal.is_stalled:
                return True
            keys = terminal.wait(self._keys, False, None if self._paused else max(left_s, 0))
            for key in keys:
                if key in b"q\x03":
                    return False
                if key in b" ":
                    self._paused = not self._paused
                    until = time.monotonic() + max(left_s, 0)
                elif key in b"." and self._paused:
                    return True
