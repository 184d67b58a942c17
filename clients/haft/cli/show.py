"""Output for a person: content on stdout unchanged, one line about it on stderr, tables.

A process's text in haft's lines loses its control characters. Stdout is written as UTF-8 bytes.
"""

from __future__ import annotations

import os
import sys
from base64 import b64decode
from collections.abc import Sequence
from typing import Literal, TextIO

import msgspec
from msgspec import UnsetType

from haft_protocol.questions import Boolean, Choice, Form, Secret, Select
from haft_protocol.states import HandleState, Pending, Running, Screen, Stopped, Waiting

from ..errors import HaftError

_USUAL_COLUMNS = 80
_MIN_COLUMN = 6
_GAP = "  "
When = Literal["auto", "always", "never"]
_when: When = "auto"
_COLOURS = {"red": "31", "green": "32", "yellow": "33", "dim": "2", "bold": "1"}


class OutputFailed(HaftError):
    """Stdout refused a write."""


def write(text: str | bytes) -> None:
    """Write to stdout at once. Raises `OutputFailed`, also if stdout is closed, and `BrokenPipeError`."""
    if not text:
        return
    if sys.stdout is None:
        raise OutputFailed("the output cannot be written: standard output is closed")
    data = memoryview(text.encode("utf-8", "replace") if isinstance(text, str) else text)
    try:
        while data:
            try:
                # With PYTHONUNBUFFERED this is the raw file, which may write a part; None: nothing.
                data = data[sys.stdout.buffer.write(data) or 0 :]
            except BlockingIOError as full:
                data = data[full.characters_written :]
            if data:
                _wait_for_room()
        _flush()
    except BrokenPipeError:
        raise
    except OSError as fault:
        reason = os.strerror(fault.errno or 0)
        raise OutputFailed(f"the output cannot be written: {reason}") from fault


def _flush() -> None:
    while True:
        try:
            sys.stdout.buffer.flush()
        except BlockingIOError:
            _wait_for_room()
        else:
            return


def _wait_for_room() -> None:
    """Wait for a full stdout that the parent has made non-blocking."""
    import select

    select.select([], [sys.stdout], [])


def discard_rest() -> None:
    """Discard stdout's buffer: Python would write it again at exit."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def line(text: str, colour: str | None = None) -> None:
    """Write one line to stderr; ignore a failure."""
    if sys.stderr is None:
        return
    try:
        print(paint(text, colour, sys.stderr), file=sys.stderr, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def document(encoded: bytes) -> None:
    if sys.stdout is not None and sys.stdout.isatty():
        encoded = msgspec.json.format(encoded, indent=2)
    write(encoded.decode() + "\n")


def paint(text: str, colour: str | None, stream: TextIO) -> str:
    if colour is None or not _takes_colours(stream):
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def choose_colours(when: When) -> None:
    """Set when texts are coloured, from now on; `auto` is at first."""
    global _when
    _when = when


def _takes_colours(stream: TextIO) -> bool:
    if _when != "auto":
        return _when == "always"
    is_wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"
    return is_wanted and stream.isatty()


def paint_stdout(text: str, colour: str | None) -> str:
    """Colour a part of the content, where standard output takes colours."""
    return text if sys.stdout is None else paint(text, colour, sys.stdout)


def plain(text: str, limit: int = 300) -> str:
    """Return a process's text as one line without control characters, cut to `limit`."""
    clean = "".join(c if c.isprintable() else " " for c in text).strip()
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def short_duration(seconds: float) -> str:
    """Format seconds: `9.5s`, `1m15s`, `2h5m`, `3d4h`."""
    return duration(seconds).replace(" min", "m").replace(" ", "")


