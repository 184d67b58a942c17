"""From bytes of a spool to text for a reader.

Rules: the text is what the whole stream decodes to: a character is never split, bytes that are no
UTF-8 become U+FFFD, a character that has not arrived whole waits for the next read. What does not
fit is left out in the middle, at line ends where there are any, with one line in its place that
says how many bytes are missing; every missing byte is counted. Section 4, `view`.
"""

from __future__ import annotations

from codecs import utf_8_decode

import msgspec

from .spool import Budget, Spool

__all__ = ["Slice", "cut", "cut_text", "left_out", "unfinished"]


class Slice(msgspec.Struct, frozen=True, gc=False):
    """A text, the offset after it, and how many bytes of the asked range it does not hold."""

    text: str
    cursor: int
    omitted: int = 0


def left_out(count: int) -> str:
    """Return the line that stands for `count` missing bytes."""
    return f"… {count} bytes left out …\n"


def cut(
    spool: Spool, start: int, stop: int, max_bytes: int, *, final: bool, tail: bool = False
) -> Slice:
    """Return what there is of [start, stop) within `max_bytes`; with `tail`, only the last of it.

    `final`: nothing will follow, so an unfinished character at the end is shown as U+FFFD. The
    line that says what is missing comes on top of `max_bytes`.
    """
    stop = min(stop, spool.end)
    if start >= stop:
        return Slice("", stop)
    if spool.start <= start and stop - start <= max_bytes:
        data = spool.read(start, stop)
        if len(data) == stop - start:
            if start and 0x80 <= data[0] < 0xC0:
                data = data[_inside(spool.read(start - 3, start), data) :]
            text, used = utf_8_decode(data, "replace", final)
            cursor = stop - len(data) + used
            return Slice(text, cursor, cursor - start - used)
    if max_bytes <= 0:
        cursor = stop if final else stop - unfinished(spool.read(max(start, stop - 3), stop))
        return Slice("", cursor, cursor - start)
    if tail:
        data = _rear(spool, start, stop, max_bytes)
        text, used = utf_8_decode(data, "replace", final)
        cursor = stop - len(data) + used
        return Slice(text, cursor, cursor - start - used)
    return _head_and_tail(spool, start, stop, max_bytes, final)


def cut_text(text: str, max_bytes: int) -> tuple[str, int, int]:
    """Cut a text as output is cut; returns it, the bytes it had, the bytes that are kept."""
    data = text.encode("utf-8", "replace")
    if len(data) <= max_bytes:
        return text, len(data), len(data)
    spool = Spool(len(data), 0, None, Budget(0))
    spool.append(data)
    piece = cut(spool, 0, len(data), max_bytes, final=True)
    return piece.text, len(data), len(data) - piece.omitted


def _head_and_tail(spool: Spool, start: int, stop: int, max_bytes: int, final: bool) -> Slice:
    """Return the beginning of the range, a line for what is missing, and its end."""
    kept = max(start, spool.start)
    beginning = spool.head[start:kept]
    if len(beginning) + stop - kept <= max_bytes:
        # Nothing is cut: only what the spool has dropped is missing, if anything.
        if start + len(beginning) == kept:
            front, rear = beginning + spool.read(kept, stop), b""
        else:
            front, rear = beginning, _rear(spool, kept, stop, max_bytes)
    else:
        front = beginning[: max_bytes // 2]
        if start + len(front) == kept:
            front += spool.read(kept, start + max_bytes // 2)
        front = front[: front.rfind(b"\n") + 1] or front
        rear = _rear(spool, kept, stop, max_bytes - len(front))
    if start and front and 0x80 <= front[0] < 0xC0:
        before = spool.head[max(0, start - 3) : start] or spool.read(start - 3, start)
        front = front[_inside(before, front) :]
    if not rear and start + len(front) >= stop:
        text, used = utf_8_decode(front, "replace", final)
        return Slice(text, start + used, 0)
    one, used_front = utf_8_decode(front, "replace", False)
    two, used_rear = utf_8_decode(rear, "replace", final)
    cursor = stop - len(rear) + used_rear
    omitted = cursor - start - used_front - used_rear
    if omitted:
        one += ("\n" if one and not one.endswith("\n") else "") + left_out(omitted)
    return Slice(one + two, cursor, omitted)


def _rear(spool: Spool, start: int, stop: int, size: int) -> bytes:
    """Return at most the last `size` bytes of [start, stop), from a line start if there is one."""
    begin = max(start, stop - size)
    data = spool.read(begin, stop)
    begin = stop - len(data)
    if begin > spool.start:
        before = spool.read(begin - 3, begin)
        if begin > start and not before.endswith(b"\n"):
            line = data.find(b"\n") + 1
            if 0 < line < len(data):
                return data[line:]
        return data[_inside(before, data) :]
    if not begin:
        return data
    # What came before is gone: a character that began there cannot be told from junk.
    skip = 0
    while skip < min(3, len(data)) and 0x80 <= data[skip] < 0xC0:
        skip += 1
    return data[skip:]


def _inside(before: bytes, data: bytes) -> int:
    """Count the bytes at the start of `data` that belong to a character begun in `before`."""
    begun = unfinished(before)
    if not begun:
        return 0
    lead = before[-begun:]
    count = 0
    while count < min(3, len(data)):
        _, used = utf_8_decode(lead + data[: count + 1], "replace", False)
        if used == begun + count + 1:
            # Whole, and so it was one character, unless it broke off and junk was read instead.
            return count + 1 if 0x80 <= data[count] < 0xC0 else count
        if used:
            return count
        count += 1
    return count


def unfinished(data: bytes) -> int:
    """Count the bytes at the end of `data` that are a character not yet whole; three are enough."""
    for size in range(1, min(3, len(data)) + 1):
        byte = data[-size]
        if byte >= 0xC0:
            return size if utf_8_decode(data[-size:], "replace", False)[1] == 0 else 0
        if byte < 0x80:
            return 0
    return 0
