"""From a message to its answer: requests through the method table, batches by the rules of section 5.

Rules: everything here is synchronous but `finish` and `encode_later`. A method decides at once or returns a
`DeferredReply`, and a connection learns only which of the two. An `RpcError` becomes the reply; any other
exception is logged under an incident, and the reply names the incident only.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import trio

from haft_protocol.encoding import (
    encode_error,
    encode_long_reply,
    encode_reply,
    is_long,
    join_batch,
)
from haft_protocol.errors import (
    RpcError,
    internal,
    limit_exceeded,
    not_authorized,
)
from haft_protocol.methods import LimitsResult, SpawnParams
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
from haft_protocol.value_counter import ValueCount
from haftd.caller import Caller
from haftd.core.truncation import FindHandle, truncate_batch
from haftd.logs import Log
from haftd.methods.base import DeferredReply, MethodHandler, result_of

from .jsonrpcserver import MethodTable
from .replies import (
    CANCELS,
    Answer,
    Batched,
    Cancel,
    Deferred,
    Item,
    Ready,
    Reply,
    Slot,
    Steps,
    Waiting,
    key_of,
    read_cancel,
)

_Spawns = dict[int, tuple[msgspec.Struct, SpawnParams]]
Verdicts = Sequence[RpcError | None] | Sequence[Callable[[], None]]
"""Of each spawn of a batch its clash, if it has one; where there is none, what gives up the id that is kept for it."""

_AT_ONCE = 8
"""Spawns of a batch that are started before others have their turn: some milliseconds."""


def _bare(error: RpcError) -> RpcError:
    """Drop the traceback: its frames would keep the request alive."""
    return error.with_traceback(None)


def _always_ready(method: str, params: object) -> Ready | None:
    """Nothing has to be awaited before a call is decided."""
    return None


def _nothing_found(session: str, id: str, generation: int) -> None:
    """No handle is known."""


def _nobody_asked(caller: Caller, reply: Response) -> None:
    """Nobody asks this daemon's clients anything."""


