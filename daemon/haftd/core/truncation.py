"""Bound a batch's replies: its texts are cut, the longest, all to one length; all else is counted,
and screens are left out once there is no room.

A stopped handle's cut is reported in `truncated`, a live one's in `omitted` (docs/protocol.md,
"Calling tools").
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from haft_protocol.errors import limit_exceeded
from haft_protocol.methods import CalledText
from haft_protocol.states import (
    Base64,
    HandleState,
    Pending,
    Running,
    Stopped,
    Truncated,
    Waiting,
)

from .handles import Handle
from .search import MAX_BATCHED, LineBudget
from .text import cut_text, omission_line

MAX_BATCH_BYTES = 2 * 1024 * 1024
"""Bytes of text in a batch's replies."""

MAX_UNCUT_BYTES = 8 * 1024 * 1024
"""Bytes of text at which a batch that is not whole yet is truncated."""

MAX_BATCH_REPLY = 32 * 1024 * 1024
"""Bytes of a batch's replies that are not cut, above which no further lists and screens are sent."""

_MAX_SPENT_TEXT = 8_000
"""Bytes of a text for a model, a screen among them, where a batch has no more room: those of its output."""

_MAX_READ = 16 * 1024 * 1024
"""Bytes that all reads of a batch take, before their texts are truncated."""

_MIN_READ = 65_536
"""Bytes that each read may take: its default."""

_LINE = len(omission_line(1 << 62).encode())

_LIMIT: Final = "max_batch_reply"

FindHandle = Callable[[str, str, int], Handle | None]
"""Look up a handle by session, id and generation."""

_STATES = (Pending, Running, Waiting, Stopped)


class Paint(Base64):
    """The content of the view `paint`, a screen."""

    __slots__ = ()


class BatchBudget:
    """Room that the replies of a batch still have: for `lines` of searches, and for all that is not cut.

    >>> budget = BatchBudget()
    >>> budget.add(MAX_BATCH_REPLY - 1), budget.is_spent
    (None, False)
    >>> budget.add(1), budget.is_spent
    (None, True)
    """

    __slots__ = ("_size", "lines")

    def __init__(self) -> None:
        self.lines = LineBudget(MAX_BATCHED)
        self._size = 0

    def add(self, size: int) -> None:
        self._size += size

    @property
    def is_spent(self) -> bool:
        return self._size >= MAX_BATCH_REPLY

    def check(self) -> None:
        """Raise `limit_exceeded` once the room is spent."""
        if self.is_spent:
            raise limit_exceeded(
                _LIMIT,
                MAX_BATCH_REPLY,
                "Nothing was done, as the replies of this batch are too long together; send this "
                "request alone",
            )


