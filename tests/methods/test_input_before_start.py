"""Input for a tool that does not run yet waits for the start, in order, and no longer than the call."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from haft_protocol.errors import RpcError, spawn_failed
from haft_protocol.handles import Wait
from haft_protocol.methods import ApplyParams
from haft_protocol.states import EndedBy, Pending, Running
from haftd.caller import Caller
from haftd.core.handles import Handle
from haftd.core.termination import Termination
from haftd.methods.apply import apply
from haftd.methods.base import HandleWait
from haftd.runtimes.base import Input, InputState
from tests.core.disks import make
from tests.pending_replies import result_of


class Starting:
    """An execution that has not begun; the program takes its input only where `takes`."""

    def __init__(self, *, takes: bool = True) -> None:
        self.written: list[str] = []
        self._takes = takes
        self._early: list[Callable[[], None]] = []

    @property
    def written_to(self) -> int:
        return len(self.written) if self._takes else 0

    def when_begun(self, act: Callable[[], None]) -> None:
        self._early.append(act)

    def begin(self) -> None:
        for act in self._early:
            act()

    def hides_input(self) -> bool:
        return False

    def read_output(self) -> None:
        pass

    def check_suspended(self, now: float) -> bool:
        return False

    def input_state(self) -> InputState:
        return InputState("busy")

    def write(self, item: Input) -> int:
        self.written.append(item.text)
        return len(self.written)


def pending() -> Handle:
    return Handle(id="h", tool="t", session="s", generation=1, spool=make(), now=0.0)


def give(handle: Handle, execution: Starting, line: str, wait: Wait = "none") -> HandleWait:
    services: Any = SimpleNamespace(
        access=SimpleNamespace(find=lambda caller, params, id: handle),
        supervisor=SimpleNamespace(execution_of=lambda handle: execution),
        audit=SimpleNamespace(record_action=lambda *_, **__: None),
    )
    params = ApplyParams(id="h", input={"line": line}, wait=wait, timeout_ms=5000)
    reply = apply(services, Caller("unix"), params)
    assert isinstance(reply, HandleWait)
    return reply


async def test_lines_wait_for_the_start_and_are_given_in_order(autojump_clock: MockClock) -> None:
    handle, execution = pending(), Starting()
    replies = [give(handle, execution, line) for line in ("one", "two")]
    assert execution.written == []
    handle.start(0.0)
    execution.begin()
    assert execution.written == ["one", "two"]
    for reply in replies:
        state = await result_of(reply)
        assert isinstance(state, Running)


async def test_a_start_that_takes_longer_than_the_call_is_reported_as_pending(
    autojump_clock: MockClock,
) -> None:
    began = trio.current_time()
    state = await result_of(give(pending(), Starting(), "one"))
    assert isinstance(state, Pending) and trio.current_time() - began == pytest.approx(5)


async def test_input_that_is_not_taken_before_the_deadline_is_reported_so(
    autojump_clock: MockClock,
) -> None:
    handle, execution = pending(), Starting(takes=False)
    handle.start(0.0)
    began = trio.current_time()
    state = await result_of(give(handle, execution, "one", wait="output"))
    assert isinstance(state, Running) and state.waited == "deadline"
    assert trio.current_time() - began == pytest.approx(5)
    assert execution.written == ["one"]


async def test_a_failed_start_fails_the_calls_that_waited() -> None:
    handle, execution = pending(), Starting()
    reply = give(handle, execution, "one")
    handle.end(Termination(by=EndedBy("abort")), 0.0)
    execution.begin()
    with pytest.raises(RpcError, match="has ended") as caught:
        await result_of(reply)
    assert caught.value.kind == "handle_stopped" and execution.written == []


async def test_a_rejected_start_fails_the_calls_that_waited_with_the_same_error() -> None:
    handle, execution = pending(), Starting()
    reply = give(handle, execution, "one")
    error = spawn_failed("no such program", tool="t")
    handle.reject(error, 0.0)
    execution.begin()
    with pytest.raises(RpcError) as caught:
        await result_of(reply)
    assert caught.value is error and execution.written == []