def short_amount(size: float) -> str:
    """Format bytes as `ls -h` does: `58B`, `2.0K`."""
    number, _, unit = amount(size).partition(" ")
    return number + unit[:1]


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def amount(size: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("the last unit takes everything")


def columns() -> int:
    """Return the output's width: the terminal's, or `COLUMNS`, or 80."""
    width = os.environ.get("COLUMNS", "")
    if width.isdecimal() and 0 < len(width) < 6 and int(width):
        return int(width)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or _USUAL_COLUMNS
    except (AttributeError, OSError, ValueError):
        return _USUAL_COLUMNS


def table(rows: Sequence[Sequence[str]], narrow: Sequence[Sequence[str]] | None = None) -> None:
    """Write rows in columns below the first row. A terminal gets every column: of `narrow` cells,
    or with the widest cut."""
    tty = sys.stdout is not None and sys.stdout.isatty()
    lines = fit(rows, None)
    if tty and max(map(len, lines)) > columns():
        lines = fit(rows if narrow is None else narrow, columns())
    for number, text in enumerate(lines):
        write(paint_stdout(text, "bold" if number == 0 else None) + "\n")


def fit(rows: Sequence[Sequence[str]], room: int | None) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    spare = 0 if room is None else sum(widths) + len(_GAP) * (len(widths) - 1) - room
    while spare > 0 and max(widths) > _MIN_COLUMN:
        # The last of the widest.
        widest = max(range(len(widths)), key=lambda i: (widths[i], i))
        widths[widest] -= 1
        spare -= 1
    return [
        _GAP.join(
            (cell if len(cell) <= width else cell[: width - 1] + "…").ljust(width)
            for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def failed(state: HandleState) -> bool:
    return isinstance(state, Stopped) and not isinstance(state.error, UnsetType)


def text_of(state: HandleState) -> str:
    if not isinstance(state, Stopped):
        return state.content
    if isinstance(state.output, UnsetType):
        return result_of(state)
    gap = "" if state.output.endswith("\n") else "\n"
    return f"{state.output}{gap}{result_of(state)}"


def result_of(state: Stopped) -> str:
    """Return the result, or the output beside the error of a raw process."""
    return next((t for t in (state.result, state.content) if not isinstance(t, UnsetType)), "")


def show_state(state: HandleState) -> None:
    text = _screen(state.screen) if isinstance(state.screen, Screen) else text_of(state)
    write(text)
    if text and not text.endswith("\n") and sys.stdout is not None and sys.stdout.isatty():
        line("")
    show_line(state)
    if isinstance(state, Stopped) and not isinstance(state.error, UnsetType):
        for more in state.error.trace[:20]:
            line(f"  {plain(more)}")


def show_bytes(state: HandleState) -> None:
    """Write the bytes of a base64 view to stdout, and the state to stderr."""
    write(bytes_of(state))
    show_line(state)


def bytes_of(state: HandleState) -> bytes:
    return b"" if isinstance(state.content, UnsetType) else b64decode(state.content)


def show_line(state: HandleState) -> None:
    line(state_line(state), _colour(state))


def state_word(state: HandleState) -> str:
    """Return the state for a table: `running`, `exit 2`, `signal TERM`, `lost`."""
    match state:
        case Pending():
            return "pending"
        case Running(suspended=suspended):
            return "suspended" if suspended else "running"
        case Waiting():
            return "waiting"
    if not isinstance(state.exit, UnsetType):
        return ", ".join(_ending(state)[:1])
    if state.ended_by.by != "exit":
        return state.ended_by.by.replace("_", " ")
    return "failed" if failed(state) else "stopped"


def state_line(state: HandleState) -> str:
    """Describe a handle in one line: `build: stopped, exit 0, 1.2 s`."""
    return f"{state.id}: {', '.join([*_situation(state), *_remarks(state)])}"


def _situation(state: HandleState) -> list[str]:
    took = duration(state.elapsed_ms / 1000)
    match state:
        case Pending():
            return ["pending", took]
        case Running(suspended=True):
            return ["suspended", took, f"`haft apply {state.id} --signal CONT` lets it go on"]
        case Running(input_wanted=input_wanted):
            if input_wanted is None or isinstance(input_wanted, UnsetType):
                return ["running", took]
            reads = (
                f"reads a {input_wanted.kind}"
                if input_wanted.certain
                else f"may read a {input_wanted.kind}"
            )
            return [
                "running",
                took,
                f"{reads}: {plain(input_wanted.prompt)}" if input_wanted.prompt else reads,
            ]
        case Waiting(question=question):
            return ["waiting", took, f"asks: {plain(question.text)} {takes(question.answer_type)}"]
        case Stopped():
            return ["stopped", *_ending(state), took]
    raise AssertionError("there are four states")


def _ending(state: Stopped) -> list[str]:
    parts: list[str] = []
    if not isinstance(state.exit, UnsetType):
        code, signal = state.exit.code, state.exit.signal
        parts.append(f"signal {signal}" if isinstance(code, UnsetType) else f"exit {code}")
    if state.ended_by.by != "exit":
        client = state.ended_by.client
        whom = "" if isinstance(client, UnsetType) else f" by {plain(client)}"
        parts.append(f"ended by {state.ended_by.by.replace('_', ' ')}{whom}")
    if not isinstance(state.error, UnsetType):
        again = " (may work if tried again)" if state.error.transient else ""
        # A raw process' message repeats its exit.
        if isinstance(state.exit, UnsetType) or isinstance(state.content, UnsetType) or again:
            parts.append(f"failed: {plain(state.error.message)}{again}")
    return parts


def _remarks(state: HandleState) -> list[str]:
    parts: list[str] = []
    if state.omitted:
        parts.append(f"{state.omitted} bytes left out")
    if isinstance(state, Stopped):
        if not isinstance(state.truncated, UnsetType):
            where = f", all of it in {state.truncated.path}" if state.truncated.path else ""
            parts.append(f"{state.truncated.kept} of {state.truncated.bytes} bytes shown{where}")
        if state.output_complete is False:
            parts.append("output not complete")
        if not isinstance(state.left_behind, UnsetType):
            others = ", ".join(f"{p.pid} {plain(p.command, 60)}" for p in state.left_behind)
            if others:
                parts.append(f"still runs: {others}")
        if not isinstance(state.unconfirmed, UnsetType) and state.unconfirmed:
            parts.append(f"could not be ended: {', '.join(map(str, state.unconfirmed))}")
    return parts


def takes(kind: object) -> str:
    match kind:
        case Boolean():
            return "[yes/no]"
        case Select(options=options):
            return f"[{' | '.join(plain(str(o), 60) for o in options)}]"
        case Form(fields=fields):
            return f"[{' '.join(f'{plain(n, 64)}={_offered(c)}' for n, c in fields.items())}]"
        case Secret():
            return "[a secret]"
    return "[text]"


def _offered(choice: Choice) -> str:
    return "|".join(plain(str(option), 60) for option in choice.options)


def _colour(state: HandleState) -> str:
    if failed(state):
        return "red"
    return (
        "yellow" if isinstance(state, Waiting) else "green" if isinstance(state, Stopped) else "dim"
    )


def _screen(screen: Screen) -> str:
    if isinstance(screen.changed, UnsetType):
        lines = [text.rstrip() for text in screen.lines]
        while lines and not lines[-1]:
            lines.pop()
        return "".join(text + "\n" for text in lines)
    return "".join(f"{row}: {text.rstrip()}\n" for row, text in screen.changed.items())