def batch_read_size(requests: int) -> int:
    """Return the bytes that each read of a batch of so many requests may take.

    >>> batch_read_size(2), batch_read_size(16), batch_read_size(256)
    (2097152, 1048576, 65536)
    """
    return max(_MIN_READ, min(MAX_BATCH_BYTES, _MAX_READ // requests))


def truncate_batch(
    results: Sequence[object], find: FindHandle, budget: int = MAX_BATCH_BYTES
) -> Generator[None, None, list[object]]:
    """Return the results, truncated to `budget`; yields for other tasks."""
    sizes: list[int] = []
    for result in results:
        sizes += _sizes(result)
        yield
    if sum(sizes) <= budget:
        return list(results)
    most = size_limit(sizes, budget)
    return (yield from _all_cut(results, most, find))


def text_size(result: object) -> int:
    """Return the bytes of a result's texts, which a batch may cut."""
    return sum(_sizes(result))


def without_texts(result: Any) -> Any:
    """Return a result with those texts empty that a batch may cut; the same object if it has none."""
    if isinstance(result, _STATES):
        texts = {field: "" for field, text in _texts(result).items() if text}
        return replace(result, **texts) if texts else result
    if not any(_states(result)):
        return result
    lists = {field: type(rows)(map(without_texts, rows)) for field, rows in _lists_of(result)}
    return replace(result, **lists) if text_size(result) else result


def without_screen(result: Any) -> Any:
    """Return a result without its screen, in a batch without room; the same object if it has none."""
    if isinstance(result, _STATES):
        changed: dict[str, Any] = {}
        if result.screen is not UNSET:
            changed["screen"] = UNSET
        if isinstance(result.content, Paint):
            changed["content"] = ""
        return replace(result, **changed, limit=_LIMIT) if changed else result
    if isinstance(result, CalledText):
        text, size, kept = cut_text(result.text, _MAX_SPENT_TEXT)
        return replace(result, text=text) if kept < size else result
    return result


def _sizes(result: object) -> Iterator[int]:
    for state in _states(result):
        yield from map(_size, _texts(state).values())


def _all_cut(
    values: Sequence[object], most: int, find: FindHandle
) -> Generator[None, None, list[object]]:
    cut: list[object] = []
    for value in values:
        shortened = yield from _cut(value, most, find)
        cut.append(shortened)
    return cut


def _cut(value: Any, most: int, find: FindHandle) -> Generator[None, None, Any]:
    if not any(_states(value)):
        return value
    if isinstance(value, _STATES):
        for field, text in _texts(value).items():
            if _size(text) > most:
                handle = find(value.session, value.id, value.generation)
                if handle is not None and handle.stopped:
                    yield from handle.save_in_steps()
                value = _shortened(value, field, text, max(0, most - _LINE), handle)
                yield
        return value
    lists: dict[str, Any] = {}
    for field, rows in _lists_of(value):
        if rows:
            lists[field] = type(rows)((yield from _all_cut(rows, most, find)))
    return replace(value, **lists)


def size_limit(sizes: Sequence[int], budget: int) -> int:
    """Return the size limit of each text at which all together have `budget`."""
    left, most = budget, 0
    for at, size in enumerate(ordered := sorted(sizes)):
        most = left // (len(ordered) - at)
        if size > most:
            return most
        left -= size
    return ordered[-1] if ordered else most


def _lists_of(result: object) -> Iterator[tuple[str, Any]]:
    if isinstance(result, msgspec.Struct):
        for field in result.__struct_fields__:
            if isinstance(rows := getattr(result, field), list | tuple):
                yield field, rows


def _states(result: object) -> Iterator[HandleState]:
    if isinstance(result, _STATES):
        yield result
    else:
        for _, rows in _lists_of(result):
            for row in rows:
                yield from _states(row)


def _texts(state: HandleState) -> dict[str, str]:
    texts = {field: getattr(state, field, None) for field in ("result", "content", "output")}
    return {
        field: text
        for field, text in texts.items()
        if isinstance(text, str) and not isinstance(text, Base64)
    }


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _shortened(
    state: HandleState, field: str, text: str, size: int, handle: Handle | None
) -> HandleState:
    before = state.omitted
    shorter, whole, kept = cut_text(text, size)
    if field == "output":
        return replace(state, output=shorter, omitted=before + whole - kept)
    truncated = state.truncated or None if isinstance(state, Stopped) else None
    missing = before if truncated is None else truncated.bytes - truncated.kept
    lost = whole - kept
    line = omission_line(missing)
    if missing and line in text and line not in shorter:
        # The two gaps are one now; the line between them is not output.
        lost -= len(line.encode())
        shorter = shorter.replace(omission_line(whole - kept), omission_line(lost + missing), 1)
        whole -= len(line.encode())
    changed: dict[str, Any] = {field: shorter}
    termination = None if handle is None else handle.termination
    if not isinstance(state, Stopped) or (termination is not None and termination.is_output):
        changed["omitted"] = before + lost
    if isinstance(state, Stopped):
        saved = None if handle is None else handle.save()
        size, kept = (whole, whole) if truncated is None else (truncated.bytes, truncated.kept)
        changed["truncated"] = Truncated(
            bytes=size,
            kept=kept - lost,
            path=None if saved is None else saved.path,
            omitted=0 if saved is None else saved.omitted,
        )
    return replace(state, **changed)
