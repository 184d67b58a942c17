"""One connection: messages in, each decided where it was read, answers out.

Rules: what arrived together is answered in one write. Only an answer that waits gets a task, inside
its own cancel scope. Half a hang-up (the peer stops sending) lets what is under way finish and be
delivered; a whole one cancels it at once. Whatever goes wrong here stays here: `serve_connection`
raises nothing but the cancellation of its caller. A disconnect never touches a handle.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from types import GeneratorType
from typing import Literal, TypeVar

import trio

from haft_protocol.encoding import encode_error
from haft_protocol.errors import RpcError, limit_exceeded
from haft_protocol.methods import LimitsResult
from haft_protocol.value_counter import ValueCounter
from haftd.caller import Caller, Confinement
from haftd.client_requests import ClientRequests, Clients
from haftd.host.process.peer_process import PeerProcess
from haftd.logs import Log

from .dispatch import Dispatcher
from .outbox import Outbox
from .replies import Answer, Batched, Cancel, Deferred, Reply, Waiting
from .wire import Gone, Pace, Wire

T = TypeVar("T")

_BURST = 64  # messages answered before others get their turn: one or two milliseconds
_MUCH = 262_144  # bytes of answers that are written before more are made
_LONG = 65_536  # bytes from which on the values of a message are counted before decoding
_TURN_S = 0.002  # of a batch, before others get their turn
_HELD = 4  # times `max_queued`: what answers that had to wait may come to before it is too much


class Connections:
    """The connections there are, of all transports, and who was turned away and why."""

    def __init__(self) -> None:
        self.refused: Counter[str] = Counter()
        self._open: set[Connection] = set()
        self._left = trio.lowlevel.ParkingLot()

    def __len__(self) -> int:
        return len(self._open)

    def refuse(self, kind: str, log: Log, **facts: object) -> None:
        """Count a peer that was turned away; the log hears of the 1st, 2nd, 4th, 8th …"""
        self.refused[kind] += 1
        times = self.refused[kind]
        if times & (times - 1) == 0:
            log.warning("refused", kind=kind, times=times, **facts)

    def enter(self, connection: Connection) -> None:
        """A connection is being served."""
        self._open.add(connection)

    def leave(self, connection: Connection) -> None:
        """It is not any more; wakes who waits for that."""
        self._open.discard(connection)
        self._left.unpark_all()

    async def one_left(self, seconds: float) -> None:
        """Wait until a connection has gone, at most so long."""
        with trio.move_on_after(seconds):
            await self._left.park()

    async def finish(self, seconds: float) -> None:
        """Let every connection read no more, deliver what is under way, and close; at most so long.

        The nursery that holds them is then to be cancelled."""
        with trio.move_on_after(seconds):
            for connection in list(self._open):
                connection.finish()
            while self._open:
                await self._left.park()


def _unconfined(peer: PeerProcess) -> Confinement | None:
    """Nobody was started by this daemon."""
    return None


@dataclass(slots=True)
class RpcContext:
    """What all connections share. `on_close` is called with each caller that has gone; `confine` returns
    what a process may do that this daemon has started, and None for any other."""

    dispatcher: Dispatcher
    limits: LimitsResult
    log: Log
    on_close: Callable[[Caller], None]
    connections: Connections = field(default_factory=Connections)
    clients: Clients = field(default_factory=Clients)
    pace: Pace = field(default_factory=Pace)
    confine: Callable[[PeerProcess], Confinement | None] = _unconfined

    def caller_of(self, transport: Literal["unix", "websocket"], peer: PeerProcess) -> Caller:
        """Return the caller that a connected process is."""
        confinement = self.confine(peer)
        caller = Caller(transport, peer.pid or None, process=peer.identity, confinement=confinement)
        if confinement is not None and confinement.session and "handles" not in confinement.may:
            caller.session = confinement.session
        return caller


def start_connection(
    nursery: trio.Nursery, wire: Wire, caller: Caller, rpc_context: RpcContext
) -> None:
    """Serve a peer in a task of `nursery`; it counts from this moment."""
    connection = Connection(wire, caller, rpc_context)
    rpc_context.connections.enter(connection)
    nursery.start_soon(_serve, connection, wire, caller, rpc_context)


async def serve_connection(wire: Wire, caller: Caller, rpc_context: RpcContext) -> None:
    """Serve a peer until it goes, or is sent away; closes the wire. Raises nothing of its own."""
    connection = Connection(wire, caller, rpc_context)
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
            with trio.CancelScope(shield=True):
                await wire.close(polite=connection.polite)
        finally:
            rpc_context.connections.leave(connection)
            try:
                rpc_context.on_close(caller)
            except Exception as error:
                rpc_context.log.exception("leaving failed", client=caller.label, exc_info=error)


class Connection:
    """One peer being served. `polite`: it may still read its last reply when we close."""

    def __init__(self, wire: Wire, caller: Caller, rpc_context: RpcContext) -> None:
        self.polite = False
        self._wire = wire
        self._caller = caller
        self._rim = rpc_context
        self._reading = trio.CancelScope()
        self._in_flight = 0
        self._held = 0
        self._deferred: list[Deferred] = []
        self._long = min(
            _LONG, rpc_context.limits.max_values
        )  # No shorter one has too many values.
        self._scopes: dict[object, list[trio.CancelScope]] = {}
        self._answered = trio.lowlevel.ParkingLot()

    def finish(self) -> None:
        """Read no more; deliver what is under way, then close."""
        self.polite = True
        self._reading.cancel()

    async def run(self) -> None:
        """Serve until the peer is done or gone."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._outbox = Outbox(self._wire, nursery, self._rim.limits.max_queued, self._gone)
            try:
                await self._listen()
                await self._deliver()
            except Gone as why:
                self._gone(str(why))
            nursery.cancel_scope.cancel()

    def _gone(self, why: str) -> None:
        self._rim.log.debug("client gone", client=self._caller.label, why=why)
        self.polite = False
        self._nursery.cancel_scope.cancel()

    async def _listen(self) -> None:
        """Read, and be asked meanwhile: who is not read any more cannot answer."""
        wire, outbox, clients = self._wire, self._outbox, self._rim.clients

        def send(message: bytes) -> None:
            outbox.send(wire.frame(message))

        clients.open(ClientRequests(self._caller, outbox, send, self._rim.limits.max_nesting))
        try:
            with self._reading:
                await self._read()
        finally:
            clients.close(self._caller)

    async def _read(self) -> None:
        wire, outbox, dispatcher = self._wire, self._outbox, self._rim.dispatcher
        frame = wire.frame
        while (messages := await wire.receive()) is not None:
            answers: list[bytes] = []
            size = 0
            for count, message in enumerate(messages, 1):
                if len(message) <= self._long:
                    answer = dispatcher.receive(self._caller, message, self._room)
                else:
                    answer = await self._decide_long(message)
                if isinstance(answer, GeneratorType):
                    answer = await _in_turns(answer)
                reply = self._taken(answer)
                if reply is not None:
                    answers.append(frame(reply))
                    size += len(reply)
                if count % _BURST == 0 or size > _MUCH:
                    if answers:
                        outbox.send(b"".join(answers))
                        answers, size = [], 0
                    await trio.lowlevel.checkpoint()
                    await outbox.room()
            if answers:
                outbox.send(answers[0] if len(answers) == 1 else b"".join(answers))
            if wire.fault is not None:
                self.polite = True
                self._rim.connections.refuse("fault", self._rim.log, why=wire.fault.message)
                outbox.send(frame(encode_error(b"null", wire.fault)))
                return
            if not outbox.has_room:
                await outbox.room()

    async def _decide_long(self, message: bytes) -> Answer:
        """Decide a long message; others have their turns between what is done to it."""
        counter = ValueCounter(message, self._rim.limits.max_values)
        while not counter.step():
            await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        dispatcher = self._rim.dispatcher
        read = dispatcher.read(message, counter.count)
        await trio.lowlevel.checkpoint()
        return dispatcher.decide(self._caller, read, self._room)

    @property
    def _room(self) -> int:
        return self._rim.limits.max_in_flight - self._in_flight

    def _taken(self, answer: Answer) -> bytes | None:
        """The reply of an answer, `None` when there is none, or none yet."""
        if answer is None or type(answer) is bytes:
            return answer
        if isinstance(answer, Waiting):
            self._start(answer, None)
        elif isinstance(answer, Batched):
            for slot in answer.slots:
                if isinstance(slot, Waiting):
                    self._start(slot, answer)
            for cancel in answer.cancels:
                self._cancel(cancel)
            return answer.reply
        elif isinstance(answer, Deferred):
            self._in_flight += 1
            self._deferred.append(answer)
            self._nursery.start_soon(self._resume, answer)
        elif isinstance(answer, Cancel):
            self._cancel(answer)
        return None

    def _cancel(self, cancel: Cancel) -> None:
        for scope in self._scopes.get(cancel.key, ()):
            scope.cancel()
        for deferred in self._deferred:
            deferred.withdraw(cancel)

    async def _resume(self, deferred: Deferred) -> None:
        """Decide a batch when it can be; what came behind it has been decided meanwhile."""
        try:
            if self._room >= 0:  # Else each of it is refused for that.
                await deferred.ready()
            # It made room for itself.
            steps = self._rim.dispatcher.resume(self._caller, deferred, self._room + 1)
            answer = await _in_turns(steps)
            self._deferred.remove(deferred)
            if isinstance(answer, Batched):
                answer.cancels += deferred.cancels
            reply = self._taken(answer)
            if reply is not None:
                await self._send(reply)
        finally:
            self._in_flight -= 1
            self._answered.unpark_all()

    def _start(self, waiting: Waiting, batch: Batched | None) -> None:
        scope = trio.CancelScope()
        self._in_flight += 1
        if waiting.id is not None:
            self._scopes.setdefault(waiting.key, []).append(scope)
        self._nursery.start_soon(self._wait, waiting, scope, batch)

    async def _wait(self, waiting: Waiting, scope: trio.CancelScope, batch: Batched | None) -> None:
        dispatcher = self._rim.dispatcher
        answer: Reply | None = None
        try:
            with scope:
                answer = await dispatcher.finish(waiting)
            if scope.cancelled_caught:
                answer = waiting.cancelled()
            if waiting.id is not None:
                self._forget(waiting.key, scope)
            reply: bytes | None = None
            if batch is not None:
                batch.put(waiting, answer)
                if batch.is_whole:
                    reply = await _in_turns(dispatcher.join(batch.slots))
            elif answer is not None:
                reply = await dispatcher.encode_later(answer)
            if reply is not None:
                await self._send(reply)
        finally:
            self._in_flight -= 1
            self._answered.unpark_all()

    async def _send(self, reply: bytes) -> None:
        """Send a reply that had to wait."""
        if not self._outbox.has_room:
            await self._hold(len(reply))
        self._outbox.send(self._wire.frame(reply))

    async def _hold(self, size: int) -> None:
        """Keep a reply until the peer has taken some of those before it; not without a bound."""
        bound = _HELD * self._rim.limits.max_queued
        self._held += size
        try:
            if self._held > bound:
                self._gone(f"more than {bound} bytes (4 times `max_queued`) wait for it to read")
            await self._outbox.room()
        finally:
            self._held -= size

    def _forget(self, key: object, scope: trio.CancelScope) -> None:
        scopes = self._scopes[key]
        scopes.remove(scope)
        if not scopes:
            del self._scopes[key]

    async def _deliver(self) -> None:
        """Wait until what is under way was answered and written, or the peer has gone."""
        if not self._in_flight and not self._outbox.queued:
            return
        async with trio.open_nursery() as watched:
            watched.start_soon(self._watch)
            while self._in_flight:
                await self._answered.park()
            await self._outbox.empty()
            watched.cancel_scope.cancel()

    async def _watch(self) -> None:
        await self._wire.hung_up()
        self._gone("hung up")


async def _in_turns(steps: Generator[None, None, T]) -> T:
    """Do all the steps; others have their turns between them. A cancellation comes behind the last."""
    began = time.monotonic()
    while True:
        try:
            next(steps)
        except StopIteration as done:
            made: T = done.value
            return made
        if time.monotonic() - began >= _TURN_S:
            await trio.lowlevel.cancel_shielded_checkpoint()
            began = time.monotonic()


def full(limits: LimitsResult) -> RpcError:
    """What a connection over `max_connections` is told."""
    return limit_exceeded(
        "max_connections", limits.max_connections, "haftd serves no more connections now"
    )
