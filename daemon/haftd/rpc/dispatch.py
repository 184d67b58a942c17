"""Dispatch from message to reply; batches follow docs/protocol.md, "Calling tools".

An `RpcError` becomes the reply; another exception is logged under an incident id.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from io import BytesIO
from typing import Any, NoReturn

import msgspec
import trio
from msgspec.structs import replace

from haft_protocol.encoding import (
    encode_error,
    encode_long_reply,
    encode_reply,
    is_long,
)
from haft_protocol.errors import (
    RpcError,
    internal,
    limit_exceeded,
    not_authorized,
    read_only,
)
from haft_protocol.json_text import ValueCount
from haft_protocol.methods import METHODS, FetchParams, LimitsResult, SpawnParams
from haft_protocol.rpc import (
    Batch,
    Invalid,
    Message,
    Request,
    Response,
    Single,
    read_message,
    read_params,
)
from haftd.caller import Caller
from haftd.core.truncation import (
    MAX_BATCH_BYTES,
    MAX_UNCUT_BYTES,
    BatchBudget,
    FindHandle,
    batch_read_size,
    text_size,
    truncate_batch,
    without_screen,
    without_texts,
)
from haftd.logs import Log
from haftd.methods.base import DeferredReply, HandleWait, MethodHandler

from .jsonrpcserver import MethodTable
from .replies import (
    CANCELS,
    Answer,
    Cancel,
    Item,
    PendingBatch,
    PendingRequest,
    Ready,
    Reply,
    Slot,
    Steps,
    SuspendedBatch,
    key_of,
    read_cancel,
)

_Spawns = dict[int, tuple[msgspec.Struct, SpawnParams]]
Verdicts = Sequence[RpcError | None] | Sequence[Callable[[], None]]
"""Per spawn of a batch: the conflict, or the release of the reserved id."""

_OTHER_READERS = frozenset({"initialize", "ping", "fetch", "await", "subscribe", "unsubscribe"})
"""Methods of read-only connections with an effect, or with texts that are cut."""

_AT_ONCE = 8
"""Spawns between turns of other tasks."""

_JOINED_IN_A_ROW = 65_536
"""Bytes of a batch's replies joined between turns of other tasks: a turn costs as much as a ping."""


_PLAIN_SPAWN: Mapping[str, Callable[[Caller, Any], SpawnParams | None]] = {
    "spawn": lambda caller, params: params
}


def _drop_traceback(error: RpcError) -> RpcError:
    """Drop the traceback: its frames would keep the request alive."""
    return error.with_traceback(None)


def _raise(fault: Exception) -> NoReturn:
    raise fault


def _reads(name: str) -> bool:
    method = METHODS.get(name)
    return method is not None and method.reads_only


def _lists(name: str) -> bool:
    """True for a method that reads only: its reply may be asked for again."""
    return _reads(name) and name not in _OTHER_READERS


def _refuse_lists(name: str, params: Any, budget: BatchBudget) -> Any:
    """Refuse a call whose reply is not cut before anything is done; return its params."""
    if name == "fetch":
        params = read_params(params, FetchParams, name)
        if params.view in ("screen", "paint"):
            budget.check()
    elif name == "tools/call" or _lists(name):
        budget.check()
    return params


def _always_ready(method: str, params: object) -> Ready | None:
    return None


def _find_nothing(session: str, id: str, generation: int) -> None:
    pass


def _ignore_reply(caller: Caller, reply: Response) -> None:
    pass


