"""Convert a spool's bytes to text for a reader (docs/protocol.md, "Reading output").

No character or sequence is split. Excess text is omitted in the middle, and counted in a line. Of a
line rewritten by carriage returns on a pipe, the last version counts.
"""

from __future__ import annotations

from base64 import b64encode
from codecs import utf_8_decode
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Protocol

import msgspec

from haft_protocol.states import Base64
from haft_protocol.terminal_queries import unfinished_character
from haftd.lazy_pattern import lazy_pattern

from .escapes import MAX_SEQUENCE, continued, decode, pending
from .long_strings import NO_STRINGS
from .spool import Budget, Spool

_LINE = 4_096
"""Bytes to give up for a line start where the beginning was dropped."""


_MAX_PROMPT = 1_024

_REWRITES = lazy_pattern(rb"\r[^\r\n]")

WHOLE = 131_072
"""Bytes rendered together if their text may be far shorter."""

AT_ONCE = 131_072
"""Bytes converted in one step: a few milliseconds."""


_PART = 262_144
"""Bytes of a part of a long text without sequences."""


class Slice(msgspec.Struct, frozen=True, gc=False):
    """Text, the offset after it, and the range's omitted bytes."""

    text: str
    cursor: int
    omitted: int = 0


class DeferredText(str):
    """Long text, empty until a thread converts it."""

    __slots__ = ("parts",)

    def __new__(cls, parts: Callable[[], Iterable[str]]) -> DeferredText:
        deferred = super().__new__(cls)
        deferred.parts = parts
        return deferred

    parts: Callable[[], Iterable[str]]
    """Convert the text part by part, from copies: the spool may change."""

    def convert(self) -> str:
        first, *others = self.parts()
        return "".join((first, *others)) if others else first


class Rendering(Protocol):
    def is_shorter(self, data: bytes) -> bool:
        """True if `WHOLE` bytes must be rendered for a smaller read: the text may be far shorter."""

    def pending(self, tail: bytes) -> int:
        """Count the last bytes that must wait for more."""

    def text(self, spool: Spool, start: int, data: bytes) -> str:
        """Convert `data`, at `start` in the spool; earlier output may matter."""

    def deferred(self, spool: Spool, start: int, data: bytes) -> Callable[[], Iterable[str]]:
        """Return a function that converts more than `WHOLE` bytes, in any thread, in parts."""

    def plain(self, data: bytes) -> bytes:
        """Convert `data` alone to UTF-8 for a search, keeping line ends."""


class _Stripped:
    def is_shorter(self, data: bytes) -> bool:
        return _REWRITES.search(data) is not None

    def pending(self, tail: bytes) -> int:
        # A carriage return waits for a line end, or another version of the line.
        return max(len(tail) - len(tail.rstrip(b"\r")), pending(tail))

    def text(self, spool: Spool, start: int, data: bytes) -> str:
        text = decode(data)
        return _last_versions(text, is_at_line_start(spool, start)) if "\r" in text else text

    def deferred(self, spool: Spool, start: int, data: bytes) -> Callable[[], Iterable[str]]:
        at_line_start = is_at_line_start(spool, start)

        def parts() -> Iterable[str]:
            if data.isascii() and b"\x1b" not in data and b"\r" not in data:
                pieces = range(0, len(data), _PART)
                return (data[at : at + _PART].decode("ascii") for at in pieces)
            return (_last_versions(decode(data), at_line_start),)

        return parts

    def plain(self, data: bytes) -> bytes:
        return decode(data).encode() if b"\x1b" in data else data


class _Verbatim(_Stripped):
    def is_shorter(self, data: bytes) -> bool:
        return False

    def text(self, spool: Spool, start: int, data: bytes) -> str:
        return data.decode("utf-8", "replace")


STRIPPED: Rendering = _Stripped()
_VERBATIM: Rendering = _Verbatim()


def is_at_line_start(spool: Spool, start: int) -> bool:
    return spool.read(start - 1, start) in (b"", b"\n")


def _last_versions(text: str, at_line_start: bool) -> str:
    """Return each line's last version; a first line that starts before `text` keeps its carriage return."""
    if "\r" not in text:
        return text
    first, *lines = text.split("\n")
    last = _last_version(first)
    if last != first and not at_line_start:
        last = "\r" + last
    return "\n".join([last, *map(_last_version, lines)])


def _last_version(line: str) -> str:
    version = line.rstrip("\r")
    return version.rpartition("\r")[2] + line[len(version) :]


def shown_end(spool: Spool, rendering: Rendering) -> int:
    """Return the offset up to which reads show output."""
    end, by, shown = spool.shown
    if end != spool.end or by is not rendering:
        shown = _shown_end(spool, rendering, spool.end)
        spool.shown = spool.end, rendering, shown
    return shown


def _shown_end(spool: Spool, rendering: Rendering, stop: int) -> int:
    """Return the last offset up to `stop` between characters and sequences."""
    if 0 <= spool.strings.open < stop:
        stop = spool.strings.open
    return stop - rendering.pending(spool.read(stop - MAX_SEQUENCE, stop))


