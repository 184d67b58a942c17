"""Fairness: a long message or reply leaves other tasks their turns."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import Literal

import pytest
import trio

from haft_protocol.errors import RpcError, request_cancelled
from haft_protocol.methods import Empty
from haft_protocol.states import Running
from haftd.caller import Caller
from haftd.methods.base import DeferredReply
from haftd.rpc import connection
from haftd.rpc.connection import serve_connection
from tests.patience import PATIENCE_S

from .rig import Name, Rig, batch, limits, notification, request

MIB = 1024 * 1024


@dataclass
class Told:
    """A wire with one message, which notes the turns of other tasks before each write."""

    message: bytes
    transport: Literal["unix", "websocket"] = "unix"
    fault: RpcError | None = None
    turns: int = 0
    before: list[int] = field(default_factory=list)
    written: bytes = b""

    async def receive(self) -> list[bytes] | None:
        await trio.lowlevel.checkpoint()
        message, self.message = self.message, b""
        self.turns = 0
        return [message] if message else None

    def frame(self, message: bytes, *more: bytes) -> bytes:
        return b"".join((message, *more, b"\n"))

    def write(self, data: bytes | memoryview) -> int:
        self.before.append(self.turns)
        self.written += bytes(data)
        return len(data)

    async def send(self, data: bytes | memoryview) -> int:
        await trio.lowlevel.checkpoint()
        return self.write(data)

    async def writable(self) -> None: ...

    async def hung_up(self) -> None:
        await trio.sleep_forever()

    async def discard_input(self) -> None: ...

    async def close(self, *, graceful: bool) -> None: ...

    async def be_served(self, rig: Rig) -> None:
        async def others() -> None:
            while True:
                await trio.lowlevel.checkpoint()
                self.turns += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(others)
            await serve_connection(self, Caller("unix"), rig.rpc_context)
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("unit", [b"x", b"\\n", b'","'])
async def test_other_tasks_run_while_a_long_message_is_parsed(unit: bytes) -> None:
    rig = Rig(limits=limits(max_message=4 * MIB, max_values=10 * MIB))
    value = b'["' + unit * (2 * MIB // len(unit)) + b'"]'
    wire = Told(b'{"jsonrpc":"2.0","id":1,"method":"none","params":{"a":' + value + b"}}")
    await wire.be_served(rig)
    assert b"no method 'none'" in wire.written
    assert wire.before[0] >= 2 * MIB // 65_536


@pytest.mark.parametrize(("method", "turns"), [("echo", 1), ("read", 2)])
async def test_other_tasks_run_within_a_batch(
    monkeypatch: pytest.MonkeyPatch, method: str, turns: int
) -> None:
    """Between two members, and in the portions in which texts are cut."""
    monkeypatch.setattr(connection, "_TURN_S", 0)
    state = Running(
        id="h", tool="t", session="s", cursor=0, generation=1, elapsed_ms=0, omitted=0, content="x"
    )
    params = {"size": 9} if method == "echo" else {}
    calls = [{"jsonrpc": "2.0", "id": n, "method": method, "params": params} for n in range(40)]
    wire, rig = Told(json.dumps(calls).encode()), Rig()
    rig.rpc_context.dispatcher._methods.add("read", Empty, lambda caller, params: state)
    await wire.be_served(rig)
    assert [one["id"] for one in json.loads(wire.written)] == list(range(40))
    # The order within a round is left to chance, also in the round that is counted from.
    assert wire.before[0] >= turns * 40 - 1


@pytest.mark.parametrize("method", ["echo", "late", "single"])
async def test_a_long_reply_is_framed_in_a_thread_and_sent_although_the_reading_ends(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """A copy of tens of megabytes holds all other tasks up."""
    monkeypatch.setattr(connection, "_LONG_FRAME", 1000)
    rig, threads = Rig(), list[threading.Thread]()

    class Noted(Told):
        def frame(self, message: bytes, *more: bytes) -> bytes:
            threads.append(threading.current_thread())
            return super().frame(message, *more)

    def finish(caller: Caller, params: Empty) -> str:
        (served,) = rig.rpc_context.connections._open
        served.finish()
        return "finished"

    rig.rpc_context.dispatcher._methods.add("finish", Empty, finish)
    rig.gates["g"] = trio.Event()
    rig.gates["g"].set()
    if method == "single":
        state = Running(
            id="h", tool="t", session="s", cursor=0, generation=1, elapsed_ms=0,
            content="x" * MIB,
        )  # fmt: skip

        async def long() -> Running:
            await trio.lowlevel.checkpoint()
            return state

        rig.rpc_context.dispatcher._methods.add(
            "single", Empty, lambda caller, params: DeferredReply(long)
        )
        message = request("single", 1)
    else:
        params = {"size": 2000} if method == "echo" else {"name": "g", "size": 2000}
        message = batch(request("finish", 0), request(method, 1, **params))
    wire = Noted(message)
    await wire.be_served(rig)
    assert len(wire.written) > 2000 and json.loads(wire.written)
    assert [thread is threading.main_thread() for thread in threads] == [False]


async def test_a_started_batch_is_finished_and_awaited_when_its_peer_disconnects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A started member would otherwise go on, with no owner to end it."""
    monkeypatch.setattr(connection, "_TURN_S", 0)
    rig = Rig()
    names = [
        {"jsonrpc": "2.0", "id": n, "method": "wait", "params": {"name": "n"}} for n in range(6)
    ]
    wire = Told(json.dumps(names).encode())
    wait = rig.wait
    scope = trio.CancelScope()

    def first_then_gone(caller: Caller, params: Name) -> DeferredReply:
        scope.cancel()
        return wait(caller, params)

    rig.rpc_context.dispatcher._methods.add("wait", Name, first_then_gone)
    with scope:
        await serve_connection(wire, Caller("unix"), rig.rpc_context)
    assert rig.cancelled == 6


async def test_a_call_of_a_batch_is_cancelled_while_the_batch_is_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Reading the peer goes on meanwhile: the work of members decided by then ends, and later
    members are not begun."""
    monkeypatch.setattr(connection, "_TURN_S", 0)
    rig = Rig()
    decided: list[str] = []
    wait = rig.wait

    def noted(caller: Caller, params: Name) -> DeferredReply:
        decided.append(params.name)
        rig.moved.unpark_all()
        return wait(caller, params)

    async def ready() -> None:
        await trio.lowlevel.checkpoint()

    rig.rpc_context.dispatcher._methods.add("wait", Name, noted)
    rig.rpc_context.dispatcher.unready = lambda name, params: None if decided else ready
    calls = [request("wait", name, name=name) for name in "abcdef"]

    class Cancelling(Told):
        async def receive(self) -> list[bytes] | None:
            if (first := await super().receive()) is not None:
                return first
            if not self.fed:
                self.fed = True
                await rig.until(lambda: decided)
                return [notification("$/cancelRequest", id=name) for name in "af"]
            await rig.until(lambda: rig.waiting == 4)
            for gate in rig.gates.values():
                gate.set()
            return None

        fed = False

    wire = Cancelling(batch(request("spawn", 0, tool="t", id="x"), *calls))
    with trio.fail_after(PATIENCE_S):
        await wire.be_served(rig)
    told = {one["id"]: one.get("result", one.get("error")) for one in json.loads(wire.written)}
    assert [told[name] for name in "bcde"] == ["b", "c", "d", "e"]
    assert told["a"]["code"] == told["f"]["code"] == request_cancelled().code
    assert rig.cancelled == 1
    assert decided == ["a", "b", "c", "d", "e"]
