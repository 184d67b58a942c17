"""Files below the root, for mediated tools: blocking, so each call runs in a thread.

A file is pinned beneath the root; the rules decide on the pinned file's path. `delete`, `rename`
and a new file follow no link. Only regular files are opened.
"""

from __future__ import annotations

import base64
import binascii
import errno
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import msgspec

from haft_protocol.errors import shown
from haftd.host.files import beneath
from haftd.tools.definitions.access import Right

from .decisions import HostAccess, join_root, make_relative, require_move, require_right
from .messages import HostCallError, Kind

MAX_READ = 4 << 20
"""Bytes of one read or write."""
_MAX_OFFSET = 1 << 62
"""Beyond the size of any file, and below what the kernel refuses, 2^63 less the length."""
MAX_ENTRIES = 10_000
"""Entries of a listing, beyond which it is `truncated`."""
_MAX_TRIES = 16
"""Attempts to write a file that others make and remove meanwhile."""
_MAX_NEW_FOLDERS = 64
"""Folders that `parents` makes for one file."""

Encoding = Literal["utf-8", "base64"]

_KINDS: dict[int, tuple[Kind, str]] = {
    errno.ENOENT: ("not_found", "does not exist"),
    errno.ENOTDIR: ("not_a_folder", "is not a folder, or lies below a file"),
    errno.EISDIR: ("not_a_file", "is a folder"),
    errno.EEXIST: ("exists", "exists already"),
    errno.ENOTEMPTY: ("not_empty", "is a folder with files in it"),
    errno.EXDEV: ("denied", "leads out of the root, or to another file system"),
    errno.ELOOP: ("denied", "is a link that is not followed"),
    errno.EACCES: ("denied", "is not permitted to haft's user"),
    errno.EPERM: ("denied", "is not permitted to haft's user"),
    errno.EROFS: ("denied", "is on a read-only file system"),
    errno.ENAMETOOLONG: ("invalid", "has a name that is too long"),
    errno.ENXIO: ("not_a_file", "is not a regular file"),
}


class Read(msgspec.Struct, forbid_unknown_fields=True):
    path: str
    offset: int = 0
    length: int | None = None
    encoding: Encoding = "utf-8"


class Write(msgspec.Struct, forbid_unknown_fields=True):
    path: str
    content: str
    encoding: Encoding = "utf-8"
    mode: Literal["replace", "create", "append"] = "replace"
    """`create` requires a new file; `append` and `replace` make one if there is none."""
    parents: bool = False


class Place(msgspec.Struct, forbid_unknown_fields=True):
    path: str = "."


class Metadata(msgspec.Struct, forbid_unknown_fields=True):
    path: str
    follow: bool = True


class Rename(msgspec.Struct, forbid_unknown_fields=True, rename={"source": "from", "target": "to"}):
    source: str
    target: str
    overwrite: bool = False


class Pinned(msgspec.Struct, frozen=True):
    """`O_PATH` descriptor, with the path relative to the root."""

    fd: int
    path: str


