"""All of a result that was cut, as a file with a name.

Rules: nothing is written before somebody was given less than there is. The file of a spool that has
everything is only given a name; whatever else is written once, within the disk that all spools
share. The file is the spool's: it goes when the spool is closed. What cannot be saved costs the
name, never the answer. Of an output of which the oldest was dropped, the beginning and the newest are
saved, with one line between them. Sections 3, `truncated`, and 11.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from .saved import Folder, Saved
from .spool import Spool
from .text import left_out

__all__ = ["save"]

_MOST = 16_777_216
"""How much is written while everybody waits: some milliseconds."""

_PIECE = 1_048_576


def save(spool: Spool, text: str | None = None) -> Saved | None:
    """Save `text`, or without one all that `spool` still has; the same file each time. None where
    there is no folder, or no room in it. To be called when no more output will come."""
    if spool.saved is None and spool.folder is not None:
        spool.saved = _save(spool, spool.folder, text)
    return spool.saved


def _save(spool: Spool, folder: Folder, text: str | None) -> Saved | None:
    if text is not None:
        data = text.encode("utf-8", "replace")
        return _written(spool, folder, iter((data,)), len(data), 0)
    if spool.is_whole:
        try:
            return Saved(folder, spool.name_file(folder.link), spool.lend())
        except OSError:
            return None
    start = max(spool.start, spool.end - _MOST)
    head = spool.head or spool.read(0, min(start, _PIECE >> 5))
    missing = max(0, start - len(head))
    front = head[:start] if not missing else head + _line(head, missing)
    size = len(front) + spool.end - start
    return _written(spool, folder, _pieces(spool, front, start), size, missing)


def _line(head: bytes, missing: int) -> bytes:
    return (b"" if head.endswith(b"\n") else b"\n") + left_out(missing).encode()


def _pieces(spool: Spool, front: bytes, start: int) -> Iterator[bytes]:
    yield front
    for at in range(start, spool.end, _PIECE):
        piece = spool.read(at, at + _PIECE)
        if spool.start > at:
            raise OSError("the spool has lost what is to be saved")
        yield piece


def _written(
    spool: Spool, folder: Folder, pieces: Iterator[bytes], size: int, omitted: int
) -> Saved | None:
    if size > spool.budget.free:
        return None
    try:
        fd = folder.open()
    except OSError:
        return None
    try:
        for piece in pieces:
            view = memoryview(piece)
            while view:
                view = view[os.write(fd, view) :]
        path = folder.link(fd)
    except OSError:
        return None
    finally:
        os.close(fd)
    return Saved(folder, path, spool.budget.take(size), omitted)
