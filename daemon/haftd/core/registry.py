"""Registry of handles: admission, lookup, eviction (docs/protocol.md, "States").

A spawn that fails to start leaves no handle, but its error for later calls. Above the limit of files, stopped handles' output is
truncated.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from haft_protocol.errors import RpcError, handle_exists, handle_not_found, limit_exceeded, shown

from .handles import DEFAULT_SETTINGS, Handle, HandleSettings
from .lifecycle import State
from .session_handles import SessionHandles, choose_evicted, expires_at
from .spool import Budget, Spool
from .termination import LOST, Termination

_MAX_REMEMBERED_IDS = 10_000
"""Used ids, to distinguish expired from unknown handles."""

_MAX_REJECTIONS = 1_000
"""Ids whose last start has failed."""

_FILES_CLOSED_AT_ONCE = 32
"""Files closed when a spawn lacks descriptors."""

_EMPTY = Budget(0)
_encode = msgspec.json.Encoder(order="deterministic").encode


def _digest(args: dict[str, Any]) -> bytes:
    # Of the wire form: 1 == True in Python only.
    return sha256(_encode(args)).digest()


def _may_have_file(handle: Handle) -> bool:
    # The output's end may move memory into a file.
    return handle.spool.is_open or not handle.output_complete


class Admission(msgspec.Struct, frozen=True):
    """Admitted handle."""

    handle: Handle
    is_repeated: bool = False
    """The handle of an earlier call with the same `call_id`."""


class Registry:
    __slots__ = (
        "_by_session",
        "_evicted",
        "_files",
        "_live",
        "_max_handles",
        "_max_per_session",
        "_open_max",
        "_rejections",
        "_replaced",
        "_reserved",
        "_retain_all",
        "_retain_max",
        "_retain_s",
        "_stopped",
        "_used",
        "on_forgotten",
        "on_restored",
        "on_stopped",
        "on_used",
        "truncated_handles",
        "truncated_unread",
    )

    def __init__(
        self,
        max_handles: int = 2048,
        max_per_session: int = 256,
        retain_s: float = 600.0,
        retain_max: int = 256,
        retain_all: int = 4096,
        open_max: int = 4096,
    ) -> None:
        """`open_max` limits the files of stopped handles; beyond, their output is truncated."""
        self.on_used: Callable[[str, str, int], None] = lambda session, id, generation: None
        """Called with an id's new last generation; 0 for a never used id."""
        self.on_stopped: Callable[[Handle], None] = lambda handle: None
        """Called with each stopped handle, before other hooks."""
        self.on_forgotten: Callable[[Handle], None] = lambda handle: None
        """Called with each forgotten handle that no later use replaces."""
        self.on_restored: Callable[[Handle], None] = lambda handle: None
        """Called with each replaced handle that returns after a failed start."""
        self._max_handles = max_handles
        self._max_per_session = max_per_session
        self._retain_s = retain_s
        self._retain_max = retain_max
        self._retain_all = retain_all
        self._open_max = open_max
        self.truncated_handles = 0
        """Handles that lost output for lack of files."""
        self.truncated_unread = 0
        """Unread handles among them."""
        self._by_session: dict[str, SessionHandles] = {}
        self._live = 0
        self._stopped = 0
        self._files: dict[Handle, None] = {}
        """Stopped handles that may have an open file."""
        self._reserved: set[tuple[str, str]] = set()
        """Ids reserved for a batch's spawns."""
        self._used: dict[tuple[str, str], int] = {}
        """Last generation of each id, longest unused first."""
        self._rejections: dict[tuple[str, str], str] = {}
        """Error of each id's last start, if that has failed, oldest first."""
        self._replaced: dict[Handle, Handle] = {}
        """The handle that a pending one replaced, while its start can fail."""
        self._evicted: list[Handle] = []
        """Evicted handles for the next `sweep`."""

    # -- admission

    def admit(
        self,
        now: float,
        *,
        session: str,
        id: str,
        tool: str,
        call_id: str | None,
        args: dict[str, Any],
        root: str,
        make_spool: Callable[[], Spool],
        wall: float = 0.0,
        command: str = "",
        terminal: bool = False,
        needs_approval: bool = False,
        settings: HandleSettings = DEFAULT_SETTINGS,
        on_state_change: Callable[[Handle], None] | None = None,
    ) -> Admission:
        """Take the id; raises `handle_exists` or `limit_exceeded` without side effects."""
        handles = self._by_session.get(session)
        call = None if call_id is None else (call_id, tool, _digest(args))
        repeated = None if handles is None or call is None else handles.calls.get(call)
        if repeated is not None:
            return Admission(repeated, is_repeated=True)
        previous = handles.by_id.get(id) if handles is not None else None
        if previous is not None and not previous.stopped:
            raise handle_exists(id, session, previous.state)
        if (session, id) in self._reserved:
            raise handle_exists(id, session, State.PENDING)
        if handles is not None and handles.live_count >= self._max_per_session:
            raise limit_exceeded(
                "max_handles_session",
                self._max_per_session,
                "This session has reached its limit of live handles",
            )
        if self._live >= self._max_handles:
            raise limit_exceeded(
                "max_handles", self._max_handles, "haftd has reached its limit of live handles"
            )
        handle = Handle(
            id=id,
            tool=tool,
            session=session,
            generation=self._used.get((session, id), 0) + 1,
            spool=make_spool(),
            now=now,
            call=call,
            root=root,
            wall=wall,
            command=command,
            terminal=terminal,
            needs_approval=needs_approval,
            settings=settings,
            on_stop=self._on_stop,
            on_state_change=on_state_change,
        )
        if handles is None:
            handles = self._by_session[session] = SessionHandles()
        if previous is not None:
            handles.remove(previous)
            self._files.pop(previous, None)
            self._stopped -= 1
            self._replaced[handle] = previous
        self.remember_used(session, id, handle.generation)
        self.on_used(session, id, handle.generation)
        self._rejections.pop((session, id), None)
        handles.by_id[id] = handle
        handles.live_count += 1
        self._live += 1
        if call is not None:
            handles.calls[call] = handle
        return Admission(handle)

    def reserve(self, session: str, id: str) -> Callable[[], None]:
        self._reserved.add((session, id))
        return lambda: self._reserved.discard((session, id))

    def is_reserved(self, session: str, id: str) -> bool:
        return (session, id) in self._reserved

    def find_call(
        self, session: str, call_id: str | None, tool: str, args: dict[str, Any]
    ) -> Handle | None:
        handles = self._by_session.get(session)
        if call_id is None or handles is None:
            return None
        return handles.calls.get((call_id, tool, _digest(args)))

    def withdraw(self, handle: Handle, error: str = "") -> None:
        """Undo the admission after a failed start; a replaced handle returns."""
        handles = self._by_session.get(handle.session)
        if handles is None or handles.by_id.get(handle.id) is not handle:
            return
        del handles.by_id[handle.id]
        if handle in handles.stopped:
            handles.forget_stopped(handle)
            self._files.pop(handle, None)
            self._stopped -= 1
        else:
            handles.live_count -= 1
            self._live -= 1
        handles.forget_call(handle)
        key = (handle.session, handle.id)
        if handle.generation > 1:
            self._used[key] = handle.generation - 1
        else:
            self._used.pop(key, None)
        self.on_used(handle.session, handle.id, handle.generation - 1)
        self._rejections[key] = error
        while len(self._rejections) > _MAX_REJECTIONS:
            del self._rejections[next(iter(self._rejections))]
        self.on_forgotten(handle)
        previous = self._replaced.pop(handle, None)
        if previous is not None:
            handles.add_stopped(previous)
            self._note_file(previous)
            self._stopped += 1
            self.on_restored(previous)
        elif not handles.by_id:
            del self._by_session[handle.session]

    def restore_lost(
        self,
        now: float,
        *,
        session: str,
        id: str,
        tool: str,
        generation: int,
        command: str = "",
        wall: float = 0.0,
        age: float = 0.0,
    ) -> Handle | None:
        """Add a stopped handle for an execution lost in a crash, started `age` seconds ago.

        None if the id has a record of a higher generation.
        """
        handles = self._by_session.get(session)
        if self._used.get((session, id), 0) > generation:
            return None
        handle = Handle(
            id=id,
            tool=tool,
            session=session,
            generation=generation,
            spool=Spool(0, 0, None, _EMPTY),
            now=now - age,
            wall=wall,
            command=command,
        )
        handle.end(Termination(by=LOST), now)
        if handles is None:
            handles = self._by_session[session] = SessionHandles()
        older = handles.by_id.get(id)
        if older is not None:
            self._evict(handles, older)
        self.remember_used(session, id, generation)
        handles.add_stopped(handle)
        self._stopped += 1
        return handle

    def used(self) -> Iterator[tuple[str, str, int]]:
        """Iterate over ids and last generations, longest unused first."""
        for (session, id), generation in self._used.items():
            yield session, id, generation

    # --- lookup -----------------------------------------------------------------------------

    def find(self, session: str, id: str, clock: Callable[[], float]) -> Handle:
        """Return the newest handle; raises `handle_not_found`. `clock` is read for a stopped one."""
        handles = self._by_session.get(session)
        handle = handles.by_id.get(id) if handles is not None else None
        if handle is not None and handle.lifecycle.state is not State.STOPPED:
            return handle
        if handles is not None and handle is not None:
            when = expires_at(handle, self._retain_s)
            if when is not None and when <= clock():
                self._evict(handles, handle)
                self._drop_empty(session)
                handle = None
        if handle is None:
            others = () if handles is None else reversed(handles.by_id.values())
            known_ids = [other.id for other in sorted(others, key=lambda other: other.stopped)]
            raise handle_not_found(
                id,
                session,
                expired=(session, id) in self._used,
                known=known_ids,
                rejection=self._rejections.get((session, id), ""),
            )
        return handle

    def is_used(self, session: str, id: str) -> bool:
        """True for the id of a handle of the session, also a former one."""
        return (session, id) in self._used

    def get(self, session: str, id: str, generation: int) -> Handle | None:
        handles = self._by_session.get(session)
        handle = None if handles is None else handles.by_id.get(id)
        return None if handle is None or handle.generation != generation else handle

    def list(self, session: str | None = None) -> builtins.list[Handle]:
        """Return a session's handles, or all, oldest first."""
        if session is not None:
            handles = self._by_session.get(session)
            return list(handles.by_id.values()) if handles is not None else []
        return [h for handles in self._by_session.values() for h in handles.by_id.values()]

    def live(self, session: str | None = None) -> builtins.list[Handle]:
        return [handle for handle in self.list(session) if not handle.stopped]

    # --- eviction ---------------------------------------------------------------------------

    def forget(self, handle: Handle) -> None:
        """Evict a stopped handle of a closed session."""
        handles = self._by_session.get(handle.session)
        if handles is not None and handle in handles.stopped:
            self._evict(handles, handle)
            self._drop_empty(handle.session)

    def sweep(self, now: float) -> builtins.list[Handle]:
        """Evict expired handles; return all evicted since the last sweep, for the caller to close."""
        for new in [new for new in self._replaced if new.state is not State.PENDING]:
            self._evicted.append(self._replaced.pop(new))
        for session, handles in list(self._by_session.items()):
            gone = handles.expired(now, self._retain_s)
            for handle in gone:
                self._evict(handles, handle)
            excess = len(handles.stopped) - self._retain_max
            for handle in choose_evicted(handles.stopped, max(0, excess)):
                self._evict(handles, handle)
            self._drop_empty(session)
        excess = self._stopped - self._retain_all
        if excess > 0:
            for handle in choose_evicted(self._by_stop_time(), excess):
                self.forget(handle)
        if len(self._files) > self._open_max:
            self._truncate_oldest(self._open_files() - self._open_max)
        out, self._evicted = self._evicted, []
        return out

    def has_transient(self) -> bool:
        """True if a handle is forgotten at its end."""
        return any(handles.transient for handles in self._by_session.values())

    def next_expiry(self, now: float) -> float | None:
        """Return the time of the next sweep: `now` if due, None if nothing expires."""
        if self._evicted or (self._stopped > self._retain_all and self._has_evictable()):
            return now
        if any(new.state is not State.PENDING for new in self._replaced):
            return now
        if (
            len(self._files) > self._open_max
            and self._open_files() > self._open_max
            and self._has_evictable(is_open=True)
        ):
            return now
        earliest: float | None = None
        for handles in self._by_session.values():
            if len(handles.stopped) > self._retain_max and handles.has_evictable():
                return now
            when = handles.next_expiry(self._retain_s)
            if when is not None and (earliest is None or when < earliest):
                earliest = when
        return earliest if earliest is None or earliest > now else now

    def close_files(self) -> bool:
        """Close files of stopped handles; return True if any was closed."""
        return self._truncate_oldest(_FILES_CLOSED_AT_ONCE)

    def _truncate_oldest(self, count: int) -> bool:
        """Read handles go first, then the longest stopped."""
        if count <= 0:
            return False
        open_handles = [handle for handle in self._files if handle.spool.is_open]
        open_handles.sort(key=lambda handle: handle.stopped_at or 0.0)
        chosen = choose_evicted(open_handles, count)
        for handle in chosen:
            before = handle.spool.start
            handle.spool.shrink()
            if handle.spool.start > before:
                self.truncated_handles += 1
                self.truncated_unread += handle.position.end_read_at is None
        return bool(chosen)

    def _open_files(self) -> int:
        for handle in [handle for handle in self._files if not _may_have_file(handle)]:
            del self._files[handle]
        return sum(handle.spool.is_open for handle in self._files)

    def _by_stop_time(self) -> builtins.list[Handle]:
        stopped = [h for handles in self._by_session.values() for h in handles.stopped]
        stopped.sort(key=lambda handle: handle.stopped_at or 0.0)
        return stopped

    def _has_evictable(self, *, is_open: bool = False) -> bool:
        return any(handles.has_evictable(is_open=is_open) for handles in self._by_session.values())

    # --- bookkeeping --------------------------------------------------------------------------

    def _on_stop(self, handle: Handle) -> None:
        handles = self._by_session.get(handle.session)
        if handles is None or handles.by_id.get(handle.id) is not handle:
            return  # the admission was undone
        handles.live_count -= 1
        self._live -= 1
        handles.note_stopped(handle)
        self._note_file(handle)
        self._stopped += 1
        self.on_stopped(handle)

    def _note_file(self, handle: Handle) -> None:
        if _may_have_file(handle):
            self._files[handle] = None

    def _evict(self, handles: SessionHandles, handle: Handle) -> None:
        handles.remove(handle)
        self._files.pop(handle, None)
        self._stopped -= 1
        self._evicted.append(handle)
        self.on_forgotten(handle)
        previous = self._replaced.pop(handle, None)
        if previous is not None:
            self._evicted.append(previous)

    def _drop_empty(self, session: str) -> None:
        if not self._by_session[session].by_id:
            del self._by_session[session]

    def remember_used(self, session: str, id: str, generation: int) -> None:
        """Record an id's last generation, as the latest used."""
        key = (session, id)
        self._used.pop(key, None)
        self._used[key] = generation
        while len(self._used) > _MAX_REMEMBERED_IDS:
            oldest = next(iter(self._used))
            generation = self._used.pop(oldest)
            handles = self._by_session.get(oldest[0])
            if handles is not None and oldest[1] in handles.by_id:
                # The handle exists: its id is in use.
                self._used[oldest] = generation


