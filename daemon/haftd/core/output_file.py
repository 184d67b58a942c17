"""Named files of truncated results (docs/protocol.md, "Truncated").

A complete spool file gets a name; other content is written within the disk budget. A failed save
costs only the path.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator

from .spool import SavedFile, Spool, SpoolFolder
from .text import omission_line

_MAX_WRITTEN = 16_777_216
"""Bytes of a file that is written."""

CHUNK = 1_048_576
"""Bytes written in one step: up to two milliseconds."""

Steps = Generator[None, None, SavedFile | None]
"""Yields between steps, for other tasks."""


def save_output(spool: Spool, text: str | None = None) -> Steps:
    """Save `text`, else all that `spool` has, in steps; return the same file each time.

    Call once the output is complete. None without a folder or free disk, or once the spool is
    closed.
    """
    if spool.saved is None and spool.folder is not None:
        yield from _save(spool, spool.folder, text)
    return spool.saved


def _save(spool: Spool, folder: SpoolFolder, text: str | None) -> Generator[None, None, None]:
    saved = yield from _save_file(spool, folder, text)
    if saved is None:
        return
    if spool.saved is None and spool.folder is not None:
        spool.saved = saved
    else:
        # Another call has saved it meanwhile, or the spool is closed.
        folder.unlink(saved.path)
        spool.budget.give(saved.reserved)


def finish(steps: Steps) -> SavedFile | None:
    """Take all steps in one call."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            saved: SavedFile | None = end.value
            return saved


def keep_file(spool: Spool, data: bytes, suffix: str = "") -> str | None:
    """Save data beside the output until `spool` is closed; return the path, None if impossible."""
    if spool.folder is None:
        return None
    saved = finish(_write_file(spool, spool.folder, iter((data,)), len(data), 0, suffix))
    if saved is None:
        return None
    spool.extra_files = (*spool.extra_files, saved)
    return saved.path


def _save_file(spool: Spool, folder: SpoolFolder, text: str | None) -> Steps:
    if text is not None:
        size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
        return (yield from _write_file(spool, folder, _encoded(text), size, 0))
    if spool.is_whole:
        try:
            return SavedFile(folder, spool.link_file(folder.link), spool.transfer_disk())
        except OSError:
            return None
    start = max(spool.start, spool.end - _MAX_WRITTEN)
    head = spool.head or spool.read(0, min(start, CHUNK >> 5))
    missing = max(0, start - len(head))
    front = head[:start] if not missing else head + _omission_line(head, missing)
    size = len(front) + spool.end - start
    return (yield from _write_file(spool, folder, _chunks(spool, front, start), size, missing))


def _encoded(text: str) -> Iterator[bytes]:
    for at in range(0, len(text), CHUNK):
        yield text[at : at + CHUNK].encode("utf-8", "replace")


def _omission_line(head: bytes, missing: int) -> bytes:
    return (b"" if head.endswith(b"\n") else b"\n") + omission_line(missing).encode()


def _chunks(spool: Spool, front: bytes, start: int) -> Iterator[bytes]:
    if front:
        yield front
    for at in range(start, spool.end, CHUNK):
        chunk = spool.read(at, at + CHUNK)
        if spool.start > at:
            raise OSError("the spool has lost the output to be saved")
        yield chunk


def _write_file(
    spool: Spool,
    folder: SpoolFolder,
    chunks: Iterator[bytes],
    size: int,
    omitted: int,
    suffix: str = "",
) -> Steps:
    if size > spool.budget.free:
        return None
    try:
        fd = folder.open()
    except OSError:
        return None
    try:
        for number, chunk in enumerate(chunks):
            if number:
                yield
            view = memoryview(chunk)
            while view:
                view = view[os.write(fd, view) :]
        path = folder.link(fd, suffix)
    except OSError:
        return None
    finally:
        os.close(fd)
    return SavedFile(folder, path, spool.budget.take(size), omitted)
