"""Upkeep of the files by which clients and the next daemon find this one.

Folders are locked against age cleaners; removed files are restored; another process's file stays.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import structlog
import trio

from haftd.config.options import Paths
from haftd.host.files import runtime_folder
from haftd.host.files.lockfile import DaemonLock, LockHeld
from haftd.host.recovery.journal import Journal
from haftd.rpc.transports.credentials import Credentials

_PATIENCE_S = 10.0
"""A login may remove the runtime folder briefly."""
_DRAIN_S = 1.0
"""Longest wait for connections to a removed socket to be accepted."""

log = structlog.get_logger("haftd.upkeep")

Serve = Callable[[socket.socket], Awaitable[None]]


class Listener:
    """Listening Unix socket, `owned` unless the service manager's; `close` unlinks only the own
    inode."""

    def __init__(self, path: Path, sock: socket.socket, *, owned: bool) -> None:
        self.path = path
        self.sock = sock
        self._owned = owned
        self._inode = runtime_folder.read_inode(path)
        self._scope = trio.CancelScope()

    def is_gone(self) -> bool:
        """True if the path is absent, or leads to another socket, at which no server listens."""
        inode = runtime_folder.read_inode(self.path)
        return inode is None or (inode != self._inode and runtime_folder.is_abandoned(self.path))

    def is_replaced(self) -> bool:
        """True if the path leads to another file, and that is no abandoned socket."""
        inode = runtime_folder.read_inode(self.path)
        return inode not in (None, self._inode) and not runtime_folder.is_abandoned(self.path)

    async def serve(self, serve: Serve) -> None:
        with self._scope:
            await serve(self.sock)

    async def retire(self) -> None:
        """Have pending connections accepted, for up to `_DRAIN_S`, then close."""
        pending = select.poll()
        pending.register(self.sock, select.POLLIN)
        try:
            with trio.move_on_after(_DRAIN_S):
                while pending.poll(0):
                    await trio.lowlevel.checkpoint()
        finally:
            self._scope.cancel()
            self.close()

    def close(self) -> None:
        """Unlink, then close: an open inode's number is not reused."""
        if self._owned:
            runtime_folder.unlink_inode(self.path, self._inode)
        self.sock.close()


class Upkeep:
    def __init__(
        self,
        paths: Paths,
        locks: Sequence[DaemonLock],
        journal: Journal,
        listeners: Sequence[Listener],
        credentials: Credentials | None = None,
    ) -> None:
        self.listeners = list(listeners)
        self.replaced = trio.Event()
        """Set when another process has taken a socket's path."""
        self._paths = paths
        self._lock, *self._state_locks = locks
        self._journal = journal
        self._credentials = credentials
        self._given_up = False
        self._folder = -1
        self._why = ""
        self._nursery: trio.Nursery | None = None
        self._serve: Serve | None = None
        self._lock_folder()

    def close(self) -> None:
        for listener in self.listeners:
            listener.close()
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    def listen(self, nursery: trio.Nursery, serve: Serve) -> None:
        """Serve each socket, also future sockets, in tasks of `nursery`."""
        self._nursery, self._serve = nursery, serve
        for listener in self.listeners:
            nursery.start_soon(listener.serve, serve)

    async def keep(self) -> str:
        """Restore removed files; return the reason after `_PATIENCE_S` without success."""
        while True:
            await runtime_folder.watch(self._list_watched(), lambda: not self._check_whole())
            with trio.move_on_after(_PATIENCE_S):
                await runtime_folder.watch(self._list_watched(), self._restore)
            if not self._restore():
                return self._why

    def _list_watched(self) -> list[Path]:
        locks = [lock.path for lock in (self._lock, *self._state_locks)]
        return [*locks, self._journal.path, *(listener.path for listener in self.listeners)]

    def _is_reachable(self) -> bool:
        return self._lock.is_in_place() and not any(
            listener.is_gone() for listener in self.listeners
        )

    def _is_recorded(self) -> bool:
        return (
            self._journal.is_in_place()
            and all(lock.is_in_place() for lock in self._state_locks)
            and (self._credentials is None or self._credentials.are_there(self._paths.runtime))
        )

    def _check_whole(self) -> bool:
        """Note a replaced socket; return True if no file must be restored."""
        self._note_replaced()
        return self._is_reachable() and (self._given_up or self._is_recorded())

    def _restore(self) -> bool:
        """Restore removed files; return True if clients can find this daemon."""
        if self._check_whole():
            return True
        gone = [
            str(path) for path in self._list_watched() if runtime_folder.read_inode(path) is None
        ]
        try:
            runtime_folder.prepare(Path(self._paths.runtime.folder), ours=self._paths.runtime.ours)
            self._lock.restore()
            self._rebind()
        except (
            OSError,
            runtime_folder.FolderRefused,
            runtime_folder.SocketInUse,
            LockHeld,
        ) as error:
            self._why = str(error)
            return False
        self._lock_folder()
        self._given_up = False
        try:
            self._record()
        except (OSError, runtime_folder.FolderRefused, LockHeld) as error:
            # For example a full disk or a lost network home.
            self._given_up = True
            log.warning("some removed files cannot be created again", paths=gone, reason=str(error))
        else:
            log.warning("removed files were created again", paths=gone)
        return True

    def _record(self) -> None:
        if not self._journal.is_in_place():
            self._journal.compact()
        if self._credentials is not None:
            self._credentials.write(self._paths.runtime)
        runtime_folder.prepare_state(Path(self._paths.state), ("spool", "calls"))
        for lock in self._state_locks:
            lock.restore()

    def _rebind(self) -> None:
        if self._nursery is None or self._serve is None:
            raise AssertionError("`listen` precedes `keep`")
        for place, listener in enumerate(self.listeners):
            if listener.is_gone():
                fresh = Listener(listener.path, runtime_folder.bind(listener.path), owned=True)
                self.listeners[place] = fresh
                self._nursery.start_soon(fresh.serve, self._serve)
                self._nursery.start_soon(listener.retire)

    def _note_replaced(self) -> None:
        for listener in self.listeners:
            if listener.is_replaced() and not self.replaced.is_set():
                self.replaced.set()
                log.warning(
                    "another process has replaced the socket with its own file, which is left alone, "
                    "and new clients do not reach this daemon, which ends when it has no more handles",
                    path=str(listener.path),
                    pid=os.getpid(),
                )

    def _lock_folder(self) -> None:
        held, self._folder = self._folder, -1
        if held >= 0:
            os.close(held)
        with contextlib.suppress(OSError):
            self._folder = runtime_folder.keep_from_cleaners(Path(self._paths.runtime.folder))
