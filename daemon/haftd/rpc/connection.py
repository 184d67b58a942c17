"""Connection: read messages, decide each at once, send replies.

Pending requests finish after the end of input, and are cancelled after a hang-up.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Generator
from types import GeneratorType
from typing import Literal, TypeVar

import msgspec
import trio

from haft_protocol.encoding import encode_error, is_long
from haft_protocol.errors import RpcError, limit_exceeded, request_cancelled
from haft_protocol.json_text import ValueCounter
from haft_protocol.methods import LimitsResult
from haftd.caller import Caller, Confinement
from haftd.client_requests import ClientRequests, Clients
from haftd.host.process.peer_process import PeerProcess
from haftd.logs import Log
from haftd.methods.base import HandleWait
from haftd.methods.wait import RegisteredWait, register

from .connection_tasks import ConnectionTasks
from .dispatch import Dispatcher
from .outbox import Outbox
from .replies import Answer, Cancel, PendingBatch, PendingRequest, Reply, SuspendedBatch
from .wire import Disconnected, Timeouts, Wire

T = TypeVar("T")

_BURST = 64  # messages between turns of other tasks: one or two milliseconds
_WRITE_BYTES = 262_144  # bytes of replies written before more are produced
_LONG_MESSAGE = 65_536  # bytes above which values are counted before decoding
_TURN_S = 0.002  # of a batch, between turns of other tasks
_LONG_REPLIES = 2  # replies with long texts under way, above which no request is read
_MAX_LONG_REPLIES = 4  # of all connections: read, converted and sent at once
_DRAIN_S = 0.1  # for a peer to read a long reply before another one is begun
_LONG_FRAME = 1 << 20  # bytes above which a thread frames a reply: a copy of them, without the GIL
_HELD_FACTOR = 4  # times `max_queued`: bound for pending requests' results


class Connections:
    """Open connections of all transports, and counts of refused peers."""

    def __init__(self) -> None:
        self.refused: Counter[str] = Counter()
        self._open: set[Connection] = set()
        self._left = trio.lowlevel.ParkingLot()

    def __len__(self) -> int:
        return len(self._open)

    def refuse(self, kind: str, log: Log, **facts: object) -> None:
        """Count a refused peer; log the 1st, 2nd, 4th, 8th …"""
        self.refused[kind] += 1
        times = self.refused[kind]
        if times & (times - 1) == 0:
            log.warning("refused", kind=kind, times=times, **facts)

    def enter(self, connection: Connection) -> None:
        self._open.add(connection)

    def leave(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._left.unpark_all()

    async def wait_for_close(self, seconds: float) -> None:
        with trio.move_on_after(seconds):
            await self._left.park()

    async def finish(self, seconds: float) -> None:
        """Stop reading, deliver pending replies and close all, within `seconds`.

        Cancel the connections' nursery afterwards.
        """
        with trio.move_on_after(seconds):
            for connection in list(self._open):
                connection.finish()
            while self._open:
                await self._left.park()


def _unconfined(peer: PeerProcess) -> Confinement | None:
    return None


class RpcContext(msgspec.Struct):
    """State shared by connections."""

    dispatcher: Dispatcher
    limits: LimitsResult
    log: Log
    on_close: Callable[[Caller], None]
    """Called with each disconnected caller."""
    connections: Connections = msgspec.field(default_factory=Connections)
    clients: Clients = msgspec.field(default_factory=Clients)
    timeouts: Timeouts = msgspec.field(default_factory=Timeouts)
    long_replies: trio.CapacityLimiter = msgspec.field(
        default_factory=lambda: trio.CapacityLimiter(_MAX_LONG_REPLIES)
    )
    """Held by calls with long texts, which are copies of output."""
    confine: Callable[[PeerProcess], Confinement | None] = _unconfined
    """Return the permissions of a tool's process, None for another process."""

    def caller_of(self, transport: Literal["unix", "websocket"], peer: PeerProcess) -> Caller:
        confinement = self.confine(peer)
        caller = Caller(transport, peer.pid or None, process=peer.identity, confinement=confinement)
        if confinement is not None and confinement.session and "handles" not in confinement.may:
            caller.session = confinement.session
        return caller


