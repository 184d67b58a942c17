"""Which handles there are: ids taken, ids free again, results kept for a while.

Rules: a decision is made in one call and is then a fact. A live handle is never evicted. An id is
free as soon as its handle is stopped; the new handle takes its place. What leaves the books is
returned by `sweep` exactly once, for its spool to be closed by the caller. Where stopped handles hold
too many files, what they printed is cut, what became of them stays. A spawn whose start
fails is as if it had never been admitted. Section 4, "Stopped handles".
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import msgspec

from haft_protocol.errors import handle_exists, handle_not_found, limit_exceeded
from haft_protocol.states import EndedBy

from .handles import Handle
from .lifecycle import State
from .session_handles import SessionHandles, choose_evicted, expires_at
from .spool import Budget, Spool

__all__ = ["Admission", "Registry"]

_MAX_REMEMBERED_IDS = 10_000
"""How many used ids are known, so that an expired one is told from one never used."""

_FILES_CLOSED_AT_ONCE = 32
"""How many files are closed at once for something that cannot be started."""

_EMPTY = Budget(0)
_encode = msgspec.json.Encoder(order="deterministic").encode


def _digest(args: dict[str, Any]) -> bytes:
    # Of what was on the wire: 1 == True in Python only.
    return sha256(_encode(args)).digest()


class Admission(msgspec.Struct, frozen=True):
    """A handle. `known`: an earlier call with the same `call_id` made it; nothing is to be started."""

    handle: Handle
    is_repeated: bool = False


class Registry:
    """All handles of the daemon, by session and id."""

    __slots__ = (
        "_by_session",
        "_evicted",
        "_live",
        "_max_handles",
        "_max_per_session",
        "_open_max",
        "_replaced",
        "_reserved",
        "_retain_all",
        "_retain_max",
        "_retain_s",
        "_stopped",
        "_used",
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
        """`open_max`: how many stopped handles may hold a file; what is with the others is cut."""
        self.on_used: Callable[[str, str, int], None] = lambda session, id, generation: None
        """Told the last generation of an id whenever that changes; 0 where it was never used."""
        self.on_stopped: Callable[[Handle], None] = lambda handle: None
        """Told of each handle that has stopped, before anybody else is."""
        self._max_handles = max_handles
        self._max_per_session = max_per_session
        self._retain_s = retain_s
        self._retain_max = retain_max
        self._retain_all = retain_all
        self._open_max = open_max
        self.truncated_handles = 0
        """How many lost output because there were too many files."""
        self.truncated_unread = 0
        """How many of them nobody had read."""
        self._by_session: dict[str, SessionHandles] = {}
        self._live = 0
        self._stopped = 0
        self._reserved: set[tuple[str, str]] = set()
        """Ids that the spawns of a batch are about to take."""
        self._used: dict[tuple[str, str], int] = {}
        """The last generation of each id, the longest unused first."""
        self._replaced: dict[Handle, Handle] = {}
        """What a handle replaced, as long as its start can still fail."""
        self._evicted: list[Handle] = []
        """What has left the books and was not yet returned by `sweep`."""

    # --- admission --------------------------------------------------------------------------

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
    ) -> Admission:
        """Take the id. Raises `handle_exists` or `limit_exceeded`, and has then changed nothing."""
        shelf = self._by_session.get(session)
        call = None if call_id is None else (call_id, tool, _digest(args))
        known = None if shelf is None or call is None else shelf.calls.get(call)
        if known is not None:
            return Admission(known, is_repeated=True)
        previous = shelf.handles.get(id) if shelf is not None else None
        if previous is not None and not previous.stopped:
            raise handle_exists(id, session, previous.state)
        if (session, id) in self._reserved:
            raise handle_exists(id, session, State.PENDING)
        if shelf is not None and shelf.live_count >= self._max_per_session:
            raise limit_exceeded(
                "max_handles_session",
                self._max_per_session,
                "This session has as many live handles as it may have",
            )
        if self._live >= self._max_handles:
            raise limit_exceeded(
                "max_handles", self._max_handles, "haftd has as many live handles as it may have"
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
        )
        if shelf is None:
            shelf = self._by_session[session] = SessionHandles()
        if previous is not None:
            shelf.remove(previous)
            self._stopped -= 1
            self._replaced[handle] = previous
        self._remember(session, id, handle.generation)
        self.on_used(session, id, handle.generation)
        shelf.handles[id] = handle
        shelf.live_count += 1
        self._live += 1
        if call is not None:
            shelf.calls[call] = handle
        handle.on_stop = self._on_stop
        return Admission(handle)

    def reserve(self, session: str, id: str) -> Callable[[], None]:
        """Keep an id for a spawn of a batch that is about to take it; return what gives the promise up, as the
        spawn takes the id now, or never will."""
        self._reserved.add((session, id))
        return lambda: self._reserved.discard((session, id))

    def is_reserved(self, session: str, id: str) -> bool:
        """Whether a spawn of a batch is about to take the id."""
        return (session, id) in self._reserved

    def find_call(
        self, session: str, call_id: str | None, tool: str, args: dict[str, Any]
    ) -> Handle | None:
        """Return the handle that a call with this `call_id`, tool and args has made already."""
        shelf = self._by_session.get(session)
        if call_id is None or shelf is None:
            return None
        return shelf.calls.get((call_id, tool, _digest(args)))

    def withdraw(self, handle: Handle) -> None:
        """Undo the admission of a handle that did not start; what it replaced is back."""
        shelf = self._by_session.get(handle.session)
        if shelf is None or shelf.handles.get(handle.id) is not handle:
            return
        handle.on_stop = None
        del shelf.handles[handle.id]
        if handle in shelf.stopped:
            del shelf.stopped[handle]
            self._stopped -= 1
        else:
            shelf.live_count -= 1
            self._live -= 1
        shelf.forget_call(handle)
        key = (handle.session, handle.id)
        if handle.generation > 1:
            self._used[key] = handle.generation - 1
        else:
            self._used.pop(key, None)
        self.on_used(handle.session, handle.id, handle.generation - 1)
        previous = self._replaced.pop(handle, None)
        if previous is not None:
            shelf.add_stopped(previous)
            self._stopped += 1
        elif not shelf.handles:
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
        """Keep a stopped handle for what a daemon before this one ran and lost; it was started `age`
        seconds ago.

        Of several records of one id the highest generation counts; None if a newer one was there.
        """
        shelf = self._by_session.get(session)
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
        )
        handle.command = command
        handle.end(now, by=EndedBy(by="lost"), complete=True)
        if shelf is None:
            shelf = self._by_session[session] = SessionHandles()
        older = shelf.handles.get(id)
        if older is not None:
            self._evict(shelf, older)
        self._remember(session, id, generation)
        shelf.add_stopped(handle)
        self._stopped += 1
        return handle

    def restore_used(self, session: str, id: str, generation: int) -> None:
        """Know an id that a daemon before this one has used."""
        self._remember(session, id, generation)

    def used(self) -> Iterator[tuple[str, str, int]]:
        """The ids that are known, with their last generations, the longest unused first."""
        for (session, id), generation in self._used.items():
            yield session, id, generation

    # --- looking up -------------------------------------------------------------------------

    def find(self, session: str, id: str, now: float) -> Handle:
        """Return the newest handle of an id; raises `handle_not_found`."""
        shelf = self._by_session.get(session)
        handle = shelf.handles.get(id) if shelf is not None else None
        if shelf is not None and handle is not None and handle.stopped:
            when = expires_at(handle, self._retain_s)
            if when is not None and when <= now:
                self._evict(shelf, handle)
                self._drop_empty(session)
                handle = None
        if handle is None:
            others = () if shelf is None else reversed(shelf.handles.values())
            known = [one.id for one in sorted(others, key=lambda one: one.stopped)]
            raise handle_not_found(id, session, expired=(session, id) in self._used, known=known)
        return handle

    def get(self, session: str, id: str, generation: int) -> Handle | None:
        """Return the handle of just this use, if it is still there."""
        shelf = self._by_session.get(session)
        handle = None if shelf is None else shelf.handles.get(id)
        return None if handle is None or handle.generation != generation else handle

    def list(self, session: str | None = None) -> builtins.list[Handle]:
        """Return the handles of a session, or all, the longest known first."""
        if session is not None:
            shelf = self._by_session.get(session)
            return list(shelf.handles.values()) if shelf is not None else []
        return [h for shelf in self._by_session.values() for h in shelf.handles.values()]

    def live(self, session: str | None = None) -> builtins.list[Handle]:
        """Return those of them that are not stopped."""
        return [handle for handle in self.list(session) if not handle.stopped]

    # --- leaving ----------------------------------------------------------------------------

    def forget(self, handle: Handle) -> None:
        """Let a stopped handle go before its time, as a closed session does."""
        shelf = self._by_session.get(handle.session)
        if shelf is not None and handle in shelf.stopped:
            self._evict(shelf, handle)
            self._drop_empty(handle.session)

    def sweep(self, now: float) -> builtins.list[Handle]:
        """Let go what is no longer kept; returns all that has left since the last sweep.

        The caller closes their spools. Results that were read go when their time is over, and the
        oldest, read ones first, when there are too many.
        """
        for new in [new for new in self._replaced if new.state is not State.PENDING]:
            self._evicted.append(self._replaced.pop(new))
        for session, shelf in list(self._by_session.items()):
            gone = shelf.expired(now, self._retain_s)
            for handle in gone:
                self._evict(shelf, handle)
            excess = len(shelf.stopped) - self._retain_max
            for handle in choose_evicted(shelf.stopped, max(0, excess)):
                self._evict(shelf, handle)
            self._drop_empty(session)
        excess = self._stopped - self._retain_all
        if excess > 0:
            for handle in choose_evicted(self._by_stop_time(), excess):
                self.forget(handle)
        self._truncate_oldest(self._open_files() - self._open_max)
        out, self._evicted = self._evicted, []
        return out

    def next_expiry(self, now: float) -> float | None:
        """Return when `sweep` next has something to do (`now` if it has already), None if never."""
        if self._evicted or (self._stopped > self._retain_all and self._has_evictable()):
            return now
        if any(new.state is not State.PENDING for new in self._replaced):
            return now
        if self._open_files() > self._open_max and self._has_evictable(is_open=True):
            return now
        earliest: float | None = None
        for shelf in self._by_session.values():
            if len(shelf.stopped) > self._retain_max and shelf.has_evictable():
                return now
            for handle in shelf.stopped:
                when = expires_at(handle, self._retain_s)
                if when is not None and (earliest is None or when < earliest):
                    earliest = when
        return earliest if earliest is None or earliest > now else now

    def close_files(self) -> bool:
        """Close files of stopped handles, for something that cannot be had without a descriptor;
        returns whether there were any."""
        return self._truncate_oldest(_FILES_CLOSED_AT_ONCE)

    def _truncate_oldest(self, count: int) -> bool:
        """Cut the output of so many, the longest stopped first, those before that were read. What
        became of them stays to be read."""
        if count <= 0:
            return False
        is_open = [handle for handle in self._by_stop_time() if handle.spool.is_open]
        chosen = choose_evicted(is_open, count)
        for handle in chosen:
            before = handle.spool.start
            handle.spool.shrink()
            if handle.spool.start > before:
                self.truncated_handles += 1
                self.truncated_unread += handle.read_at is None
        return bool(chosen)

    def _open_files(self) -> int:
        return sum(
            handle.spool.is_open for shelf in self._by_session.values() for handle in shelf.stopped
        )

    def _by_stop_time(self) -> builtins.list[Handle]:
        everyone = [h for shelf in self._by_session.values() for h in shelf.stopped]
        everyone.sort(key=lambda handle: handle.stopped_at or 0.0)
        return everyone

    def _has_evictable(self, *, is_open: bool = False) -> bool:
        return any(shelf.has_evictable(is_open=is_open) for shelf in self._by_session.values())

    # --- the books --------------------------------------------------------------------------

    def _on_stop(self, handle: Handle) -> None:
        handle.on_stop = None
        shelf = self._by_session[handle.session]
        shelf.live_count -= 1
        self._live -= 1
        shelf.stopped[handle] = None
        self._stopped += 1
        self.on_stopped(handle)

    def _evict(self, shelf: SessionHandles, handle: Handle) -> None:
        shelf.remove(handle)
        self._stopped -= 1
        self._evicted.append(handle)
        previous = self._replaced.pop(handle, None)
        if previous is not None:
            self._evicted.append(previous)

    def _drop_empty(self, session: str) -> None:
        if not self._by_session[session].handles:
            del self._by_session[session]

    def _remember(self, session: str, id: str, generation: int) -> None:
        key = (session, id)
        self._used.pop(key, None)
        self._used[key] = generation
        while len(self._used) > _MAX_REMEMBERED_IDS:
            oldest = next(iter(self._used))
            generation = self._used.pop(oldest)
            shelf = self._by_session.get(oldest[0])
            if shelf is not None and oldest[1] in shelf.handles:
                # Still there: it is not the longest unused.
                self._used[oldest] = generation