def last_line(spool: Spool, rendering: Rendering) -> str:
    """Return the last line, complete or not: a waiting process's prompt."""
    end = spool.end
    if spool.strings is NO_STRINGS and spool.read(end - 1, end) == b"\n":
        return ""
    start = max(spool.start, spool.strings.back(end, _MAX_PROMPT))
    data = spool.read_shown(start, end)
    line = data.rfind(b"\n") + 1
    text = rendering.text(spool, spool.strings.forward(start, line), data[line:])
    return text[max(text.rfind("\n"), text.rfind("\r")) + 1 :]


def last_plain_row(spool: Spool, cols: int) -> str:
    """Return the last row of a terminal that was never resized, without its screen: the last line
    of the output, if that is whole, printable ASCII, and no wider than `cols`.

    Empty if only the screen shows the row: an escape may have moved the cursor, ever.

    >>> spool = Spool(1024, 0, None, Budget(0))
    >>> spool.append(b"one\\r\\ntwo\\r\\n")
    >>> last_plain_row(spool, 80)
    'two'
    """
    if spool.strings is not NO_STRINGS:
        return ""
    data = spool.read(spool.end - cols - 4, spool.end)
    begin = data.rfind(b"\r\n", 0, -2)
    if not data.endswith(b"\r\n") or (begin < 0 and len(data) < spool.end):
        return ""
    line = data[begin + 2 if begin >= 0 else 0 : -2]
    if len(line) > cols or not line.isascii():
        return ""
    text = line.decode()
    return text.rstrip(" ") if text.isprintable() else ""


def bytes_from(spool: Spool, start: int, max_bytes: int, *, defer: bool = False) -> Slice:
    """Return up to `max_bytes` from `start` in base64; `omitted` counts dropped bytes."""
    data = spool.head[start : start + max_bytes] if start < spool.start else b""
    begin, stop = start, start + len(data)
    if not data:
        stop = min(spool.end, max(start, spool.start) + max_bytes)
        data = spool.read(start, stop)
        begin = max(start, stop - len(data))
    return encoded_slice(data, max(start, stop), begin - start, defer=defer)


def encoded_slice(data: bytes, cursor: int, omitted: int, *, defer: bool) -> Slice:
    if defer and len(data) > AT_ONCE:
        return Slice(DeferredText(lambda: (_base64(data),)), cursor, omitted)
    return Slice(_base64(data), cursor, omitted)


def _base64(data: bytes) -> Base64:
    return Base64(b64encode(data).decode())


def omission_line(count: int) -> str:
    return f"… {count} bytes left out …\n"


def cut(
    spool: Spool,
    start: int,
    stop: int,
    max_bytes: int,
    *,
    final: bool,
    tail: bool = False,
    rendering: Rendering = STRIPPED,
    defer: bool = False,
) -> Slice:
    """Return the text of [start, stop) within `max_bytes`; with `tail` only the end.

    With `final` no output follows: an incomplete character becomes U+FFFD. With `defer` a long text
    is `DeferredText`. The line for missing bytes comes on top of `max_bytes`.
    """
    stop = min(stop, spool.end)
    if not final and start < stop:
        stop = max(start, _shown_end(spool, rendering, stop))
    if start >= stop:
        return Slice("", stop)
    if max_bytes <= 0:
        return Slice("", stop, stop - start)
    size = spool.strings.length(start, stop)
    if spool.start <= start and size <= max(max_bytes, WHOLE):
        data = spool.read_shown(start, stop)
        if len(data) == size and (size <= max_bytes or rendering.is_shorter(data)):
            skipped, sequence = _begun_before(spool, start, data)
            data = data[skipped + sequence :]
            begin = spool.strings.end_of(start) + skipped + sequence
            if size <= max_bytes:
                return Slice(_text(spool, begin, data, rendering, defer), stop, skipped)
            text = rendering.text(spool, begin, data)
            text, whole, kept = cut_text(text, max_bytes, tail=tail)
            return Slice(text, stop, skipped + whole - kept)
    if tail:
        data = _rear(spool, start, stop, max_bytes)
        text = _text(spool, spool.strings.back(stop, len(data)), data, rendering, defer)
        return Slice(text, stop, size - len(data))
    return _head_and_tail(spool, start, stop, max_bytes, rendering, defer)


def _text(spool: Spool, start: int, data: bytes, rendering: Rendering, defer: bool) -> str:
    if defer and len(data) > AT_ONCE:
        return DeferredText(rendering.deferred(spool, start, data))
    return rendering.text(spool, start, data)


