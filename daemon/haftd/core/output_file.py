"""Named files of truncated results (docs/protocol.md, "Truncated").

A complete spool file gets a name; other content is written within the disk budget. A failed save
costs only the path.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from .spool import SavedFile, Spool, SpoolFolder
from .text import omission_line

_MAX_WRITTEN = 16_777_216
"""Bytes written while the loop is blocked: some milliseconds."""

_CHUNK = 1_048_576


def save_output(spool: Spool, text: str | None = None) -> SavedFile | None:
    """Save `text`, else all that `spool` has; return the same file each time.

    Call once the output is complete. None without a folder or free disk.
    """
    if spool.saved is None and spool.folder is not None:
        spool.saved = _save_file(spool, spool.folder, text)
    return spool.saved


def keep_file(spool: Spool, data: bytes, suffix: str = "") -> str | None:
    """Save data beside the output until `spool` is closed; return the path, None if impossible."""
    if spool.folder is None:
        return None
    saved = _write_file(spool, spool.folder, iter((data,)), len(data), 0, suffix)
    if saved is None:
        return None
    spool.extra_files = (*spool.extra_files, saved)
    return saved.path


def _save_file(spool: Spool, folder: SpoolFolder, text: str | None) -> SavedFile | None:
    if text is not None:
        data = text.encode("utf-8", "replace")
        return _write_file(spool, folder, iter((data,)), len(data), 0)
    if spool.is_whole:
        try:
            return SavedFile(folder, spool.link_file(folder.link), spool.transfer_disk())
        except OSError:
            return None
    start = max(spool.start, spool.end - _MAX_WRITTEN)
    head = spool.head or spool.read(0, min(start, _CHUNK >> 5))
    missing = max(0, start - len(head))
    front = head[:start] if not missing else head + _omission_line(head, missing)
    size = len(front) + spool.end - start
    return _write_file(spool, folder, _chunks(spool, front, start), size, missing)


def _omission_line(head: bytes, missing: int) -> bytes:
    return (b"" if head.endswith(b"\n") else b"\n") + omission_line(missing).encode()


def _chunks(spool: Spool, front: bytes, start: int) -> Iterator[bytes]:
    yield front
    for at in range(start, spool.end, _CHUNK):
        chunk = spool.read(at, at + _CHUNK)
        if spool.start > at:
            raise OSError("the spool has lost what is to be saved")
        yield chunk


def _write_file(
    spool: Spool,
    folder: SpoolFolder,
    chunks: Iterator[bytes],
    size: int,
    omitted: int,
    suffix: str = "",
) -> SavedFile | None:
    if size > spool.budget.free:
        return None
    try:
        fd = folder.open()
    except OSError:
        return None
    try:
        for chunk in chunks:
            view = memoryview(chunk)
            while view:
                view = view[os.write(fd, view) :]
        path = folder.link(fd, suffix)
    except OSError:
        return None
    finally:
        os.close(fd)
    return SavedFile(folder, path, spool.budget.take(size), omitted)
