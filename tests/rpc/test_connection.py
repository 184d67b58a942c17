"""A connection on a scripted wire: bounds and ends."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

import pytest
import trio
import trio.testing

from haft_protocol.errors import RpcError
from haft_protocol.states import Running, Screen
from haftd.caller import Caller
from haftd.core import truncation
from haftd.methods.base import DeferredReply
from haftd.rpc.connection import Connection, serve_connection, start_connection
from haftd.rpc.wire import Disconnected
from tests.patience import PATIENCE_S

from .rig import Late, Name, Rig, limits, request


class Told:
    """A wire with these messages. Writes are accepted when `reads` is set, or never."""

    transport: Literal["unix", "websocket"] = "unix"
    fault: RpcError | None = None

    def __init__(self, *messages: bytes, then: BaseException | None = None) -> None:
        self.messages: Sequence[bytes] = messages
        self.then = then
        self.reads = trio.Event()
        self.over = trio.Event()
        self.written = b""
        self.graceful: bool | None = None

    async def receive(self) -> list[bytes] | None:
        await trio.lowlevel.checkpoint()
        messages, self.messages = list(self.messages), ()
        if messages:
            return messages
        if self.then is not None:
            raise self.then
        await self.over.wait()
        return None

    def frame(self, message: bytes, *more: bytes) -> bytes:
        return b"".join((message, *more, b"\n"))

    def write(self, data: bytes | memoryview) -> int:
        if not self.reads.is_set():
            return 0
        self.written += bytes(data)
        return len(data)

    async def send(self, data: bytes | memoryview) -> int:
        await self.reads.wait()
        await trio.lowlevel.checkpoint()
        return self.write(data)

    async def writable(self) -> None: ...

    async def hung_up(self) -> None:
        await trio.sleep_forever()

    async def discard_input(self) -> None: ...

    async def close(self, *, graceful: bool) -> None:
        self.graceful = graceful

    def replies(self) -> dict[int, dict[str, object]]:
        return {one["id"]: one for one in map(json.loads, self.written.splitlines())}


async def test_the_values_of_a_message_are_bounded_however_short_it_is() -> None:
    """Only a message longer than the limit can have too many, and only such a message is
    counted."""
    rig = Rig(limits=limits(max_values=100))
    wire = Told(
        request("none", 1, a=[0] * 200), request("echo", 2, text="x" * 500), request("ping", 3)
    )
    wire.reads.set()
    wire.over.set()
    await serve_connection(wire, Caller("unix"), rig.rpc_context)
    told = wire.replies()
    error = told[1]["error"]
    assert isinstance(error, dict) and error["data"]["limit"] == "max_values"
    assert told[2]["result"] == "x" * 500 and "result" in told[3]


async def test_calls_with_a_task_begin_in_the_order_of_their_requests(
    nursery: trio.Nursery,
) -> None:
    rig = Rig(limits=limits(max_in_flight=64))
    for turn in range(12):  # a pass of the loop runs its tasks in either order, at random
        names = [f"{turn}.{n}" for n in range(5)]
        wire = Told(*(request("wait", n, name=name) for n, name in enumerate(names)))
        nursery.start_soon(serve_connection, wire, Caller("unix"), rig.rpc_context)
        await trio.testing.wait_all_tasks_blocked()
        assert rig.begun == names
        rig.begun.clear()


async def test_unread_replies_are_kept_up_to_a_bound(nursery: trio.Nursery) -> None:
    """Four times `max_queued`, beside the queue; a reply that was read counts no more."""
    rig = Rig(limits=limits(max_queued=1000, max_in_flight=64))
    calls = [request("late", n, name="g", size=900) for n in range(5)]
    wire = Told(*calls)
    nursery.start_soon(serve_connection, wire, Caller("unix"), rig.rpc_context)
    for _ in range(3):
        await rig.until(lambda: rig.waiting == 5)
        (connection,) = rig.rpc_context.connections._open
        rig.gates.pop("g").set()
        await trio.testing.wait_all_tasks_blocked()
        assert connection._held > 3000 and not rig.gone
        wire.reads.set()
        await trio.testing.wait_all_tasks_blocked()
        assert connection._held == 0 and len(wire.replies()) == 5
        wire.reads = trio.Event()
        for message in calls:
            answer = rig.rpc_context.dispatcher.receive(connection._caller, message, 64)
            assert connection._accept_answer(answer) is None
    await rig.until(lambda: rig.waiting == 5)
    for n in (5, 6):
        message = request("late", n, name="g", size=900)
        connection._accept_answer(
            rig.rpc_context.dispatcher.receive(connection._caller, message, 64)
        )
    await rig.until(lambda: rig.waiting == 7)
    rig.gates.pop("g").set()
    await rig.until(lambda: rig.gone)
    assert wire.graceful is False
    why = [line["why"] for line in rig.lines if line["event"] == "client gone"]
    assert why and all("max_queued" in one for one in why)


@pytest.mark.parametrize("size", [10, 200_000], ids=["encoded at once", "encoded in a thread"])
async def test_no_request_is_read_while_two_long_texts_are_on_their_way(
    nursery: trio.Nursery, size: int
) -> None:
    """Each of them is a copy of the output: a hundred requests sent ahead made a hundred copies."""
    rig = Rig(limits=limits(max_in_flight=64))
    names = [f"g{n}" for n in range(5)]
    calls = [request("long", n, name=name, size=size) for n, name in enumerate(names)]
    wire = Told(*calls, request("note", 9, name="behind"))
    wire.reads.set()
    nursery.start_soon(serve_connection, wire, Caller("unix"), rig.rpc_context)
    for done in range(5):
        await rig.until(lambda done=done: len(rig.begun) == min(done + 2, 5))
        await trio.testing.wait_all_tasks_blocked()
        assert rig.begun == names[: done + 2]
        assert bool(rig.calls) == (done + 2 > 5)
        rig.gates[names[done]].set()
    await rig.until(lambda: rig.calls == ["behind"])
    await trio.testing.wait_all_tasks_blocked()


@pytest.mark.parametrize(
    ("then", "graceful", "faults"),
    [(None, False, 0), (Disconnected("planted"), False, 0), (ZeroDivisionError(), False, 1)],
)
async def test_only_a_disconnected_peer_is_waited_for_at_the_end(
    then: BaseException | None, graceful: bool, faults: int
) -> None:
    rig = Rig()
    wire = Told(request("ping", 1), then=then)
    wire.reads.set()
    wire.over.set()
    await serve_connection(wire, Caller("unix"), rig.rpc_context)
    assert (wire.graceful, rig.rpc_context.connections.refused["fault"]) == (graceful, faults)


async def test_a_disconnected_peer_may_read_its_last_reply(nursery: trio.Nursery) -> None:
    rig = Rig()
    wire = Told(request("wait", 1, name="g"))
    wire.reads.set()
    nursery.start_soon(serve_connection, wire, Caller("unix"), rig.rpc_context)
    await rig.until(lambda: rig.waiting)
    (connection,) = rig.rpc_context.connections._open
    connection.finish()
    rig.gates["g"].set()
    await rig.until(lambda: rig.gone)
    assert wire.graceful and wire.replies()[1]["result"] == "g"


async def test_nothing_is_kept_of_an_answered_call(nursery: trio.Nursery) -> None:
    rig = Rig()
    wire = Told(*(request("wait", 1, name=name) for name in "ab"))
    wire.reads.set()
    nursery.start_soon(serve_connection, wire, Caller("unix"), rig.rpc_context)
    await rig.until(lambda: rig.waiting == 2)
    (connection,) = rig.rpc_context.connections._open
    for name, left in (("a", 1), ("b", 0)):
        rig.gates[name].set()
        await trio.testing.wait_all_tasks_blocked()
        assert len(connection._pending.get(1, ())) == left
    assert connection._pending == {} and connection._in_flight == 0
    wire.over.set()


async def _await_bells(
    rig: Rig, nursery: trio.Nursery, *messages: bytes
) -> tuple[Told, Connection]:
    wire = Told(*messages)
    wire.reads.set()
    nursery.start_soon(serve_connection, wire, Caller("unix"), rig.rpc_context)
    await trio.testing.wait_all_tasks_blocked()
    (connection,) = rig.rpc_context.connections._open
    return wire, connection


@pytest.mark.parametrize("result", ["short", "long" * 100_000, DeferredReply, ZeroDivisionError])
async def test_a_call_without_a_task_is_answered_once_its_condition_holds(
    nursery: trio.Nursery, result: object
) -> None:
    async def later() -> str:
        return "later"

    def then(_: object) -> object:
        if result is ZeroDivisionError:
            raise ZeroDivisionError("secret detail")
        return DeferredReply(later) if result is DeferredReply else result

    rig = Rig()
    rig.bells["g"].then = then
    wire, connection = await _await_bells(
        rig, nursery, request("await_bell", 1, name="g"), request("ping", 2)
    )
    assert list(wire.replies()) == [2] and connection._in_flight == 1
    rig.bells["g"].ring()
    with trio.fail_after(PATIENCE_S):
        while 1 not in wire.replies():
            await trio.lowlevel.checkpoint()
    reply = wire.replies()[1]
    if result is ZeroDivisionError:
        assert reply["error"]["data"]["kind"] == "internal_error"  # type: ignore[index]
    else:
        assert reply["result"] == ("later" if result is DeferredReply else result)
    await trio.testing.wait_all_tasks_blocked()
    assert connection._pending == {} and connection._in_flight == 0
    assert not connection._waits and not rig.bells["g"].listeners
    wire.over.set()


async def test_long_texts_of_waits_that_become_due_together_are_read_in_turn(
    nursery: trio.Nursery,
) -> None:
    """Two at a time; a cancelled one gives its turn to the next."""
    rig, numbers = Rig(), iter(range(6))
    bell = rig.bells["g"]
    bell.then = lambda _: rig.long(Caller("unix"), Late(name=f"g{next(numbers)}", size=9))
    wire, connection = await _await_bells(
        rig, nursery, *(request("await_bell", n, name="g") for n in range(6))
    )
    bell.ring()
    for done in range(5):
        await trio.testing.wait_all_tasks_blocked()
        assert len(rig.begun) == done + 2
        name = next(name for name in rig.begun if not rig.gates[name].is_set())
        if done == 2:
            (call,) = connection._pending[int(name[1:])]
            connection._cancel_call(call)
        rig.gates[name].set()
    await trio.testing.wait_all_tasks_blocked()
    assert len(rig.begun) == 6
    for gate in rig.gates.values():
        gate.set()
    await trio.testing.wait_all_tasks_blocked()
    assert len(wire.replies()) == 6 and rig.cancelled == 1
    assert connection._running_long == connection._long_replies == 0
    wire.over.set()


async def test_long_texts_of_all_connections_are_read_in_turn(nursery: trio.Nursery) -> None:
    """Four at a time. A peer that is gone, or does not read its reply for a moment, holds up no other."""
    rig = Rig()
    state = Running(
        id="h", tool="t", session="s", cursor=0, generation=1, elapsed_ms=0, content="x" * 600_000
    )

    def read(caller: Caller, params: Name) -> DeferredReply:
        wait = rig.wait(caller, params)

        async def run() -> Running:
            await wait.run()
            return state

        return DeferredReply(run, run)

    rig.rpc_context.dispatcher._methods.add("read", Name, read)
    wires = [Told(request("read", 1, name=f"g{n}")) for n in range(7)]
    for number, wire in enumerate(wires, 1):
        nursery.start_soon(serve_connection, wire, Caller("unix"), rig.rpc_context)
        await rig.until(lambda number=number: len(rig.begun) == min(number, 4))
        await trio.testing.wait_all_tasks_blocked()
    assert rig.begun == ["g0", "g1", "g2", "g3"]
    (gone,) = (each for each in rig.rpc_context.connections._open if each._wire is wires[1])
    gone._gone("planted")
    await rig.until(lambda: len(rig.begun) == 5)
    rig.gates["g0"].set()
    await rig.until(lambda: len(rig.begun) == 6)
    wires[2].reads.set()
    rig.gates["g2"].set()
    await rig.until(lambda: len(rig.begun) == 7)
    nursery.cancel_scope.cancel()


async def test_calls_of_a_batch_wait_without_tasks_and_are_answered_together(
    nursery: trio.Nursery,
) -> None:
    rig = Rig()
    calls = [request("await_bell", n, name=name) for n, name in enumerate("abc")]
    wire, connection = await _await_bells(rig, nursery, b"[" + b",".join(calls) + b"]")
    assert len(connection._waits) == 3
    for name in "ca":
        rig.bells[name].ring()
        await trio.testing.wait_all_tasks_blocked()
    assert not wire.written
    cancel = b'{"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 1}}'
    connection._accept_answer(rig.rpc_context.dispatcher.receive(connection._caller, cancel, 64))
    await trio.testing.wait_all_tasks_blocked()
    replies = json.loads(wire.written)
    assert [reply.get("result", reply.get("error", {}).get("code")) for reply in replies] == [
        "rung",
        -32800,
        "rung",
    ]
    assert [rig.bells[name].cancelled for name in "abc"] == [0, 1, 0]
    assert connection._pending == {} and connection._in_flight == 0
    wire.over.set()


async def test_later_replies_of_a_batch_share_its_room(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(truncation, "MAX_BATCH_REPLY", 1000)
    rig = Rig()
    screen = Screen(
        rows=1, cols=9, cursor=(0, 0), alt=False, title="", revision=1, scrollback=0,
        lines=("x" * 900,),
    )  # fmt: skip
    state = Running(
        id="h", tool="t", session="s", cursor=0, generation=1, elapsed_ms=0, content="",
        screen=screen,
    )  # fmt: skip

    async def later() -> Running:
        await trio.lowlevel.checkpoint()
        return state

    for name in "ab":
        rig.bells[name].then = lambda _: state
    rig.bells["c"].then = lambda _: DeferredReply(later)
    calls = [request("await_bell", n, name=name) for n, name in enumerate("abc")]
    wire, _ = await _await_bells(rig, nursery, b"[" + b",".join(calls) + b"]")
    for name in "bca":
        rig.bells[name].ring()
        await trio.testing.wait_all_tasks_blocked()
    results = [reply["result"] for reply in json.loads(wire.written)]
    assert ["screen" in result for result in results] == [False, True, False]
    assert [result.get("limit") for result in results] == [
        "max_batch_reply",
        None,
        "max_batch_reply",
    ]
    wire.over.set()


async def test_a_peer_that_is_gone_is_waited_for_no_more(nursery: trio.Nursery) -> None:
    """Its last reply is on the way meanwhile, and nothing takes it."""
    rig, wire = Rig(), Told(request("ping", 1))
    wire.over.set()
    nursery.start_soon(serve_connection, wire, Caller("unix"), rig.rpc_context)
    await trio.testing.wait_all_tasks_blocked()
    (connection,) = rig.rpc_context.connections._open
    assert connection._outbox.queued and not rig.gone
    connection._gone("planted")
    await trio.testing.wait_all_tasks_blocked()
    assert rig.gone and wire.graceful is False


async def test_a_cancellation_ends_a_call_without_a_task_that_is_not_due(
    nursery: trio.Nursery,
) -> None:
    rig = Rig()
    cancel = b'{"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 1}}'
    rig.bells["due"].is_rung = True
    wire, connection = await _await_bells(
        rig, nursery, *(request("await_bell", 1, name=name) for name in ("g", "due")), cancel
    )
    replies = [json.loads(line) for line in wire.written.splitlines()]
    assert [reply.get("result", reply.get("error", {}).get("code")) for reply in replies] == [
        -32800,
        "rung",
    ]
    assert (rig.bells["g"].cancelled, rig.bells["due"].cancelled) == (1, 0)
    assert connection._in_flight == 0
    wire.over.set()


async def test_a_call_that_always_goes_on_is_cancelled_all_the_same(nursery: trio.Nursery) -> None:
    """As a hostile pattern over much output: it is due at any time, and never answered."""
    rig = Rig()
    bell = rig.bells["g"]
    bell.is_rung = True
    bell.then = lambda _: rig.await_bell(Caller("unix"), Name(name="g"))
    wire = Told(request("await_bell", 1, name="g"))
    wire.reads.set()
    nursery.start_soon(serve_connection, wire, Caller("unix"), rig.rpc_context)
    cancel = b'{"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 1}}'
    with trio.fail_after(PATIENCE_S):
        while not any(connection._waits for connection in rig.rpc_context.connections._open):
            await trio.lowlevel.checkpoint()
        (connection,) = rig.rpc_context.connections._open
        connection._accept_answer(
            rig.rpc_context.dispatcher.receive(connection._caller, cancel, 64)
        )
        while not wire.written:
            await trio.lowlevel.checkpoint()
    assert wire.replies()[1]["error"]["code"] == -32800  # type: ignore[index]
    assert bell.cancelled == 1 and not bell.listeners and connection._in_flight == 0
    wire.over.set()


async def test_a_late_call_reads_nothing_for_a_peer_that_is_gone(nursery: trio.Nursery) -> None:
    """Its output is still there for the next reader."""
    rig, read = Rig(), list[object]()
    for name in ("due", "g"):
        rig.bells[name].then = read.append
    wire, connection = await _await_bells(
        rig, nursery, *(request("await_bell", 1, name=name) for name in ("due", "g"))
    )
    rig.bells["due"].ring()
    connection._gone("planted")
    rig.bells["g"].ring()
    await rig.until(lambda: rig.gone)
    assert not read and not wire.written
    assert [rig.bells[name].cancelled for name in ("due", "g")] == [1, 1]
    assert not rig.bells["g"].listeners and connection._in_flight == 0


@pytest.mark.parametrize("by", ["client", "disconnect"])
async def test_a_task_that_follows_a_cancelled_wait_is_cancelled_in_its_run(
    nursery: trio.Nursery, by: str
) -> None:
    """The conversion of a long text undoes its read, which came before."""
    rig, undone = Rig(), list[str]()

    async def convert() -> str:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            undone.append("read")
            raise

    def read(_: object) -> DeferredReply:
        if by == "disconnect":
            connection._gone("planted")
        return DeferredReply(convert)

    rig.bells["due"].then = read
    wire, connection = await _await_bells(rig, nursery)
    connection._accept_answer(
        rig.rpc_context.dispatcher.receive(
            connection._caller, request("await_bell", 1, name="due"), 64
        )
    )
    rig.bells["due"].ring()
    if by == "client":
        cancel = b'{"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 1}}'
        connection._accept_answer(
            rig.rpc_context.dispatcher.receive(connection._caller, cancel, 64)
        )
    await trio.testing.wait_all_tasks_blocked()
    assert undone == ["read"] and connection._in_flight == 0
    codes = [reply["error"]["code"] for reply in wire.replies().values()]  # type: ignore[index]
    assert codes == ([-32800] if by == "client" else [])
    wire.over.set()


async def test_a_call_without_a_task_ends_with_the_reading_of_its_connection(
    nursery: trio.Nursery,
) -> None:
    """A fault of the wire ends the reading; a task that cannot be cancelled lasts longer."""
    rig, read, gate = Rig(), list[object](), trio.Event()
    rig.bells["g"].then = read.append

    async def run() -> str:
        with trio.CancelScope(shield=True):
            await gate.wait()
        return "done"

    rig.rpc_context.dispatcher._methods.add("wait", Name, lambda caller, params: DeferredReply(run))
    wire = Told(
        request("wait", 1, name="g"), request("await_bell", 2, name="g"), then=ZeroDivisionError()
    )
    wire.reads.set()
    nursery.start_soon(serve_connection, wire, Caller("unix"), rig.rpc_context)
    await trio.testing.wait_all_tasks_blocked()
    rig.bells["g"].ring()
    await trio.testing.wait_all_tasks_blocked()
    gate.set()
    await rig.until(lambda: rig.gone)
    assert not read and rig.bells["g"].cancelled == 1
    assert rig.rpc_context.connections.refused["fault"] == 1


async def test_a_wait_that_follows_a_task_of_a_peer_that_is_gone_is_never_registered(
    nursery: trio.Nursery,
) -> None:
    rig = Rig()

    async def run() -> object:
        connection._gone("planted")
        return rig.await_bell(connection._caller, Name(name="g"))

    rig.rpc_context.dispatcher._methods.add("wait", Name, lambda caller, params: DeferredReply(run))
    _, connection = await _await_bells(rig, nursery)
    call = request("wait", 1, name="g")
    connection._accept_answer(rig.rpc_context.dispatcher.receive(connection._caller, call, 64))
    await rig.until(lambda: rig.gone)
    assert rig.bells["g"].cancelled == 1 and not rig.bells["g"].listeners


async def test_a_fault_of_one_settled_call_ends_its_connection_and_no_other(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig()
    call = request("await_bell", 1, name="g")
    other, kept = await _await_bells(rig, nursery, call)
    wire = Told(call)
    wire.reads.set()
    nursery.start_soon(serve_connection, wire, Caller("unix"), rig.rpc_context)
    await trio.testing.wait_all_tasks_blocked()
    monkeypatch.setattr(wire, "frame", lambda *_: 1 / 0)
    rig.bells["g"].ring()
    await rig.until(lambda: rig.gone)
    assert rig.rpc_context.connections.refused["fault"] == 1
    assert other.replies()[1]["result"] == "rung" and list(rig.rpc_context.connections._open) == [
        kept
    ]
    other.over.set()


async def test_a_fault_of_a_connections_task_ends_that_connection_alone(
    nursery: trio.Nursery,
) -> None:
    class Broken(Told):
        async def send(self, data: bytes | memoryview) -> int:
            raise ValueError("planted")

    rig = Rig()
    broken, other = Broken(request("ping", 1)), Told(request("ping", 1))
    for wire in (broken, other):
        start_connection(nursery, wire, Caller("unix"), rig.rpc_context)
    await trio.testing.wait_all_tasks_blocked()
    assert (broken.graceful, other.graceful) == (False, None)
    assert rig.rpc_context.connections.refused["fault"] == 1
    assert len(rig.rpc_context.connections) == 1
    other.reads.set()
    other.over.set()
    await trio.testing.wait_all_tasks_blocked()
    assert other.replies()[1]["result"] == {"pong": True}
