"""Keep the files by which clients and the next daemon find this one, for as long as it serves.

Rules: what an age cleaner would take is kept from it. What is gone is made again: first what clients find the
daemon by (the runtime folder, `daemon.lock`, the socket), then what the next daemon finds, which may fail: it is
tried again with the next loss. A path that leads to another's file is left alone, unless
the file is a socket without a server, as in a runtime folder that was put back from elsewhere. A
handle is ended for none of this while anybody can still reach it.
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
"""At a new login the runtime folder is gone for a moment before it is made again."""
_DRAIN_S = 1.0

log = structlog.get_logger("haftd.upkeep")

Serve = Callable[[socket.socket], Awaitable[None]]


class Listener:
    """A listening Unix socket with the inode that its path leads to; `close` unlinks only that one.

    A socket that a service manager has bound is not `owned`: its file is the manager's.
    """

    def __init__(self, path: Path, sock: socket.socket, *, owned: bool) -> None:
        self.path = path
        self.sock = sock
        self._owned = owned
        self._inode = runtime_folder.inode_of(path)
        self._scope = trio.CancelScope()

    def is_gone(self) -> bool:
        """Return whether the path can be bound again: nothing is there, or a socket without a server."""
        inode = runtime_folder.inode_of(self.path)
        return inode is None or (inode != self._inode and runtime_folder.is_abandoned(self.path))

    def is_replaced(self) -> bool:
        """Return whether the path leads to a file of another process, a served socket for instance."""
        inode = runtime_folder.inode_of(self.path)
        return inode not in (None, self._inode) and not runtime_folder.is_abandoned(self.path)

    async def serve(self, serve: Serve) -> None:
        """Accept connections until cancelled or retired."""
        with self._scope:
            await serve(self.sock)

    async def retire(self) -> None:
        """Have what has connected already accepted, then close: nobody finds the socket any more."""
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
        """Unlink and close; the file's inode number is not used again before it is closed."""
        if self._owned:
            runtime_folder.unlink_inode(self.path, self._inode)
        self.sock.close()


class Upkeep:
    """The files of a running daemon."""

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
        """Set when another's file is at the path of a socket: new clients do not reach this daemon."""
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
        """Close the sockets, and let go of the folder."""
        for listener in self.listeners:
            listener.close()
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    def listen(self, nursery: trio.Nursery, serve: Serve) -> None:
        """Have `serve` accept from each socket, in tasks of `nursery`; also from those of later on."""
        self._nursery, self._serve = nursery, serve
        for listener in self.listeners:
            nursery.start_soon(listener.serve, serve)

    async def keep(self) -> str:
        """Make again what is removed; return why clients cannot find this daemon for ten seconds now."""
        while True:
            await runtime_folder.watch(self._watched(), lambda: not self._is_whole())
            with trio.move_on_after(_PATIENCE_S):
                await runtime_folder.watch(self._watched(), self._restore)
            if not self._restore():
                return self._why

    def _watched(self) -> list[Path]:
        locks = [lock.path for lock in (self._lock, *self._state_locks)]
        return [*locks, self._journal.path, *(listener.path for listener in self.listeners)]

    def _is_reachable(self) -> bool:
        return self._lock.is_in_place() and not any(one.is_gone() for one in self.listeners)

    def _is_recorded(self) -> bool:
        """Say whether the next daemon would find what this one holds and keep away from it, and a client
        what it shows at the WebSocket."""
        return (
            self._journal.is_in_place()
            and all(one.is_in_place() for one in self._state_locks)
            and (self._credentials is None or self._credentials.are_there(self._paths.runtime))
        )

    def _is_whole(self) -> bool:
        self._note_replaced()
        return self._is_reachable() and (self._given_up or self._is_recorded())

    def _restore(self) -> bool:
        """Make again what is gone; return whether clients find this daemon."""
        if self._is_whole():
            return True
        gone = [str(path) for path in self._watched() if runtime_folder.inode_of(path) is None]
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
            # A full disk, a home that the network lost: no reason to end anything.
            self._given_up = True
            log.warning("what was removed cannot all be made again", paths=gone, reason=str(error))
        else:
            log.warning("what was removed is made again", paths=gone)
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
            raise AssertionError("what is kept is served")
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
                    "another process has put its own file in the place of the socket; it is left alone, "
                    "and new clients do not reach this daemon, which ends when nothing is held any more",
                    path=str(listener.path),
                    pid=os.getpid(),
                )

    def _lock_folder(self) -> None:
        """Lock the folder that is there now against cleaners."""
        held, self._folder = self._folder, -1
        if held >= 0:
            os.close(held)
        with contextlib.suppress(OSError):
            self._folder = runtime_folder.keep_from_cleaners(Path(self._paths.runtime.folder))
