"""Search of files below the root by a regular expression (RE2), in a thread, within bounds."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from fnmatch import translate
from typing import Any

import msgspec

from haft_protocol.patterns import InvalidPattern
from haftd.host.files import beneath
from haftd.regex import Pattern, compile_expression, find_match

from .decisions import join_root
from .files import Files, find_kind, is_text
from .messages import HostCallError

MAX_MATCHES = 1000
MAX_FILES = 20_000
"""Files and folders that are looked at."""
_MAX_BYTES = 256 << 20
"""Bytes of all files together, exceeded by up to one file."""
_MAX_FILE = 16 << 20
"""Bytes of one file; its rest is not searched."""
_PIECE = 1 << 20
"""Bytes searched in one thread call: seconds for the slowest expressions."""
_MAX_LINE = 500
"""Bytes of a line in the result."""
MAX_NAME = 255
"""Characters of a name pattern, the length of names: a much longer pattern takes minutes to compile."""
_MAX_DEPTH = 64
"""Levels of folders; deeper ones are not searched."""
_MAX_S = 10.0
"""Longest search; a call waits meanwhile, and a thread is taken."""


class Grep(msgspec.Struct, forbid_unknown_fields=True):
    pattern: str
    path: str = "."
    name: str = "*"
    """Pattern of files' names, as `*.py`."""
    ignore_case: bool = False
    limit: int = 200


class Search:
    """One search. `is_over`, called between files and pieces, returns True once the caller is gone,
    so that an abandoned thread ends. Binary files, with a NUL in their first 8 KiB, are skipped."""

    def __init__(self, files: Files, params: Grep, is_over: Callable[[], bool]) -> None:
        self._files = files
        self._params = params
        self._is_over = is_over
        self._fits: Callable[[str], object] = lambda name: None
        self._matches: list[dict[str, Any]] = []
        self._seen = 0
        self._bytes = 0
        self._until = time.monotonic() + _MAX_S

    def run(self) -> dict[str, Any]:
        """Return `matches`, in the order of names, and in `truncated` the bound that has ended the
        search. Raises `HostCallError`."""
        params = self._params
        if not 1 <= params.limit <= MAX_MATCHES:
            raise HostCallError("invalid", f"`limit` must be a number from 1 to {MAX_MATCHES}.")
        source = f"(?i){params.pattern}" if params.ignore_case else params.pattern
        try:
            pattern = compile_expression(source, within_lines=True)
        except InvalidPattern as error:
            raise HostCallError("invalid", f"`pattern` is not an expression: {error}.") from None
        if len(params.name) > MAX_NAME:
            raise HostCallError("invalid", f"`name` must have at most {MAX_NAME} characters.")
        self._fits = re.compile(translate(params.name)).match
        why = self._search(pattern)
        return {"matches": self._matches, **({"truncated": why} if why else {})}

    def _search(self, pattern: Pattern) -> str:
        try:
            with self._files.open_folder(self._params.path) as (fd, path):
                return self._search_folder(fd, path, pattern, 0)
        except HostCallError as error:
            if error.kind != "not_a_folder":
                raise
        with self._files.open_file(self._params.path) as (fd, path):
            return self._search_file(fd, path, pattern)

    def _search_folder(self, folder: int, path: str, pattern: Pattern, depth: int) -> str:
        access = self._files.access
        for name, kind in _list_entries(folder):
            if why := self._find_passed():
                return why
            inner = f"{path}/{name}" if path else name
            is_folder = kind == "folder"
            if not is_folder and (kind != "file" or not self._fits(name)):
                continue
            if not access.policy.may_read(join_root(access.root, inner)) or depth > _MAX_DEPTH:
                continue
            fd = _open(folder, name, is_folder=is_folder)
            if fd is None:
                continue
            try:
                if is_folder:
                    why = self._search_folder(fd, inner, pattern, depth + 1)
                else:
                    why = self._search_file(fd, inner, pattern)
            finally:
                os.close(fd)
            if why:
                return why
        return ""

    def _find_passed(self) -> str:
        """Count an entry; return the bound that is exceeded, or the empty string."""
        self._seen += 1
        if self._seen > MAX_FILES:
            return "files"
        if self._bytes > _MAX_BYTES:
            return "bytes"
        return self._find_timeout()

    def _find_timeout(self) -> str:
        return "time" if self._is_over() or time.monotonic() > self._until else ""

    def _search_file(self, fd: int, path: str, pattern: Pattern) -> str:
        offset, number, rest, before = 0, 1, b"", b""
        while offset < _MAX_FILE and (data := os.pread(fd, _PIECE, offset)):
            if offset == 0 and b"\0" in data[:8192]:
                return ""
            offset += len(data)
            self._bytes += len(data)
            lines, end, rest = (rest + data).rpartition(b"\n")
            is_cut = not end and len(rest) > _PIECE
            if is_cut:
                lines, rest = rest, b""
            piece = lines + end
            if (
                why := self._search_lines(
                    before + piece, path, number, pattern, len(before), is_cut=is_cut
                )
                or self._find_timeout()
            ):
                return why
            number += lines.count(b"\n") + len(end)
            if piece:
                before = piece[-1:] if is_cut else b""
        return self._search_lines(before + rest, path, number, pattern, len(before))

    def _search_lines(
        self,
        data: bytes,
        path: str,
        number: int,
        pattern: Pattern,
        pos: int = 0,
        *,
        is_cut: bool = False,
    ) -> str:
        """Search `data` from `pos` on; if it `is_cut`, its last line goes on."""
        at, counted = pos, 0
        carried = len(data) + 1 if is_cut else None
        while at < len(data) and (match := find_match(pattern, data, at, carried)) is not None:
            begin = max(pos, data.rfind(b"\n", 0, match[0]) + 1)
            if begin == len(data):
                break  # no line follows the last line end
            end = data.find(b"\n", match[0])
            end = len(data) if end < 0 else end
            number += data.count(b"\n", counted, begin)
            counted = begin
            text = data[begin:end][:_MAX_LINE].decode(errors="replace")
            self._matches.append({"path": path, "line": number, "text": text})
            if len(self._matches) == self._params.limit:
                return "limit"
            at = end + 1
        return ""


def _list_entries(folder: int) -> Iterator[tuple[str, str]]:
    """Yield names and kinds, by name; names that are not UTF-8 are left out."""
    with os.scandir(folder) as scanned:
        entries = [(entry.name, find_kind(entry)) for entry in scanned if is_text(entry.name)]
    yield from sorted(entries)


def _open(folder: int, name: str, *, is_folder: bool) -> int | None:
    """Open a file or folder for reading, without following a link; None for another kind of file, a file of
    the kernel, and one that cannot be opened."""
    try:
        pinned = beneath.pin(folder, name, follow=False)
    except OSError:
        return None
    try:
        mode = os.fstat(pinned).st_mode
        fits = stat.S_ISDIR(mode) if is_folder else stat.S_ISREG(mode)
        if not fits or beneath.is_of_kernel(pinned):
            return None
        return beneath.reopen(pinned, os.O_RDONLY | (os.O_DIRECTORY if is_folder else 0))
    except OSError:
        return None
    finally:
        os.close(pinned)
