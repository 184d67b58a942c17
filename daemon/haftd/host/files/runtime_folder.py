"""The runtime folder, checks of owner and mode, and the socket inside.

A stale socket is probed, then unlinked, and only while the path leads to the same inode: a service
manager binds its own socket there. systemd-tmpfiles (tmpfiles.d(5)) skips a locked folder and
sticky files. Other age cleaners may remove them, so the files are watched as well.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import select
import socket
import stat as st
from collections.abc import Callable, Sequence
from pathlib import Path

import trio

from haftd.ownership import why_replaceable

MAX_SOCKET_PATH = 107
"""Bytes of a socket's path; the kernel's field has 108 with the NUL."""

_WRITABLE_BY_OTHERS = 0o002
_WRITABLE_BY_GROUP_OR_OTHERS = 0o022
_BACKLOG = 512
"""Connections that wait for `accept`: more than a burst of clients begins at once."""
_CHECK_S = 4.0
"""Between looks where the kernel reports no changes."""


Inode = tuple[int, int]
"""Device and number."""


class FolderRefused(Exception):
    """Unusable folder or path below; the message has reason and remedy."""


class SocketInUse(Exception):
    """A server answers at the path."""


def prepare(folder: Path, *, ours: bool = True) -> None:
    """Create or check the runtime folder; raise FolderRefused, OSError.

    `ours`: the mode is set to 0700; without it, a folder of the user's choice, perhaps a home, keeps
    its mode. A folder that others can write to is refused in both cases.
    """
    if not folder.is_absolute():
        raise FolderRefused(f"the runtime folder {folder} must be an absolute path")
    _make(folder)
    facts = folder.lstat()
    if st.S_ISLNK(facts.st_mode):
        raise FolderRefused(f"{folder} is a symbolic link; remove it, or name another folder")
    _check(folder, facts, _WRITABLE_BY_GROUP_OR_OTHERS)
    _check_parent(folder.parent, _WRITABLE_BY_GROUP_OR_OTHERS)
    _check_way(folder.parent)
    if ours and st.S_IMODE(facts.st_mode) != 0o700:
        folder.chmod(0o700)


def prepare_state(folder: Path, inner: Sequence[str]) -> None:
    """Create or check the state folder with these folders inside, and set their modes to 0700; raise
    FolderRefused, OSError.

    Each may be a link to a place that other users cannot write to, which keeps its mode. Homes may be open to a group of
    one member.
    """
    for place in (folder, *(folder / name for name in inner)):
        _make(place)
        _check_parent(place.parent, _WRITABLE_BY_OTHERS)
        facts = place.stat()
        linked = place.is_symlink()
        _check(place, facts, _WRITABLE_BY_OTHERS if linked else 0)
        _check_way(place if linked else place.parent)
        if not linked and st.S_IMODE(facts.st_mode) != 0o700:
            place.chmod(0o700)


def _make(folder: Path) -> None:
    try:
        for missing in reversed([folder, *folder.parents]):
            with contextlib.suppress(FileExistsError):
                missing.mkdir(mode=0o700)
    except NotADirectoryError:
        raise FolderRefused(f"{folder} cannot be created: a file is in the way") from None


def _check(folder: Path, facts: os.stat_result, closed_to: int) -> None:
    if not st.S_ISDIR(facts.st_mode):
        raise FolderRefused(f"{folder} is not a folder; remove it, or name another one")
    if facts.st_uid != os.geteuid():
        raise FolderRefused(
            f"{folder} belongs to user {facts.st_uid}, not to {os.geteuid()}; name another folder"
        )
    if facts.st_mode & closed_to:
        raise FolderRefused(
            f"{folder} can be written to by others (mode {st.S_IMODE(facts.st_mode):04o}); "
            + (
                "use a folder of your own"
                if facts.st_mode & st.S_ISVTX
                else f"check its content, then run: chmod 700 {folder}"
            )
        )


def _check_parent(parent: Path, closed_to: int) -> None:
    """Check the parent: its writers can replace the folder."""
    facts = parent.stat()
    if facts.st_mode & closed_to and not facts.st_mode & st.S_ISVTX:
        raise FolderRefused(
            f"{parent} can be written to by others and is not sticky "
            f"(mode {st.S_IMODE(facts.st_mode):04o}); name another folder"
        )
    if facts.st_uid not in (0, os.geteuid()):
        raise FolderRefused(f"{parent} belongs to user {facts.st_uid}; name another folder")


def _check_way(path: Path) -> None:
    if why := why_replaceable(str(path)):
        raise FolderRefused(f"{why}; name another folder")


def bind(path: Path, *, backlog: int = _BACKLOG) -> socket.socket:
    """Unlink a stale socket, then bind and listen at `path`, non-blocking; the caller holds
    `daemon.lock` and closes the socket.

    Raises FolderRefused for a path too long or of another file, SocketInUse when a server answers,
    OSError.
    """
    name = os.fsencode(path)
    if len(name) > MAX_SOCKET_PATH:
        raise FolderRefused(
            f"the socket path {path} has {len(name)} bytes, and {MAX_SOCKET_PATH} is the limit; set HAFT_SOCKET to a shorter one"
        )
    _clear(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        # The file gets the socket's mode, see unix(7); a umask is the whole process's.
        os.fchmod(listener.fileno(), 0o600)
        listener.bind(name)
        listener.listen(backlog)
    except BaseException:
        listener.close()
        raise
    return listener


def _clear(path: Path) -> None:
    try:
        facts = path.lstat()
    except FileNotFoundError:
        return
    if not st.S_ISSOCK(facts.st_mode):
        raise FolderRefused(
            f"{path} is not a socket; remove it, or set HAFT_SOCKET to another path"
        )
    # EAGAIN is a full backlog of a slow server.
    if _probe(path) in (0, errno.EAGAIN, errno.EINPROGRESS):
        raise SocketInUse(f"another server listens at {path}")
    unlink_inode(path, (facts.st_dev, facts.st_ino))


def is_abandoned(path: Path) -> bool:
    """True for a socket at which no server listens; connects to it."""
    try:
        return st.S_ISSOCK(path.lstat().st_mode) and _probe(path) == errno.ECONNREFUSED
    except OSError:
        return False


def _probe(path: Path) -> int:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
        return probe.connect_ex(os.fsencode(path))


def read_inode(path: Path) -> Inode | None:
    try:
        facts = path.lstat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def unlink_inode(path: Path, inode: Inode | None) -> None:
    """Unlink the path if it leads to `inode`. Raises OSError. The caller closes a socket afterwards: an
    open inode is not reused."""
    if inode is not None and read_inode(path) == inode:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


def keep_from_cleaners(folder: Path) -> int:
    """Lock the folder against age cleaners until the returned descriptor is closed."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    # Shared: excludes no other daemon.
    with contextlib.suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return fd