def start_connection(
    nursery: trio.Nursery, wire: Wire, caller: Caller, rpc_context: RpcContext
) -> None:
    """Serve a peer in a task of `nursery`; the connection counts at once."""
    connection = Connection(wire, caller, rpc_context, nursery)
    rpc_context.connections.enter(connection)
    nursery.start_soon(_serve, connection, wire, caller, rpc_context)


async def serve_connection(wire: Wire, caller: Caller, rpc_context: RpcContext) -> None:
    """Serve a peer until the end, then close the wire. Raises only a cancellation."""
    async with trio.open_nursery() as nursery:
        connection = Connection(wire, caller, rpc_context, nursery)
        rpc_context.connections.enter(connection)
        await _serve(connection, wire, caller, rpc_context)


async def _serve(
    connection: Connection, wire: Wire, caller: Caller, rpc_context: RpcContext
) -> None:
    try:
        await connection.run()
    except Exception as error:
        rpc_context.connections.refused["fault"] += 1
        rpc_context.log.exception("connection failed", client=caller.label, exc_info=error)
    finally:
        try:
            await wire.close(graceful=connection.graceful)
        finally:
            rpc_context.connections.leave(connection)
            try:
                rpc_context.on_close(caller)
            except Exception as error:
                rpc_context.log.exception("leaving failed", client=caller.label, exc_info=error)