class Files:
    """File operations of one call, each within `use`. Results are as in docs/mediated-tools.md;
    each raises `HostCallError`."""

    def __init__(self, access: HostAccess) -> None:
        self.access = access
        self._root = -1
        self._users = 0
        self._is_closed = False
        self._lock = threading.Lock()

    def open(self) -> None:
        """Pin the root; raises OSError."""
        self._root = os.open(self.access.root, os.O_PATH | os.O_DIRECTORY)

    def close(self) -> None:
        """Close the root, or have the last thread that uses it close it."""
        with self._lock:
            self._is_closed = True
            self._close_unused()

    @contextmanager
    def use(self) -> Iterator[None]:
        """Keep the root open meanwhile, as its descriptor's number could be reused. Raises `HostCallError`
        after `close`."""
        with self._lock:
            if self._is_closed:
                raise HostCallError("failed", "The tool has ended.")
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                self._close_unused()

    def _close_unused(self) -> None:
        if self._is_closed and not self._users and self._root >= 0:
            os.close(self._root)
            self._root = -1

    def read(self, params: Read) -> dict[str, Any]:
        if not 0 <= params.offset < _MAX_OFFSET or (
            params.length is not None and params.length < 0
        ):
            raise HostCallError(
                "invalid", "`offset` and `length` are 0 or more, `offset` below 2^62."
            )
        if params.length is not None and params.length > MAX_READ:
            raise HostCallError("too_large", f"One read returns at most {MAX_READ} bytes.")
        with (
            self._open_file(params.path, "read", os.O_RDONLY) as (fd, path),
            _explain_errors(path),
        ):
            size = os.fstat(fd).st_size
            wanted = MAX_READ + 1 if params.length is None else params.length
            data = _read(fd, params.offset, wanted)
            if len(data) > MAX_READ:
                raise HostCallError(
                    "too_large",
                    f"{shown(path)} has {size:,} bytes, and one read returns at most {MAX_READ:,}: give `offset` "
                    "and `length`.",
                )
        return {"content": encode(data, params.encoding, path), "size": size}

    def write(self, params: Write) -> dict[str, Any]:
        data = decode(params.content, params.encoding)
        if len(data) > MAX_READ:
            raise HostCallError(
                "too_large", f"One write takes at most {MAX_READ:,} bytes: continue with `append`."
            )
        if params.parents:
            self._make_folders(self._make_relative(params.path).rpartition("/")[0])
        for _ in range(_MAX_TRIES):
            if params.mode != "create" and self._update(params, data):
                return {"created": False}
            if self._create(params, data):
                return {"created": True}
        raise HostCallError(
            "failed", f"{shown(params.path)} is created and removed again and again."
        )

    def exists(self, params: Place) -> bool:
        try:
            with self._pin(params.path, "read"):
                return True
        except HostCallError as error:
            if error.kind in ("not_found", "not_a_folder"):
                return False
            raise

    def metadata(self, params: Metadata) -> dict[str, Any]:
        if params.follow or not self._make_relative(params.path):
            with self._pin(params.path, "read") as pinned:
                return _describe(os.fstat(pinned.fd))
        with self._pin_parent(params.path) as (folder, name, path):
            require_right(self.access, "read", path)
            with _explain_errors(path):
                fd = beneath.pin(folder, name, follow=False)
        try:
            return _describe(os.fstat(fd))
        finally:
            os.close(fd)

    def list_dir(self, params: Place) -> dict[str, Any]:
        entries: list[dict[str, str]] = []
        unnameable = 0
        with self.open_folder(params.path) as (fd, _), os.scandir(fd) as scanned:
            for entry in scanned:
                if len(entries) == MAX_ENTRIES:
                    return {"entries": _sort(entries), "truncated": True}
                if is_text(entry.name):
                    entries.append({"name": entry.name, "kind": find_kind(entry)})
                else:
                    unnameable += 1
        more = {"unnameable": unnameable} if unnameable else {}
        return {"entries": _sort(entries), **more}

    def delete(self, params: Place) -> dict[str, Any]:
        with self._pin_parent(params.path) as (folder, name, path):
            require_right(self.access, "delete", path)
            with _explain_errors(path):
                try:
                    os.unlink(name, dir_fd=folder)
                except IsADirectoryError:
                    os.rmdir(name, dir_fd=folder)
        return {}

    def rename(self, params: Rename) -> dict[str, Any]:
        with (
            self._pin_parent(params.source) as (old_folder, old_name, source),
            self._pin_parent(params.target) as (new_folder, new_name, target),
        ):
            require_move(self.access, source, target)
            if params.overwrite:
                require_right(self.access, "update", target)
                require_right(self.access, "delete", target)
            with _explain_errors(target if params.overwrite else f"{source} or {target}"):
                try:
                    beneath.rename(
                        old_folder, old_name, new_folder, new_name, replace=params.overwrite
                    )
                except FileNotFoundError:
                    raise HostCallError("not_found", f"{shown(source)} does not exist.") from None
                except FileExistsError:
                    raise HostCallError(
                        "exists", f"{shown(target)} exists already: `overwrite` would replace it."
                    ) from None
        return {}

    def working_folder(self, path: str) -> str:
        """Return a folder's real absolute path below the root, without a decision on it."""
        relative = self._make_relative(path)
        with _explain_errors(relative):
            fd = beneath.pin(self._root, relative, is_folder=True)
            try:
                return beneath.real_path(fd)
            finally:
                os.close(fd)

    @contextmanager
    def open_folder(self, path: str) -> Iterator[tuple[int, str]]:
        """Open a folder whose reading is permitted; yield the descriptor and the real relative path."""
        with self._pin(path, "read") as pinned:
            if not stat.S_ISDIR(os.fstat(pinned.fd).st_mode):
                raise HostCallError("not_a_folder", f"{shown(pinned.path)} is not a folder.")
            with _explain_errors(pinned.path):
                fd = beneath.reopen(pinned.fd, os.O_RDONLY | os.O_DIRECTORY)
            try:
                yield fd, pinned.path
            finally:
                os.close(fd)

    @contextmanager
    def open_file(self, path: str) -> Iterator[tuple[int, str]]:
        """Open a regular file whose reading is permitted; yield as `open_folder` does."""
        with self._open_file(path, "read", os.O_RDONLY) as opened:
            yield opened

    @contextmanager
    def _open_file(self, path: str, right: Right, flags: int) -> Iterator[tuple[int, str]]:
        with self._pin(path, right) as pinned:
            mode = os.fstat(pinned.fd).st_mode
            if not stat.S_ISREG(mode):
                file_type = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
                raise HostCallError("not_a_file", f"{shown(pinned.path)} is {file_type}.")
            with _explain_errors(pinned.path):
                fd = beneath.reopen(pinned.fd, flags)
            try:
                yield fd, pinned.path
            finally:
                os.close(fd)

    @contextmanager
    def _pin(self, path: str, right: Right) -> Iterator[Pinned]:
        """Pin an existing file or folder and require the right on its real path; none of the kernel's
        state."""
        relative = self._make_relative(path)
        try:
            fd = beneath.pin(self._root, relative)
        except OSError as error:
            # The rules come first: an error must not reveal ungranted places.
            require_right(self.access, right, self._find_real_of_missing(relative))
            raise _translate(error, relative) from None
        try:
            with _explain_errors(relative):
                real = self._find_relative(fd)
            require_right(self.access, right, real)
            if beneath.is_of_kernel(fd):
                raise HostCallError(
                    "denied",
                    f"{shown(real)} is a file of the kernel that shows the daemon's state.",
                )
            yield Pinned(fd, real)
        finally:
            os.close(fd)

    @contextmanager
    def _pin_parent(self, path: str) -> Iterator[tuple[int, str, str]]:
        """Pin the folder above; yield its descriptor, the file's name, and the real relative path of the
        name. The root itself is denied."""
        relative = self._make_relative(path)
        above, _, name = relative.rpartition("/")
        if not name:
            raise HostCallError("denied", "The root itself cannot be moved, replaced or deleted.")
        try:
            fd = beneath.pin(self._root, above, is_folder=True)
        except OSError as error:
            if not self.access.policy.list_rights(join_root(self.access.root, relative)):
                require_right(self.access, "read", relative)
            raise _translate(error, above) from None
        try:
            with _explain_errors(above):
                real = self._find_relative(fd)
            if beneath.is_of_kernel(fd):
                raise HostCallError("denied", f"{shown(relative)} is a file of the kernel.")
            yield fd, name, f"{real}/{name}" if real else name
        finally:
            os.close(fd)

    def _make_relative(self, path: str) -> str:
        return make_relative(path, self.access.root)

    def _find_relative(self, fd: int) -> str:
        root, real = beneath.real_path(self._root).rstrip("/"), beneath.real_path(fd)
        if real == (root or "/"):
            return ""
        if not real.startswith(f"{root}/"):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return real[len(root) + 1 :]

    def _find_real_of_missing(self, relative: str) -> str:
        above, _, name = relative.rpartition("/")
        try:
            fd = beneath.pin(self._root, above, is_folder=True)
        except OSError:
            return relative
        try:
            real = self._find_relative(fd)
        except OSError:
            return relative
        finally:
            os.close(fd)
        return f"{real}/{name}" if real else name

    def _update(self, params: Write, data: bytes) -> bool:
        """Write to an existing file; return False if there is none."""
        flags = os.O_WRONLY | (os.O_APPEND if params.mode == "append" else 0)
        with self._pin_parent(params.path) as (folder, name, _):
            try:
                os.close(beneath.pin(folder, name, follow=False))
            except FileNotFoundError:
                return False
            except OSError as error:
                raise _translate(error, params.path) from None
        try:
            with self._open_file(params.path, "update", flags) as (fd, path), _explain_errors(path):
                if params.mode == "replace":
                    os.ftruncate(fd, 0)
                _write(fd, data)
        except HostCallError as error:
            if error.kind != "not_found":
                raise
            if self._is_link(params.path):
                raise HostCallError(
                    "denied", f"{shown(params.path)} is a link to a file that does not exist."
                ) from None
            return False
        return True

    def _is_link(self, path: str) -> bool:
        with self._pin_parent(path) as (folder, name, _):
            try:
                return stat.S_ISLNK(os.lstat(name, dir_fd=folder).st_mode)
            except FileNotFoundError:
                return False

    def _create(self, params: Write, data: bytes) -> bool:
        """Write a new file; return False if the name has been taken, and may be updated instead."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with self._pin_parent(params.path) as (folder, name, path):
            require_right(self.access, "create", path)
            try:
                fd = os.open(name, flags, 0o666, dir_fd=folder)
            except FileExistsError:
                if params.mode != "create":
                    return False
                raise HostCallError("exists", f"{shown(path)} exists already.") from None
            except OSError as error:
                raise _translate(error, path) from None
            try:
                with _explain_errors(path):
                    _write(fd, data)
            finally:
                os.close(fd)
        return True

    def _make_folders(self, relative: str) -> None:
        missing: list[str] = []
        while relative and len(missing) < _MAX_NEW_FOLDERS:
            try:
                os.close(beneath.pin(self._root, relative, is_folder=True))
                break
            except FileNotFoundError:
                missing.append(relative)
                relative = relative.rpartition("/")[0]
            except OSError as error:
                raise _translate(error, relative) from None
        for folder in reversed(missing):
            with self._pin_parent(folder) as (above, name, path):
                require_right(self.access, "create", path)
                try:
                    os.mkdir(name, dir_fd=above)
                except FileExistsError:
                    pass
                except OSError as error:
                    raise _translate(error, path) from None


def _read(fd: int, offset: int, most: int) -> bytes:
    data = bytearray()
    while len(data) < most:
        chunk = os.pread(fd, min(most - len(data), 1 << 20), offset + len(data))
        if not chunk:
            break
        data += chunk
    return bytes(data)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def encode(data: bytes, encoding: Encoding, path: str) -> str:
    """Return the data as text; raises `HostCallError` for other data than UTF-8."""
    if encoding == "base64":
        return base64.b64encode(data).decode()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise HostCallError(
            "not_text",
            f'{shown(path)} is not UTF-8 at byte {error.start}: read with `encoding` = "base64".',
        ) from None


def decode(text: str, encoding: Encoding) -> bytes:
    try:
        return base64.b64decode(text, validate=True) if encoding == "base64" else text.encode()
    except (binascii.Error, ValueError):
        raise HostCallError("invalid", f"The content is not {encoding}.") from None


def is_text(name: str) -> bool:
    """True if a file's name is UTF-8, as JSON needs."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def find_kind(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def _describe(status: os.stat_result) -> dict[str, Any]:
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
    return {
        "kind": kinds.get(stat.S_IFMT(status.st_mode), "other"),
        "size": status.st_size,
        "modified": status.st_mtime,
        "executable": bool(status.st_mode & 0o111) and stat.S_ISREG(status.st_mode),
    }


def _sort(entries: list[dict[str, str]]) -> list[dict[str, str]]:
    return sorted(entries, key=lambda entry: entry["name"])


@contextmanager
def _explain_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _translate(error, path) from None


def _translate(error: OSError, path: str) -> HostCallError:
    code = error.errno or 0
    if code in _KINDS:
        kind, clause = _KINDS[code]
        return HostCallError(kind, f"{shown(path or '.')} {clause}.")
    return HostCallError("failed", f"{shown(path or '.')}: {os.strerror(code).lower()}.")