def cut_text(text: str, max_bytes: int, *, tail: bool = False) -> tuple[str, int, int]:
    """Cut a text like output; return the text, its bytes, and the kept bytes."""
    data = text.encode("utf-8", "replace")
    if len(data) <= max_bytes:
        return text, len(data), len(data)
    spool = Spool(len(data), 0, None, Budget(0))
    spool.append(data)
    spool.strings = NO_STRINGS  # text already
    piece = cut(spool, 0, len(data), max_bytes, final=True, tail=tail, rendering=_VERBATIM)
    return piece.text, len(data), len(data) - piece.omitted


def _head_and_tail(
    spool: Spool, start: int, stop: int, max_bytes: int, rendering: Rendering, defer: bool
) -> Slice:
    base, strings = spool.start, spool.strings
    kept = min(max(start, base), stop)
    front, reached = read_head(spool, start, kept)
    if len(front) + strings.length(kept, stop) > max_bytes:
        half = max_bytes // 2
        if len(front) >= half:
            front = front[:half]
        elif reached == kept:
            front += spool.read_shown(kept, strings.forward(kept, half - len(front)))
        front = _front(front)
        rear = _rear(spool, kept, stop, max_bytes - len(front))
    elif reached < kept:
        front = _front(front)
        rear = _rear(spool, kept, stop, max_bytes)
    else:
        front += spool.read_shown(kept, stop)
        rear = b""
    if spool.start != base:
        # The file failed during the read, at most once.
        return _head_and_tail(spool, start, stop, max_bytes, rendering, defer)
    missing = strings.length(start, stop) - len(front) - len(rear)
    skipped, sequence = _begun_before(spool, start, front)
    front = front[skipped + sequence :]
    begin = strings.end_of(start) + skipped + sequence
    omitted = missing + skipped
    head = _text(spool, begin, front, rendering, defer)
    end = _text(spool, strings.back(stop, len(rear)), rear, rendering, defer)
    line = omission_line(omitted) if missing else ""
    if isinstance(head, DeferredText) or isinstance(end, DeferredText):
        return Slice(DeferredText(partial(_around, head, line, end)), stop, omitted)
    return Slice("".join(_around(head, line, end)), stop, omitted)


def read_head(spool: Spool, start: int, kept: int) -> tuple[bytes, int]:
    """Return the head from `start` to `kept` without long strings, and the offset after it."""
    head = spool.head[start:kept]
    reached = start + len(head)
    parts, at = [], start
    for begin, end in spool.strings.between(start, reached):
        parts.append(spool.head[at:begin])
        at = end
    return b"".join([*parts, spool.head[at:reached]]), reached


def _begun_before(spool: Spool, start: int, data: bytes) -> tuple[int, int]:
    """Count the first bytes of `data` that continue a character, and a sequence."""
    if not start or not data or spool.strings.end_of(start) != start:
        return 0, 0
    before = spool.head[max(0, start - MAX_SEQUENCE) : start]
    if len(before) < min(start, MAX_SEQUENCE):
        before = spool.read(start - MAX_SEQUENCE, start)
    sequence = continued(before, data)
    if sequence:
        return 0, sequence
    return _inside(before[-3:], data) if 0x80 <= data[0] < 0xC0 else 0, 0


def _around(head: str, line: str, end: str) -> Iterator[str]:
    """Return the parts of two texts with a line between them."""
    last = ""
    for part in _parts(head):
        last = part or last
        yield part
    yield "\n" + line if line and last and not last.endswith("\n") else line
    yield from _parts(end)


def _parts(text: str) -> Iterable[str]:
    return text.parts() if isinstance(text, DeferredText) else (text,)


def _front(data: bytes) -> bytes:
    return data[: data.rfind(b"\n") + 1] or data[: len(data) - pending(data)]


def _rear(spool: Spool, start: int, stop: int, size: int) -> bytes:
    """Return up to `size` last bytes of [start, stop), from a line start if possible."""
    begin = max(start, spool.strings.back(stop, size))
    data = spool.read_shown(begin, stop)
    begin = max(begin, spool.start)
    if begin > spool.start:
        before = spool.read(begin - 1, begin)
        if begin > start and before != b"\n":
            line = data.find(b"\n") + 1
            if 0 < line < len(data):
                return data[line:]
        return data[sum(_begun_before(spool, begin, data)) :]
    if not begin or spool.strings.end_of(begin) != begin:
        return data
    # Earlier bytes are gone: a line or character that started there looks like junk.
    line = data.find(b"\n", 0, _LINE) + 1
    if 0 < line < len(data):
        return data[line:]
    skip = 0
    while skip < min(3, len(data)) and 0x80 <= data[skip] < 0xC0:
        skip += 1
    return data[skip:]


def _inside(before: bytes, data: bytes) -> int:
    begun = unfinished_character(before)
    if not begun:
        return 0
    lead = before[-begun:]
    count = 0
    while count < min(3, len(data)):
        _, used = utf_8_decode(lead + data[: count + 1], "replace", False)
        if used == begun + count + 1:
            # Whole, unless cut off and followed by junk.
            return count + 1 if 0x80 <= data[count] < 0xC0 else count
        if used:
            return count
        count += 1
    return count