class Connection:
    """Served peer; `graceful` if the peer may still read the last reply."""

    def __init__(
        self, wire: Wire, caller: Caller, rpc_context: RpcContext, nursery: trio.Nursery
    ) -> None:
        """`nursery` outlives the connection, and runs its tasks."""
        self.graceful = False
        self._wire = wire
        self._caller = caller
        self._context = rpc_context
        self._reading = trio.CancelScope()
        self._delivery: trio.CancelScope | None = None
        self._tasks = ConnectionTasks(nursery, self._fail)
        self._fault: Exception | None = None
        self._outbox = Outbox(wire, self._tasks, rpc_context.limits.max_queued, self._gone)
        self._in_flight = 0
        self._long_replies = 0
        self._running_long = 0
        """Those of `_long_replies` whose output is read or sent; the others wait for their turn."""
        self._held = 0
        self._deferred: list[SuspendedBatch] = []
        self._long = min(
            _LONG_MESSAGE, rpc_context.limits.max_values
        )  # shorter messages cannot have too many values
        self._pending: dict[object, list[_PendingCall]] = {}
        """Calls by their ids' values."""
        self._waits: set[_PendingCall] = set()
        """Calls without a task."""
        self._to_run: deque[tuple[_PendingCall, trio.CancelScope]] = deque()
        """Calls whose tasks have not begun, in the order of their requests."""
        self._is_over = False
        self._answered: trio.lowlevel.ParkingLot | None = None
        self._long_sent: trio.lowlevel.ParkingLot | None = None

    def finish(self) -> None:
        """Stop reading, and close after pending replies."""
        self.graceful = True
        self._reading.cancel()

    async def run(self) -> None:
        """Serve until the end. Raises the first fault of a task, and a cancellation."""
        requests = ClientRequests(
            self._caller, self._outbox, self._request, self._context.limits.max_nesting
        )
        clients = self._context.clients
        try:
            clients.open(requests)
            try:
                with self._reading:
                    await self._read()
            finally:
                clients.close(self._caller)
            if not self._is_over:
                await self._deliver()
        except Disconnected as why:
            self._gone(str(why))
        finally:
            self._withdraw()  # no call starts a task after the last has ended
            await self._tasks.end()
        if self._fault is not None:
            raise self._fault

    def _gone(self, why: str) -> None:
        self._context.log.debug("client gone", client=self._caller.label, why=why)
        self.graceful = False
        self._give_up()

    def _fail(self, fault: Exception) -> None:
        self._fault = self._fault or fault
        self._give_up()

    def _give_up(self) -> None:
        self._reading.cancel()
        if self._delivery is not None:
            self._delivery.cancel()
        self._tasks.cancel()
        self._withdraw()

    def _withdraw(self) -> None:
        """Cancel the calls without a task: a late one must not read output for a peer that is gone."""
        self._is_over = True
        calls, self._waits = self._waits, set()
        for call in calls:
            call.end_wait()
            self._context.dispatcher.complete(call.request, call.cancelled)
            self._note_answer()

    def _request(self, message: bytes) -> None:
        """Send a request of the daemon."""
        self._outbox.send(self._wire.frame(message))

    async def _read(self) -> None:
        wire, outbox, caller = self._wire, self._outbox, self._caller
        dispatcher, max_in_flight = self._context.dispatcher, self._context.limits.max_in_flight
        frame, long = wire.frame, self._long
        while (messages := await wire.receive()) is not None:
            answers: list[bytes] = []
            size = 0
            for count, message in enumerate(messages, 1):
                if len(message) <= long:
                    answer = dispatcher.receive(caller, message, max_in_flight - self._in_flight)
                else:
                    answer = await self._decide_long(message)
                if type(answer) is bytes:
                    reply: bytes | None = answer
                elif isinstance(answer, GeneratorType):
                    reply = self._accept_answer(await _run_steps(answer))
                else:
                    reply = self._accept_answer(answer)
                if reply is not None:
                    is_short = len(reply) <= _LONG_FRAME
                    answers.append(frame(reply) if is_short else await self._frame(reply))
                    size += len(reply)
                if (
                    count % _BURST == 0
                    or size > _WRITE_BYTES
                    or self._long_replies >= _LONG_REPLIES
                ):
                    if answers:
                        outbox.send(b"".join(answers))
                        answers, size = [], 0
                    await trio.lowlevel.checkpoint()
                    await self._wait_for_long_replies()
                    await outbox.room()
            if answers:
                outbox.send(answers[0] if len(answers) == 1 else b"".join(answers))
            if wire.fault is not None:
                self.graceful = True
                self._context.connections.refuse("fault", self._context.log, why=wire.fault.message)
                outbox.send(frame(encode_error(b"null", wire.fault)))
                return
            if outbox.queued:
                await outbox.room()

    async def _decide_long(self, message: bytes) -> Answer:
        counter = ValueCounter(message, self._context.limits.max_values)
        while not counter.step():
            await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        dispatcher = self._context.dispatcher
        read = dispatcher.read(message, counter.count)
        await trio.lowlevel.checkpoint()
        return dispatcher.decide(self._caller, read, self._room)

    @property
    def _room(self) -> int:
        return self._context.limits.max_in_flight - self._in_flight

    def _accept_answer(self, answer: Answer) -> bytes | None:
        if answer is None or type(answer) is bytes:
            return answer
        if isinstance(answer, PendingRequest):
            self._start(answer, None)
        elif isinstance(answer, PendingBatch):
            for slot in answer.slots:
                if isinstance(slot, PendingRequest):
                    self._start(slot, answer)
            for cancel in answer.cancels:
                self._cancel(cancel)
            return answer.reply
        elif isinstance(answer, SuspendedBatch):
            self._in_flight += 1
            self._deferred.append(answer)
            self._tasks.start_soon(self._resume, answer)
        elif isinstance(answer, Cancel):
            self._cancel(answer)
        return None

    def _cancel(self, cancel: Cancel) -> None:
        for call in tuple(self._pending.get(cancel.key, ())):
            self._cancel_call(call)
        for deferred in self._deferred:
            deferred.withdraw(cancel)

    async def _resume(self, deferred: SuspendedBatch) -> None:
        try:
            if self._room >= 0:  # without room, each request of the batch is refused
                await deferred.ready()
            # Room that the batch itself occupies.
            steps = self._context.dispatcher.resume(self._caller, deferred, self._room + 1)
            answer = await _run_steps(steps)
            self._deferred.remove(deferred)
            if isinstance(answer, PendingBatch):
                answer.cancels += deferred.cancels
            reply = self._accept_answer(answer)
            if reply is not None:
                await self._send(reply)
        finally:
            self._note_answer()

    def _start(self, request: PendingRequest, batch: PendingBatch | None) -> None:
        self._in_flight += 1
        call = _PendingCall(self, request, batch)
        if request.id is not None:
            self._pending.setdefault(request.key, []).append(call)
        self._go_on(call)

    def _go_on(self, call: _PendingCall) -> None:
        """Await the call's pending reply, in a task only if it needs one."""
        later = call.request.later
        if not isinstance(later, HandleWait):
            # Also for a cancelled call: its task undoes the read of a long text.
            call.scope = trio.CancelScope()
            if later.run_encoding is not None and not call.is_long:
                call.is_long = True
                self._long_replies += 1
            if call.is_cancelled or self._is_over:
                call.scope.cancel()
            self._to_run.append((call, call.scope))
            self._tasks.start_soon(self._run_next)
        elif self._is_over:
            self._context.dispatcher.complete(call.request, call.cancelled)
            self._note_answer()
        elif call.is_cancelled:
            cancelled = self._context.dispatcher.complete(call.request, call.cancelled)
            self._accept_result(call, cancelled)
        else:
            self._waits.add(call)
            call.wait = register(later, call.complete, in_batch=call.request.in_batch)

    async def _run_next(self) -> None:
        """Run the first of the calls that have not begun; a task is not bound to a call, as trio runs
        the tasks of a pass in either order."""
        call, scope = self._to_run.popleft()
        answer: Reply | PendingRequest | None = None
        try:
            with scope:
                if call.is_long and not call.runs_long:
                    await self._begin_long(call)
                answer = await self._context.dispatcher.finish(call.request)
        except BaseException:
            self._note_long(call)
            self._note_answer()
            raise
        call.scope = None
        if scope.cancelled_caught:
            answer = call.request.cancelled()
        self._accept_result(call, answer)

    def complete_call(self, call: _PendingCall, result_of: Callable[[], object]) -> None:
        """Take the result of a call without a task, unless the peer is gone. Never raises."""
        if call not in self._waits:
            return
        self._waits.remove(call)
        call.end_wait()
        try:
            self._accept_result(call, self._context.dispatcher.complete(call.request, result_of))
        except Exception as fault:
            self._fail(fault)

    def _cancel_call(self, call: _PendingCall) -> None:
        """Cancel a call at once, or, if it is due, unless it is answered then."""
        call.is_cancelled = True
        if call.scope is not None:
            call.scope.cancel()
        elif call.wait is not None and call.wait.withdraw():
            self.complete_call(call, call.cancelled)

    def _accept_result(self, call: _PendingCall, answer: Reply | PendingRequest | None) -> None:
        """Await the call's next reply, or send its last one, in a task if that may wait."""
        if isinstance(answer, PendingRequest):
            self._go_on(call)
            return
        batch = call.batch
        if call.request.id is not None:
            self._forget(call)
        if batch is not None:
            taken = None if answer is None else self._context.dispatcher.take(answer, batch.budget)
            batch.put(call.request, taken)
            self._note_long(call)
            if batch.is_whole:
                self._tasks.start_soon(self._send_batch, batch)
                return
        elif answer is not None and (is_long(answer.result) or not self._outbox.has_room):
            self._tasks.start_soon(self._send_reply, call, answer)
            return
        elif answer is not None:
            self._outbox.send(self._wire.frame(self._context.dispatcher.encode(answer)))
        self._note_long(call)
        self._note_answer()

    async def _send_reply(self, call: _PendingCall, reply: Reply) -> None:
        try:
            await self._send(*await self._context.dispatcher.encode_later(reply))
            if call.runs_long:
                with trio.move_on_after(_DRAIN_S):
                    await self._outbox.room()
        finally:
            self._note_long(call)
            self._note_answer()

    def _note_long(self, call: _PendingCall) -> None:
        """Note that a call's long reply, if it has one, is under way no more."""
        if call.is_long:
            if call.runs_long:
                self._running_long -= 1
                self._context.long_replies.release_on_behalf_of(call)
            call.is_long = call.runs_long = False
            self._long_replies -= 1
            if self._long_sent is not None:
                self._long_sent.unpark_all()

    async def _begin_long(self, call: _PendingCall) -> None:
        """Wait for the turn of a long reply: waits that become due together would hold a copy each."""
        while self._running_long >= _LONG_REPLIES:
            await self._next_long_sent()
        self._running_long += 1
        limiter = self._context.long_replies
        try:
            # Without a checkpoint if there is room: calls begin in the order of their requests.
            limiter.acquire_on_behalf_of_nowait(call)
        except trio.WouldBlock:
            try:
                await limiter.acquire_on_behalf_of(call)
            except BaseException:
                self._running_long -= 1
                raise
        call.runs_long = True

    async def _wait_for_long_replies(self) -> None:
        while self._long_replies >= _LONG_REPLIES:
            await self._next_long_sent()

    async def _next_long_sent(self) -> None:
        if self._long_sent is None:
            self._long_sent = trio.lowlevel.ParkingLot()
        await self._long_sent.park()

    async def _send_batch(self, batch: PendingBatch) -> None:
        try:
            reply = await _run_steps(self._context.dispatcher.join(batch.slots, batch.budget))
            if reply is not None:
                await self._send(reply)
        finally:
            self._note_answer()

    def _note_answer(self) -> None:
        self._in_flight -= 1
        if self._answered is not None:
            self._answered.unpark_all()

    async def _send(self, reply: bytes, *more: bytes) -> None:
        frame = await self._frame(reply, *more)
        if not self._outbox.has_room:
            await self._hold_reply(len(frame))
        self._outbox.send(frame)

    async def _frame(self, reply: bytes, *more: bytes) -> bytes:
        """Frame a reply, a long one with turns for other tasks; a cancellation takes effect later."""
        if len(reply) + sum(map(len, more)) > _LONG_FRAME:
            with trio.CancelScope(shield=True):
                return await trio.to_thread.run_sync(self._wire.frame, reply, *more)
        return self._wire.frame(reply, *more)

    async def _hold_reply(self, size: int) -> None:
        bound = _HELD_FACTOR * self._context.limits.max_queued
        self._held += size
        try:
            if self._held > bound:
                self._gone(f"more than {bound} bytes (4 times `max_queued`) wait for it to read")
            await self._outbox.room()
        finally:
            self._held -= size

    def _forget(self, call: _PendingCall) -> None:
        key = call.request.key
        calls = self._pending[key]
        calls.remove(call)
        if not calls:
            del self._pending[key]

    async def _deliver(self) -> None:
        if not self._in_flight and not self._outbox.queued:
            return
        async with trio.open_nursery() as watched:
            self._delivery = watched.cancel_scope
            watched.start_soon(self._watch)
            if self._wire.fault is not None:
                watched.start_soon(self._wire.discard_input)
            self._answered = trio.lowlevel.ParkingLot()
            while self._in_flight:
                await self._answered.park()
            await self._outbox.empty()
            watched.cancel_scope.cancel()

    async def _watch(self) -> None:
        await self._wire.hung_up()
        self._gone("hung up")


