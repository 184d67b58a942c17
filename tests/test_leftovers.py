"""Objects of an execution are freed with their last reference: no cycle waits for the collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import trio
from trio.testing import MockClock

from haft_protocol.errors import handle_stopped
from haftd.caller import Caller
from haftd.core.handles import Handle
from haftd.core.spool import Budget, Spool
from haftd.core.views import handle_state
from haftd.executions.execution import Execution
from haftd.executions.supervisor import Supervisor
from haftd.launch_spec import LaunchSpec
from haftd.methods.base import DeferredReply, HandleWait
from haftd.rpc.replies import PendingRequest, Reply
from haftd.runtimes.base import Call, Input, Runtime
from haftd.runtimes.process.runtime import ProcessRuntime
from haftd.runtimes.terminal.runtime import TerminalRuntime
from tests.pending_replies import result_of
from tests.rpc.rig import Echo, Rig, request
from tests.runtimes.fake import Emit, FakeRuntime, TakeInput
from tests.runtimes.kit import shell

SCRIPT = "printf '\\033[6n'; read line; echo $line"
STARTS: dict[str, tuple[Runtime, Call]] = {
    "fake": (
        FakeRuntime(),
        Call("t", LaunchSpec((), "/", stdin="pipe"), "m", script=(TakeInput(), Emit(b"one"))),
    ),
    "raw": (ProcessRuntime(), shell(SCRIPT, stdin="pipe")),
    "outcome": (ProcessRuntime(), shell(SCRIPT, output="outcome", stdin="pipe")),
    "events": (ProcessRuntime(), shell(f"read init; {SCRIPT}", output="events")),
    "terminal": (TerminalRuntime(), shell(SCRIPT, terminal=True)),
}


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def living() -> tuple[int, int]:
    """Return the numbers of handles and executions."""
    everything = gc.get_objects()
    return tuple(sum(isinstance(one, kind) for one in everything) for kind in (Handle, Execution))  # type: ignore[return-value]


def handle_of(id: str) -> Handle:
    spool = Spool(1 << 20, 0, None, Budget(0))
    return Handle(id=id, tool="t", session="s", generation=1, spool=spool, now=0.0)


async def use_it(held: Supervisor, runtime: Runtime, call: Call) -> None:
    handle = handle_of("h")
    execution = held.start(handle, runtime, call)
    await execution.begun.wait()
    execution.write(Input("line", "one"))
    execution.screen()
    await execution.done.wait()
    handle_state(handle, trio.current_time())


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("kind", STARTS)
async def test_a_forgotten_handle_is_freed_without_a_collector(kind: str) -> None:
    before = living()
    async with trio.open_nursery() as nursery:
        held = Supervisor(nursery, grace_s=0, withdraw=lambda *_: None, clear_up=lambda *_: None)
        await use_it(held, *STARTS[kind])
    assert living() == before


@pytest.mark.usefixtures("no_collector")
async def test_an_awaited_call_is_freed_without_a_collector(autojump_clock: MockClock) -> None:
    async def wait() -> None:
        handle = handle_of("h")
        wait = HandleWait((handle,), lambda: handle.stopped or None, str, 5.0, lambda: 6.0)
        assert await result_of(wait) == "None"

    before = living()
    await wait()
    await trio.lowlevel.checkpoint()  # the loop holds the value of the task that it has just woken
    assert living() == before


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("waits", [False, True], ids=["at once", "late"])
async def test_a_refused_call_is_freed_without_a_collector(waits: bool) -> None:
    async def late() -> object:
        return refuse(None, None)

    def refuse(caller: object, params: object) -> object:
        worked_on = handle_of("h")
        raise handle_stopped(worked_on.id, handle_state(worked_on, 0.0))

    before = living()
    dispatcher = Rig().rpc_context.dispatcher
    if waits:
        reply = await dispatcher.finish(PendingRequest(b"1", 1, "m", DeferredReply(late)))
        assert isinstance(reply, Reply) and reply.error is not None
    else:
        dispatcher._methods.add("refuse", Echo, refuse)
        assert isinstance(dispatcher.receive(Caller("unix"), request("refuse"), 8), bytes)
    assert living() == before