@dataclass(slots=True)
class Dispatcher:
    """Answer messages with `verbs`. `reserve` says in steps of each spawn of a batch whether it clashes, and keeps
    the ids where none does;
    `spawning` names the methods that may be one, and says which, or None. `on_reply` takes the replies to
    requests of ours. `unready` says what is to be awaited before a method with these params can be
    decided; a verb sees to that itself, but a batch's spawns are decided together. `find` gives the handle of a result that has to be cut."""

    verbs: Mapping[str, tuple[type[Any], MethodHandler]]
    reserve: Callable[[Caller, Sequence[SpawnParams]], Generator[None, None, Verdicts]]
    limits: LimitsResult
    log: Log
    spawning: Mapping[str, Callable[[Caller, Any], SpawnParams | None]] = field(
        default_factory=lambda: {"spawn": lambda caller, params: params}
    )
    on_reply: Callable[[Caller, Response], None] = _nobody_asked
    unready: Callable[[str, Any], Ready | None] = _always_ready
    find: FindHandle = _nothing_found
    _methods: MethodTable = field(init=False)

    def __post_init__(self) -> None:
        self._methods = MethodTable(self.verbs, self._fail)

    def receive(self, caller: Caller, message: bytes, room: int) -> Answer:
        """Decide a short message; `room` is how many more of its requests may wait. Never raises."""
        return self.decide(caller, self.read(message, None), room)

    def read(self, message: bytes, value_count: ValueCount | None) -> Message:
        """Read a message; a long one comes with its `value_count`. Never raises."""
        limits = self.limits
        return read_message(
            message,
            max_batch=limits.max_batch,
            max_nesting=limits.max_nesting,
            max_values=limits.max_values,
            value_count=value_count,
        )

    def decide(self, caller: Caller, read: Message, room: int) -> Answer:
        """Decide a message that was read, as `receive` does."""
        if isinstance(read, Single):
            item = read.item
            if isinstance(item, Request):
                answer = self._request(caller, item, room)
                return self.encode(answer) if isinstance(answer, Reply) else answer
            return self._unasked(caller, item)
        if isinstance(read, Batch):
            spawns, waits = self._spawns(caller, read.items)
            if waits:
                return Deferred(list(read.items), waits)
            return self._batch(caller, read.items, spawns, room)
        return encode_error(b"null", read.error)

    def resume(self, caller: Caller, deferred: Deferred, room: int) -> Steps:
        """Decide a batch that had to wait, as `receive` does."""
        deferred.is_resumed = True
        spawns, _ = self._spawns(caller, deferred.items)
        return self._batch(caller, deferred.items, spawns, room)

    async def finish(self, waiting: Waiting) -> Reply | None:
        """Wait for the answer of `waiting`; raises nothing but a cancellation."""
        error: RpcError | None = None
        result: object = None
        try:
            result = await result_of(waiting.later, in_batch=waiting.in_batch)
        except RpcError as refused:
            error = _bare(refused)
        except Exception as fault:
            error = self._fail(waiting.method, fault)
        return None if waiting.id is None else Reply(waiting.id, waiting.method, result, error)

    def encode(self, reply: Reply) -> bytes:
        """The reply as it is sent."""
        error = reply.error
        if error is None:
            try:
                return encode_reply(reply.id, reply.result)
            except Exception as fault:
                error = self._fail(reply.method, fault)
        return encode_error(reply.id, error)

    async def encode_later(self, reply: Reply) -> bytes:
        """The reply as it is sent; a long one is encoded in a thread. Raises nothing but a
        cancellation."""
        if reply.error is None and is_long(reply.result):
            try:
                return await trio.to_thread.run_sync(
                    encode_long_reply, reply.id, reply.result, abandon_on_cancel=True
                )
            except Exception as fault:
                return encode_error(reply.id, self._fail(reply.method, fault))
        return self.encode(reply)

    def join(self, slots: Sequence[Slot]) -> Generator[None, None, bytes | None]:
        """All the replies of a batch as one, none of them too long beside the others; `None` where
        there is no reply."""
        told = [
            (at, slot)
            for at, slot in enumerate(slots)
            if isinstance(slot, Reply) and slot.error is None
        ]
        results = yield from truncate_batch([reply.result for _, reply in told], self.find)
        cut = {at: result for (at, _), result in zip(told, results, strict=True)}
        replies: list[bytes] = []
        for at, slot in enumerate(slots):
            if isinstance(slot, Reply):
                replies.append(self.encode(replace(slot, result=cut[at]) if at in cut else slot))
                yield
            elif isinstance(slot, bytes):
                replies.append(slot)
        return join_batch(replies) if replies else None

    def _request(
        self, caller: Caller, request: Request, room: int, params: object = None
    ) -> Reply | bytes | Waiting | Cancel | None:
        name = request.method
        if name in CANCELS:
            return read_cancel(request)
        error: RpcError | None = None
        result: object = None
        try:
            if caller.transport != "unix" and not caller.initialized and name != "initialize":
                raise not_authorized("On a WebSocket `initialize` comes first, then anything else.")
            if room <= 0:
                limit = self.limits.max_in_flight
                raise limit_exceeded(
                    "max_in_flight", limit, "Too many requests of this connection are unanswered"
                )
            result = self._methods.call(name, caller, request.params if params is None else params)
        except RpcError as refused:
            error = _bare(refused)
        except Exception as fault:
            error = self._fail(name, fault)
        if type(result) is DeferredReply:
            return Waiting(request.id, key_of(request), name, result)
        return None if request.id is None else Reply(request.id, name, result, error)

    def _fail(self, name: str, fault: Exception) -> RpcError:
        incident = secrets.token_hex(6)
        self.log.error("verb failed", incident=incident, method=name[:64], exc_info=fault)
        return internal(incident)

    def _unasked(self, caller: Caller, item: Response | Invalid) -> bytes | None:
        """The answer to what is no request; a reply to one of ours gets none."""
        if isinstance(item, Invalid):
            return encode_error(item.id, item.error)
        self.on_reply(caller, item)
        return None

    def _batch(self, caller: Caller, items: Sequence[Item], spawns: _Spawns, room: int) -> Steps:
        """Spawns take their ids before anything runs; then they start, then all others, in order. The
        ids are kept for them meanwhile, so that nobody takes one between two spawns."""
        clash, kept = yield from self._reserved(caller, spawns)
        try:
            return (yield from self._decide(caller, items, spawns, clash, kept, room))
        finally:
            for give_up in kept.values():
                give_up()

    def _decide(
        self,
        caller: Caller,
        items: Sequence[Item],
        spawns: _Spawns,
        clash: dict[int, RpcError] | None,
        kept: dict[int, Callable[[], None]],
        room: int,
    ) -> Steps:
        slots: list[Slot] = [None] * len(items)
        cancels: list[Cancel] = []
        first = [at for at in range(len(items)) if at in spawns]
        for at in first + [at for at in range(len(items)) if at not in spawns]:
            item = items[at]
            if not isinstance(item, Request):
                slots[at] = self._unasked(caller, item)
            elif clash is not None:
                error = clash.get(at) or clash[-1]
                slots[at] = None if item.id is None else encode_error(item.id, error)
            else:
                if at in kept:
                    kept.pop(at)()
                answer = self._request(caller, item, room, spawns[at][0] if at in spawns else None)
                if isinstance(answer, Cancel):
                    cancels.append(answer)
                else:
                    if isinstance(answer, Waiting):
                        room -= 1
                        answer.in_batch = True
                    slots[at] = answer
            if at not in spawns or len(kept) % _AT_ONCE == _AT_ONCE - 1:
                yield
        if any(isinstance(slot, Waiting) for slot in slots):
            return Batched(slots, cancels)
        reply = yield from self.join(slots)
        return Batched(slots, cancels, reply) if cancels else reply

    def _spawns(self, caller: Caller, items: Sequence[Item]) -> tuple[_Spawns, list[Ready]]:
        """The spawns of a batch whose params are right, by place, with the params as they were
        given; a wrong one fails by itself. And what has to be awaited before they can be told."""
        found: _Spawns = {}
        waits: list[Ready] = []
        if caller.transport != "unix" and not caller.initialized:
            return found, waits
        for at, item in enumerate(items):
            if isinstance(item, Request) and item.method in self.spawning:
                name = item.method
                try:
                    params = read_params(item.params, self.verbs[name][0], name)
                    if (wait := self.unready(name, params)) is not None:
                        waits.append(wait)
                        continue
                    spawn = self.spawning[name](caller, params)
                except (RpcError, KeyError):
                    continue
                if spawn is not None:
                    found[at] = params, spawn
        return found, waits

    def _reserved(
        self, caller: Caller, spawns: _Spawns
    ) -> Generator[None, None, tuple[dict[int, RpcError] | None, dict[int, Callable[[], None]]]]:
        """The errors of a batch that must not run, by place; -1 is for all that have none. Else what gives up
        the ids that are kept, by place."""
        if not spawns:
            return None, {}
        try:
            verdicts = yield from self.reserve(caller, [spawn for _, spawn in spawns.values()])
        except RpcError as error:
            return {-1: error}, {}
        except Exception as fault:
            return {-1: self._fail("spawn", fault)}, {}
        by_place = dict(zip(spawns, verdicts, strict=True))
        errors = {at: one for at, one in by_place.items() if isinstance(one, RpcError)}
        if not errors:
            return None, {at: one for at, one in by_place.items() if callable(one)}
        one = next(iter(errors.values()))
        data = {key: value for key, value in one.data.items() if key != "kind"}
        errors[-1] = RpcError(one.kind, f"Nothing of this batch was run: {one.message}", **data)
        return errors, {}