class _PendingCall:
    """Call that waits: registered at handles, or in a task with `scope`."""

    __slots__ = (
        "_connection",
        "batch",
        "is_cancelled",
        "is_long",
        "request",
        "runs_long",
        "scope",
        "wait",
    )

    def __init__(
        self, connection: Connection, request: PendingRequest, batch: PendingBatch | None
    ) -> None:
        self._connection = connection
        self.request = request
        self.batch = batch
        self.scope: trio.CancelScope | None = None
        self.wait: RegisteredWait | None = None
        self.is_cancelled = False
        self.is_long = False
        """True while the reply's long text, a copy of the output, is converted and sent, or is about to be."""
        self.runs_long = False

    def complete(self, result_of: Callable[[], object]) -> None:
        self._connection.complete_call(self, result_of)

    def end_wait(self) -> None:
        if self.wait is not None:
            self.wait.withdraw()
            self.wait = None

    def cancelled(self) -> object:
        if isinstance(self.request.later, HandleWait):
            self.request.later.on_cancel(self.is_cancelled)
        raise request_cancelled()


async def _run_steps(steps: Generator[None, None, T]) -> T:
    """Run all steps, with turns for other tasks; a cancellation takes effect after the last."""
    began = time.monotonic()
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
        if time.monotonic() - began >= _TURN_S:
            await trio.lowlevel.cancel_shielded_checkpoint()
            began = time.monotonic()


def full(limits: LimitsResult) -> RpcError:
    return limit_exceeded(
        "max_connections", limits.max_connections, "haftd cannot serve more connections now"
    )