async def watch(paths: Sequence[Path], is_done: Callable[[], bool]) -> None:
    """Wait until `is_done`, which is called at once and at each change of the paths' folders or the
    mounts; every `_CHECK_S` where the kernel cannot report all of these."""
    if is_done():
        return
    with contextlib.ExitStack() as stack:
        watcher = _ChangeWatcher(paths)
        stack.callback(watcher.close)
        while not is_done():
            if watcher.complete:
                await trio.lowlevel.wait_readable(watcher.fileno())
            else:
                with trio.move_on_after(_CHECK_S):
                    await trio.lowlevel.wait_readable(watcher.fileno())
            watcher.clear()


# linux/inotify.h, described in inotify(7).
_IN_MOVED_FROM = 0x40
_IN_MOVED_TO = 0x80
_IN_CREATE = 0x100
_IN_DELETE = 0x200
_IN_DELETE_SELF = 0x400
_IN_MOVE_SELF = 0x800
_IN_ONLYDIR = 0x1000000
_OF_FOLDER = (
    _IN_MOVED_FROM | _IN_MOVED_TO | _IN_CREATE | _IN_DELETE | _IN_DELETE_SELF | _IN_MOVE_SELF
)
_OF_ANCESTOR = _IN_DELETE_SELF | _IN_MOVE_SELF


class _ChangeWatcher:
    """Readable after a change near the paths, for the caller to identify.

    The mount table reports changes by POLLPRI, which trio cannot await: hence the epoll.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._epoll = select.epoll()
        self._inotify = -1
        self._mounts = -1
        self.complete = False
        with contextlib.suppress(OSError):
            self._mounts = os.open("/proc/self/mountinfo", os.O_RDONLY)
            self._epoll.register(self._mounts, select.EPOLLPRI | select.EPOLLERR)
        with contextlib.suppress(OSError):
            self._watch(paths)
            self.complete = self._mounts >= 0

    def _watch(self, paths: Sequence[Path]) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._inotify = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._inotify < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._epoll.register(self._inotify, select.EPOLLIN)
        masks: dict[Path, int] = {}
        for path in paths:
            folder, *ancestors = path.parents
            masks[folder] = _OF_FOLDER
            for ancestor in ancestors:
                masks.setdefault(ancestor, _OF_ANCESTOR)
        for folder, mask in masks.items():
            if libc.inotify_add_watch(self._inotify, os.fsencode(folder), mask | _IN_ONLYDIR) < 0:
                raise OSError(ctypes.get_errno(), "inotify_add_watch")

    def fileno(self) -> int:
        return self._epoll.fileno()

    def clear(self) -> None:
        if self._inotify >= 0:
            with contextlib.suppress(BlockingIOError):
                while os.read(self._inotify, 65536):
                    pass
        self._epoll.poll(0)

    def close(self) -> None:
        self._epoll.close()
        for fd in (self._inotify, self._mounts):
            if fd >= 0:
                os.close(fd)
