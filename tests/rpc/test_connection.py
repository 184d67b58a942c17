"""A connection on a scripted wire: bounds and ends."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

import pytest
import trio
import trio.testing

from haft_protocol.errors import RpcError
from haftd.caller import Caller
from haftd.rpc.connection import serve_connection
from haftd.rpc.wire import Disconnected

from .rig import Rig, limits, request


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

    def frame(self, message: bytes) -> bytes:
        return message + b"\n"

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
        assert len(connection._scopes.get(1, ())) == left
    assert connection._scopes == {} and connection._in_flight == 0
    wire.over.set()