class SpawnKey(msgspec.Struct, frozen=True):
    session: str
    id: str
    tool: str = ""
    call_id: str | None = None
    args: Mapping[str, Any] = {}


def admit_batch(spawns: Sequence[SpawnKey], registry: Registry) -> list[RpcError | None]:
    """Return the clashes of a batch's handle ids, with live handles or each other, which fail the
    whole batch (docs/protocol.md, "Calling tools"); a repeated call is none."""
    errors: list[RpcError | None] = [None] * len(spawns)
    live: dict[str, dict[str, str]] = {}
    for spawn in spawns:
        if spawn.session not in live:
            live[spawn.session] = {h.id: str(h.state) for h in registry.live(spawn.session)}
    first: dict[tuple[str, str], int] = {}
    for at, spawn in enumerate(spawns):
        if (
            registry.find_call(spawn.session, spawn.call_id, spawn.tool, dict(spawn.args))
            is not None
        ):
            continue
        state = live[spawn.session].get(spawn.id)
        if state is None and registry.is_reserved(spawn.session, spawn.id):
            state = "pending"
        if state is not None:
            errors[at] = handle_exists(spawn.id, spawn.session, state)
            continue
        earlier = first.setdefault((spawn.session, spawn.id), at)
        if earlier != at and not (spawn.call_id is not None and spawns[earlier] == spawn):
            errors[at] = _duplicate_id(spawn)
            errors[earlier] = errors[earlier] or _duplicate_id(spawn)
    return errors


def _duplicate_id(spawn: SpawnKey) -> RpcError:
    return RpcError(
        "handle_exists",
        f"Handle {shown(spawn.id)} is spawned more than once in this batch; "
        "give each spawn its own id.",
        id=spawn.id,
        session=spawn.session,
    )
