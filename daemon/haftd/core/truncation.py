"""What each member of a batch may say, so that all of them together fit into a model's window.

Rules: the longest texts are cut first, down to one length for all that are cut; what is shorter
stays as it is. What stands for the missing bytes counts, too. A stopped handle's cut is said in
`truncated`, with the file that has all of it; a live one's in `omitted`, to be read again by `cursor`.
The replies that came in are not changed. Section 5, "Batches".
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

import msgspec

from haft_protocol.states import Base64, HandleState, Pending, Running, Stopped, Waiting, as_text

from .handles import Handle
from .text import cut_text, left_out

__all__ = ["MAX_BATCH_BYTES", "FindHandle", "size_limit", "truncate_batch"]

MAX_BATCH_BYTES = 2 * 1024 * 1024
"""Bytes of text in the replies of one batch."""

_LINE = len(left_out(1 << 62).encode())

FindHandle = Callable[[str, str, int], Handle | None]
"""The handle of this session, id and generation, if it is still there."""

_STATES = (Pending, Running, Waiting, Stopped)


def truncate_batch(
    results: Sequence[object], find: FindHandle, budget: int = MAX_BATCH_BYTES
) -> Generator[None, None, list[object]]:
    """Return the results of a batch, cut where all of them are too much, in steps."""
    sizes: list[int] = []
    for result in results:
        for state in _states(result):
            sizes += map(_size, _texts(state).values())
        yield
    if sum(sizes) <= budget:
        return list(results)
    most = size_limit(sizes, budget)
    return (yield from _all_cut(results, most, find))


def _all_cut(
    values: Sequence[object], most: int, find: FindHandle
) -> Generator[None, None, list[object]]:
    cut: list[object] = []
    for value in values:
        told = yield from _cut(value, most, find)
        cut.append(told)
    return cut


def _cut(value: Any, most: int, find: FindHandle) -> Generator[None, None, Any]:
    """What was given, as it is told with none of its texts longer than `most`."""
    if not any(_states(value)):
        return value
    told = msgspec.to_builtins(value, enc_hook=as_text)
    if isinstance(value, _STATES):
        for field, text in _texts(value).items():
            if _size(text) > most:
                _shorten(told, field, text, max(0, most - _LINE), find)
                yield
        return told
    for name, rows in _held(value):
        if name in told:
            told[name] = yield from _all_cut(rows, most, find)
    return told


def size_limit(sizes: Sequence[int], budget: int) -> int:
    """Return the most that each may have, so that all of them have at most `budget`."""
    left, most = budget, 0
    for at, size in enumerate(ordered := sorted(sizes)):
        most = left // (len(ordered) - at)
        if size > most:
            return most
        left -= size
    return ordered[-1] if ordered else most


def _held(result: object) -> Iterator[tuple[str, Any]]:
    """The lists in a result, by the names that they have on the wire."""
    if isinstance(result, msgspec.Struct):
        for field, name in zip(
            result.__struct_fields__, result.__struct_encode_fields__, strict=True
        ):
            if isinstance(rows := getattr(result, field), list | tuple):
                yield name, rows


def _states(result: object) -> Iterator[HandleState]:
    """The handle states in a result: it is one, or has a list of them."""
    if isinstance(result, _STATES):
        yield result
    else:
        for _, rows in _held(result):
            for row in rows:
                yield from _states(row)


def _texts(state: HandleState) -> dict[str, str]:
    """What a state says at length; half of what is bytes would be nothing."""
    said = {field: getattr(state, field, None) for field in ("result", "content")}
    return {
        field: text
        for field, text in said.items()
        if isinstance(text, str) and not isinstance(text, Base64)
    }


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _shorten(state: dict[str, Any], field: str, text: str, size: int, find: FindHandle) -> None:
    before = state.get("omitted", 0)
    told = state.get("truncated")
    missing = before if told is None else told["bytes"] - told["kept"]
    shorter, whole, kept = cut_text(text, size)
    lost = whole - kept
    line = left_out(missing)
    if missing and line in text and line not in shorter:
        # Both stretches are one now, and the line between them is no part of what was printed.
        lost -= len(line.encode())
        shorter = shorter.replace(left_out(whole - kept), left_out(lost + missing), 1)
        whole -= len(line.encode())
    state[field] = shorter
    handle = find(state["session"], state["id"], state["generation"])
    if state["state"] != "stopped" or (handle is not None and handle.is_output):
        state["omitted"] = before + lost
    if state["state"] == "stopped":
        saved = None if handle is None else handle.save()
        if told is None:
            told = {"bytes": whole, "kept": whole}
        state["truncated"] = {
            "bytes": told["bytes"],
            "kept": told["kept"] - lost,
            "path": None if saved is None else saved.path,
        }
        if saved is not None and saved.omitted:
            state["truncated"]["omitted"] = saved.omitted