class Dispatcher:
    """Dispatcher of messages to the handlers of `methods`.

    `spawning` identifies a batch's spawns; `reserve` checks them in steps and reserves their ids.
    `on_reply` takes replies to the daemon's requests. `unready` returns an awaitable without which
    a call cannot be decided: needed for spawns of a batch, decided together. `find` returns the
    handle of a result to truncate.
    """

    def __init__(
        self,
        methods: Mapping[str, tuple[type[Any], MethodHandler]],
        reserve: Callable[[Caller, Sequence[SpawnParams]], Generator[None, None, Verdicts]],
        limits: LimitsResult,
        log: Log,
        spawning: Mapping[str, Callable[[Caller, Any], SpawnParams | None]] = _PLAIN_SPAWN,
        on_reply: Callable[[Caller, Response], None] = _ignore_reply,
        unready: Callable[[str, Any], Ready | None] = _always_ready,
        find: FindHandle = _find_nothing,
    ) -> None:
        self.methods = methods
        self.reserve = reserve
        self.limits = limits
        self.log = log
        self.spawning = spawning
        self.on_reply = on_reply
        self.unready = unready
        self.find = find
        self._methods = MethodTable(methods, self._fail)

    def receive(self, caller: Caller, message: bytes, room: int) -> Answer:
        """Decide a short message; at most `room` of its requests become pending. Never raises."""
        return self.decide(caller, self.read(message), room)

    def read(self, message: bytes, value_count: ValueCount | None = None) -> Message:
        """Decode a message, a long one with its `value_count`. Never raises."""
        limits = self.limits
        return read_message(
            message,
            max_batch=limits.max_batch,
            max_nesting=limits.max_nesting,
            max_values=limits.max_values,
            value_count=value_count,
        )

    def decide(self, caller: Caller, read: Message, room: int) -> Answer:
        if isinstance(read, Single):
            item = read.item
            if isinstance(item, Request):
                answer = self._request(caller, item, room)
                return self.encode(answer) if isinstance(answer, Reply) else answer
            return self._unasked(caller, item)
        if isinstance(read, Batch):
            spawns, waits = self._spawns(caller, read.items)
            if waits:
                return SuspendedBatch(list(read.items), waits)
            return self._batch(caller, read.items, spawns, room)
        return encode_error(b"null", read.error)

    def resume(self, caller: Caller, deferred: SuspendedBatch, room: int) -> Steps:
        deferred.is_resumed = True
        spawns, _ = self._spawns(caller, deferred.items)
        return self._batch(caller, deferred.items, spawns, room)

    async def finish(self, waiting: PendingRequest) -> Reply | PendingRequest | None:
        """Run a deferred reply; return the reply, or the request if the result is pending too.
        Raises only a cancellation."""
        later = waiting.later
        if not isinstance(later, DeferredReply):
            raise AssertionError(f"a task was started for a {type(later).__name__}")
        budget = waiting.batch_budget
        if budget is None:
            run = later.run_encoding or later.run
        elif later.run_in_batch is not None:
            run = partial(later.run_in_batch, budget)
        else:
            run = later.run  # a batch cuts its texts
        try:
            result = await run()
        except Exception as fault:
            return self.complete(waiting, partial(_raise, fault))
        return self.complete(waiting, lambda: result)

    def complete(
        self, waiting: PendingRequest, result_of: Callable[[], object]
    ) -> Reply | PendingRequest | None:
        """Return the same as `finish`; `result_of` returns the result. Never raises."""
        error: RpcError | None = None
        result: object = None
        try:
            result = result_of()
        except RpcError as refused:
            error = _drop_traceback(refused)
        except Exception as fault:
            error = self._fail(waiting.method, fault)
        if type(result) is HandleWait or type(result) is DeferredReply:
            waiting.later = result
            return waiting
        return None if waiting.id is None else Reply(waiting.id, waiting.method, result, error)

    def encode(self, reply: Reply) -> bytes:
        error = reply.error
        if error is None:
            try:
                return encode_reply(reply.id, reply.result)
            except Exception as fault:
                error = self._fail(reply.method, fault)
        return encode_error(reply.id, error)

    async def encode_later(self, reply: Reply) -> list[bytes]:
        """Encode a reply, a long one in a thread; return its parts. Raises only a cancellation."""
        if reply.error is None and is_long(reply.result):
            try:
                return await trio.to_thread.run_sync(
                    encode_long_reply, reply.id, reply.result, abandon_on_cancel=True
                )
            except Exception as fault:
                return [encode_error(reply.id, self._fail(reply.method, fault))]
        return [self.encode(reply)]

    def take(self, reply: Reply, budget: BatchBudget) -> Slot:
        """Return a member's reply for `join`, counted, and encoded unless its texts may be cut. Without
        room, an error replaces what may be asked for again; the reply of an act loses its screen."""
        try:
            result = self._bounded(reply, budget)
        except RpcError as refused:
            reply = replace(reply, result=None, error=_drop_traceback(refused))
        else:
            reply = reply if result is reply.result else replace(reply, result=result)
        rest = without_texts(reply.result)
        if rest is not reply.result:
            budget.add(len(self.encode(Reply(reply.id, reply.method, rest))))
            return reply
        encoded = self.encode(reply)
        budget.add(len(encoded))
        return encoded

    @staticmethod
    def _bounded(reply: Reply, budget: BatchBudget) -> object:
        """Return the part of a result for which there is room; raise `limit_exceeded` where that is
        none, and nothing was done."""
        if reply.error is not None or not budget.is_spent:
            return reply.result
        result = without_screen(reply.result)
        if _lists(reply.method) or (result is not reply.result and _reads(reply.method)):
            budget.check()
        return result

    def join(
        self, slots: Sequence[Slot], budget: BatchBudget
    ) -> Generator[None, None, bytes | None]:
        """Join a batch's replies, each cut to its share of the text that the matches have left; None
        without replies."""
        slots = yield from self._cut(slots, MAX_BATCH_BYTES - budget.lines.spent)
        # Not by one call of `join`: a long reply would hold other tasks up.
        joined, turn_at = BytesIO(), _JOINED_IN_A_ROW
        for slot in slots:
            if isinstance(slot, Reply | bytes):
                joined.write(b"," if joined.tell() else b"[")
                joined.write(slot if isinstance(slot, bytes) else self.encode(slot))
                if joined.tell() >= turn_at:
                    turn_at = joined.tell() + _JOINED_IN_A_ROW
                    yield
        if not joined.tell():
            return None
        joined.write(b"]")
        return joined.getvalue()

    def _cut(
        self, slots: Sequence[Slot], size: int = MAX_BATCH_BYTES
    ) -> Generator[None, None, list[Slot]]:
        """Return the slots, the texts of their results cut to `size` together."""
        cut = list(slots)
        replies = [
            (at, slot)
            for at, slot in enumerate(slots)
            if isinstance(slot, Reply) and slot.error is None
        ]
        results = yield from truncate_batch([reply.result for _, reply in replies], self.find, size)
        for (at, reply), result in zip(replies, results, strict=True):
            if result is not reply.result:
                cut[at] = replace(reply, result=result)
        return cut

    def _request(
        self,
        caller: Caller,
        request: Request,
        room: int,
        params: object = None,
        max_bytes: int | None = None,
        budget: BatchBudget | None = None,
    ) -> Reply | bytes | PendingRequest | Cancel | None:
        name = request.method
        if name in CANCELS:
            return read_cancel(request)
        error: RpcError | None = None
        result: object = None
        try:
            if caller.transport != "unix" and not caller.initialized and name != "initialize":
                raise not_authorized("On a WebSocket the first request must be `initialize`.")
            if caller.read_only and (method := METHODS.get(name)) and not method.reads_only:
                raise read_only(name)
            if room <= 0:
                limit = self.limits.max_in_flight
                raise limit_exceeded(
                    "max_in_flight", limit, "Too many requests of this connection are unanswered"
                )
            if params is None:
                params = request.params
            if budget is not None and budget.is_spent:
                params = _refuse_lists(name, params, budget)
            result = self._methods.call(name, caller, params, max_bytes)
        except RpcError as refused:
            error = _drop_traceback(refused)
        except Exception as fault:
            error = self._fail(name, fault)
        if type(result) is HandleWait or type(result) is DeferredReply:
            return PendingRequest(request.id, key_of(request), name, result)
        return None if request.id is None else Reply(request.id, name, result, error)

    def _fail(self, name: str, fault: Exception) -> RpcError:
        incident = secrets.token_hex(6)
        self.log.error("verb failed", incident=incident, method=name[:64], exc_info=fault)
        return internal(incident)

    def _unasked(self, caller: Caller, item: Response | Invalid) -> bytes | None:
        """Return an invalid message's error; pass a reply to the daemon's request on."""
        if isinstance(item, Invalid):
            return encode_error(item.id, item.error)
        self.on_reply(caller, item)
        return None

    def _batch(self, caller: Caller, items: Sequence[Item], spawns: _Spawns, room: int) -> Steps:
        """Decide a batch: reserve all spawns' ids, start these, then run the other requests in
        order."""
        conflicts, releases = yield from self._reserved(caller, spawns)
        try:
            return (yield from self._decide(caller, items, spawns, conflicts, releases, room))
        finally:
            for release in releases.values():
                release()

    def _decide(
        self,
        caller: Caller,
        items: Sequence[Item],
        spawns: _Spawns,
        conflicts: dict[int, RpcError] | None,
        releases: dict[int, Callable[[], None]],
        room: int,
    ) -> Steps:
        slots: list[Slot] = [None] * len(items)
        cancels: list[Cancel] = []
        budget = BatchBudget()
        max_bytes = batch_read_size(len(items))
        uncut = 0
        first = [at for at in range(len(items)) if at in spawns]
        for at in first + [at for at in range(len(items)) if at not in spawns]:
            item = items[at]
            if not isinstance(item, Request):
                slots[at] = self._unasked(caller, item)
            elif conflicts is not None:
                error = conflicts.get(at) or conflicts[-1]
                slots[at] = None if item.id is None else encode_error(item.id, error)
            else:
                if at in releases:
                    releases.pop(at)()
                params = spawns[at][0] if at in spawns else None
                answer = self._request(caller, item, room, params, max_bytes, budget)
                if isinstance(answer, Cancel):
                    cancels.append(answer)
                else:
                    if isinstance(answer, PendingRequest):
                        room -= 1
                        answer.batch_budget = budget
                    slots[at] = answer
                if isinstance(answer, Reply):
                    slots[at] = self.take(answer, budget)
                    uncut += text_size(answer.result)
                if uncut > MAX_UNCUT_BYTES:
                    # A larger share than at the end, so no text is cut shorter than if all were cut together.
                    slots, uncut = (yield from self._cut(slots)), MAX_BATCH_BYTES
            if at not in spawns or len(releases) % _AT_ONCE == _AT_ONCE - 1:
                yield
        if any(isinstance(slot, PendingRequest) for slot in slots):
            return PendingBatch(slots, cancels, budget)
        reply = yield from self.join(slots, budget)
        return PendingBatch(slots, cancels, budget, reply) if cancels else reply

    def _spawns(self, caller: Caller, items: Sequence[Item]) -> tuple[_Spawns, list[Ready]]:
        """Return the valid spawns by position; invalid spawns fail alone."""
        spawns: _Spawns = {}
        waits: list[Ready] = []
        if caller.read_only or (caller.transport != "unix" and not caller.initialized):
            return spawns, waits
        for at, item in enumerate(items):
            if isinstance(item, Request) and item.method in self.spawning:
                name = item.method
                try:
                    params = read_params(item.params, self.methods[name][0], name)
                    if (wait := self.unready(name, params)) is not None:
                        waits.append(wait)
                        continue
                    spawn = self.spawning[name](caller, params)
                except (RpcError, KeyError):
                    continue
                if spawn is not None:
                    spawns[at] = params, spawn
        return spawns, waits

    def _reserved(
        self, caller: Caller, spawns: _Spawns
    ) -> Generator[None, None, tuple[dict[int, RpcError] | None, dict[int, Callable[[], None]]]]:
        """Return a rejected batch's errors by position (-1: of all other requests), else the
        functions that release the ids."""
        if not spawns:
            return None, {}
        try:
            verdicts = yield from self.reserve(caller, [spawn for _, spawn in spawns.values()])
        except RpcError as error:
            return {-1: error}, {}
        except Exception as fault:
            return {-1: self._fail("spawn", fault)}, {}
        by_place = dict(zip(spawns, verdicts, strict=True))
        errors = {at: verdict for at, verdict in by_place.items() if isinstance(verdict, RpcError)}
        if not errors:
            return None, {at: verdict for at, verdict in by_place.items() if callable(verdict)}
        verdict = next(iter(errors.values()))
        data = {key: value for key, value in verdict.data.items() if key != "kind"}
        errors[-1] = RpcError(
            verdict.kind, f"Nothing of this batch was run: {verdict.message}", **data
        )
        return errors, {}
