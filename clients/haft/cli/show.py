"""Output for a person: content on stdout unchanged, one line about it on stderr, tables.

A process's text in haft's lines loses its control characters. Stdout is written as UTF-8 bytes.
"""

from __future__ import annotations

import os
import sys

from ..errors import HaftError

TYPE_CHECKING = False  # `typing` takes 3 ms
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any, Literal, TextIO

    When = Literal["auto", "always", "never"]
    Json = Mapping[str, Any]
    """A JSON object as on the wire, such as a handle's state."""

# Causes of an end with more in the message than `ended by …`: the denied access, the limit.
_REASONED = ("exit", "limit")
_USUAL_COLUMNS = 80
_MIN_COLUMN = 6
_GAP = "  "
_NONE: dict[str, int] = {}
WHEN = ("auto", "always", "never")
_when: When = "auto"
_is_mid_line = False
"""True if the last content on stdout has no line end."""
_COLOURS = {"red": "31", "green": "32", "yellow": "33", "dim": "2", "bold": "1"}


class OutputFailed(HaftError):
    """Stdout refused a write."""


def write(text: str | bytes) -> None:
    """Write to stdout and flush; raise `OutputFailed`, also if stdout is closed, and `BrokenPipeError`."""
    global _is_mid_line
    if not text:
        return
    if sys.stdout is None:
        raise OutputFailed("the output cannot be written: standard output is closed")
    data = memoryview(text.encode("utf-8", "replace") if isinstance(text, str) else text)
    _is_mid_line = data[-1] != 10
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
    global _is_mid_line
    if sys.stderr is None:
        return
    if _is_mid_line and _are_one_stream():
        text = f"\n{text}"
        _is_mid_line = False
    try:
        print(paint(text, colour, sys.stderr), file=sys.stderr, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def head(id: str) -> None:
    """Begin the output of one of several handles on stdout, as `tail` begins the output of a file."""
    break_ = "\n" if _is_mid_line else ""
    write(break_ + paint_stdout(f"==> {plain(id)} <==", "bold") + "\n")


def _are_one_stream() -> bool:
    """True if stderr and stdout go to one place: a remark would continue a line of the
    content."""
    try:
        out, err = (os.fstat(stream.fileno()) for stream in (sys.stdout, sys.stderr))
    except (AttributeError, OSError, ValueError):
        return False  # One is closed, or no file.
    return (out.st_dev, out.st_ino) == (err.st_dev, err.st_ino)


def document(encoded: bytes) -> None:
    if sys.stdout is not None and sys.stdout.isatty():
        from msgspec.json import format

        encoded = format(encoded, indent=2)
    write(encoded.decode() + "\n")


def paint(text: str, colour: str | None, stream: TextIO) -> str:
    if colour is None or not _takes_colours(stream):
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def choose_colours(when: When) -> None:
    global _when
    _when = when


def _takes_colours(stream: TextIO) -> bool:
    if _when != "auto":
        return _when == "always"
    is_wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"
    return is_wanted and stream.isatty()


def paint_stdout(text: str, colour: str | None) -> str:
    return text if sys.stdout is None else paint(text, colour, sys.stdout)


def printable(text: str) -> str:
    """Return a text of several lines without other control characters."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def _shorten(text: str, max_chars: int) -> str:
    # A copy of `haft_protocol.ellipsis`: short commands import no further module.
    return text if len(text) <= max_chars else f"{text[: max_chars - 1].rstrip()}…"


def plain(text: str, limit: int = 300) -> str:
    """Return a process's text as one line without control characters, cut to `limit`."""
    clean = "".join(c if c.isprintable() else " " for c in text).strip()
    return _shorten(clean, limit)


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
    raise AssertionError(f"no unit for {size} bytes")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, which forms its plural with an s.

    >>> counted(1, "file"), counted(2, "file")
    ('1 file', '2 files')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def columns() -> int:
    """Return the width of the output: the terminal's, or `COLUMNS`, or 80."""
    width = os.environ.get("COLUMNS", "")
    if width.isdecimal() and 0 < len(width) < 6 and int(width):
        return int(width)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or _USUAL_COLUMNS
    except (AttributeError, OSError, ValueError):
        return _USUAL_COLUMNS


def folded(text: str, hang: int) -> str:
    """Return a line with its end, folded at the width of a terminal; further lines are indented by `hang`.

    A word is never broken, and other output never folded.
    """
    if sys.stdout is None or not sys.stdout.isatty() or len(text) <= columns():
        return f"{text}\n"
    from textwrap import TextWrapper

    wrapper = TextWrapper(
        max(columns(), 2 * hang),
        subsequent_indent=" " * hang,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "".join(f"{part}\n" for part in wrapper.wrap(text))


def table(
    rows: Sequence[Sequence[str]],
    narrow: Sequence[Sequence[str]] | None = None,
    *,
    whole: Collection[str] = (),
    spare: Mapping[str, int] = _NONE,
) -> None:
    """Write rows in columns below the first row. In a terminal that is too narrow they are those
    of `narrow`, and fitted: see `fit`."""
    tty = sys.stdout is not None and sys.stdout.isatty()
    lines = fit(rows, None)
    if tty and max(map(len, lines)) > columns():
        lines = fit(rows if narrow is None else narrow, columns(), whole=whole, spare=spare)
    for number, text in enumerate(lines):
        write(paint_stdout(text, "bold" if number == 0 else None) + "\n")


def fit(
    rows: Sequence[Sequence[str]],
    room: int | None,
    *,
    whole: Collection[str] = (),
    spare: Mapping[str, int] = _NONE,
) -> list[str]:
    """Return the lines of a table, at most `room` wide if that has place for all columns.

    A `spare` column is left out, in order, if the others do not have room beside it: `whole` ones
    entirely, any other with as many characters as `spare` maps the column to. Then the widest of
    these others are cut, and `whole` ones only as a last resort.
    """
    widths = {cells[0]: max(map(len, cells)) for cells in zip(*rows, strict=True)}
    if room is not None:
        room += len(_GAP)
        for name, least in spare.items():
            needed = (w if n in whole else min(w, least) for n, w in widths.items())
            if sum(needed) + len(_GAP) * len(widths) <= room:
                break
            widths.pop(name, None)
        _cut(widths, [name for name in widths if name not in whole], room)
        _cut(widths, list(widths), room)
    places = [(place, widths[name]) for place, name in enumerate(rows[0]) if name in widths]
    return [
        _GAP.join(_shorten(row[place], width).ljust(width) for place, width in places).rstrip()
        for row in rows
    ]


def _cut(widths: dict[str, int], names: Sequence[str], room: int) -> None:
    """Narrow the widest of the columns, the last of them, until all fit."""
    over = sum(widths.values()) + len(_GAP) * len(widths) - room
    while over > 0 and names:
        widest = max(reversed(names), key=lambda name: widths[name])
        if widths[widest] <= _MIN_COLUMN:
            break
        widths[widest] -= 1
        over -= 1


def failed(state: Json) -> bool:
    return state["state"] == "stopped" and "error" in state


def text_of(state: Json) -> str:
    if state["state"] != "stopped":
        return str(state["content"])
    if "output" not in state:
        return result_of(state)
    gap = "" if state["output"].endswith("\n") else "\n"
    return f"{state['output']}{gap}{result_of(state)}"


def result_of(state: Json) -> str:
    """Return the result, or the output beside the error of a raw process."""
    return str(state.get("result", state.get("content", "")))


def show_state(state: Json) -> None:
    screen = state.get("screen")
    text = text_of(state) if screen is None else _screen(screen)
    write(text)
    show_line(state)
    if failed(state):
        for more in state["error"].get("trace", ())[:20]:
            line(f"  {plain(more)}")


def show_bytes(state: Json) -> None:
    write(bytes_of(state))
    show_line(state)


def bytes_of(state: Json) -> bytes:
    from base64 import b64decode

    return b64decode(state.get("content", ""))


def show_line(state: Json) -> None:
    line(state_line(state), _colour(state))


def state_word(state: Json) -> str:
    """Return the state for a table: `running`, `exit 2`, `signal TERM`, `lost`."""
    if state["state"] == "running" and state.get("suspended"):
        return "suspended"
    if state["state"] != "stopped":
        return str(state["state"])
    if "exit" in state:
        return _ending(state)[0]
    if state["ended_by"]["by"] != "exit":
        return str(state["ended_by"]["by"]).replace("_", " ")
    return "failed" if failed(state) else "stopped"


def state_line(state: Json) -> str:
    """Describe a handle in one line: `build: stopped, exit 0, 1.2 s`."""
    return f"{state['id']}: {', '.join([*_situation(state), *_remarks(state)])}"


def _situation(state: Json) -> list[str]:
    took = duration(state["elapsed_ms"] / 1000)
    match state["state"]:
        case "pending" if state.get("needs") == "decision":
            return ["pending", took, f"`haft approve {state['id']}` decides"]
        case "pending":
            return ["pending", took]
        case "running" if state.get("suspended"):
            return ["suspended", took, f"`haft apply {state['id']} --signal CONT` continues it"]
        case "running":
            if not (wanted := state.get("input_wanted")):
                return ["running", took]
            verb = "reads" if wanted.get("certain", True) else "may read"
            reads = f"{verb} a {wanted['kind']}"
            prompt = wanted["prompt"]
            return ["running", took, f"{reads}: {plain(prompt)}" if prompt else reads]
        case "waiting":
            question = state["question"]
            asks = f"asks: {plain(question['text'])} {takes(question['answer_type'])}"
            return ["waiting", took, asks]
        case "stopped":
            return ["stopped", *_ending(state), took]
    raise AssertionError(f"unknown state {state['state']!r}")


def _ending(state: Json) -> list[str]:
    parts: list[str] = []
    if (status := state.get("exit")) is not None:
        parts.append(
            f"exit {status['code']}" if "code" in status else f"signal {status.get('signal')}"
        )
    ended = state["ended_by"]
    if ended["by"] != "exit":
        whom = f" by {plain(ended['client'])}" if "client" in ended else ""
        parts.append(f"ended by {ended['by'].replace('_', ' ')}{whom}")
    if (error := state.get("error")) is not None:
        # The message about a lost handle says it.
        is_told_again = error.get("transient") and ended["by"] != "lost"
        again = " (may succeed if tried again)" if is_told_again else ""
        message = error["message"]
        if "exit" in state and "content" in state and not again:
            message = _without_exit(message) if ended["by"] in _REASONED else ""
        if message:
            parts.append(f"failed: {plain(message).removesuffix('.')}{again}")
    return parts


def _without_exit(message: str) -> str:
    """Remove the clause that repeats the exit from the message of a raw process."""
    if message.startswith(("The process exited with ", "The process was ended by ")):
        return message.partition(". ")[2]
    return message.partition("; the process ")[0]


def _remarks(state: Json) -> list[str]:
    parts: list[str] = []
    if omitted := state.get("omitted"):
        parts.append(f"{counted(omitted, 'byte')} left out")
    if truncated := state.get("truncated"):
        where = f", all of it in {truncated['path']}" if truncated["path"] else ""
        parts.append(f"{truncated['kept']} of {truncated['bytes']} bytes shown{where}")
    if state.get("output_complete") is False:
        parts.append("output not complete")
    if left := state.get("left_behind"):
        others = ", ".join(f"{each['pid']} {plain(each['command'], 60)}" for each in left)
        parts.append(f"still runs: {others}")
    if unconfirmed := state.get("unconfirmed"):
        parts.append(f"could not be ended: {', '.join(map(str, unconfirmed))}")
    return parts


def takes(kind: Json) -> str:
    """Describe the answers that a question of this type takes."""
    match kind["type"]:
        case "boolean":
            return "[yes/no]"
        case "select":
            return f"[{' | '.join(plain(str(option), 60) for option in kind['options'])}]"
        case "form":
            fields = kind["fields"].items()
            return f"[{' '.join(f'{plain(name, 64)}={_option_texts(field)}' for name, field in fields)}]"
        case "secret":
            return "[a secret]"
    return "[text]"


def _option_texts(choice: Json) -> str:
    return "|".join(plain(str(option), 60) for option in choice["options"])


def _colour(state: Json) -> str:
    if failed(state):
        return "red"
    return {"waiting": "yellow", "stopped": "green"}.get(state["state"], "dim")


def _screen(screen: Json) -> str:
    if "changed" in screen:
        return "".join(f"{row}: {text.rstrip()}\n" for row, text in screen["changed"].items())
    lines = [text.rstrip() for text in screen.get("lines", ())]
    while lines and not lines[-1]:
        lines.pop()
    return "".join(text + "\n" for text in lines)
