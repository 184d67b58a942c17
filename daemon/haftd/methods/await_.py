"""await: wait until every handle of `all` and one of `any` has stopped, or each awaited one has a
question for the caller alone (answered by `apply`)."""

from __future__ import annotations

from math import inf

import trio
from msgspec import UnsetType

from haft_protocol.errors import invalid_params
from haft_protocol.methods import AwaitParams, AwaitResult
from haftd.caller import Caller
from haftd.core.handles import Handle
from haftd.core.lifecycle import State
from haftd.executions.supervisor import Supervisor

from .base import DeferredReply, HandleServices, HandleWait
from .read import plain_state, read_plain, save_long

NO_IDS = "at least one id is needed, in `any` or `all`"


def await_(services: HandleServices, caller: Caller, params: AwaitParams) -> object:
    """Reply with `completed` handles, those `waiting` with a question, and the `pending` rest.

    An unknown id is an error at once; without `timeout_secs` the wait is unbounded.
    """
    if not params.any and not params.all:
        raise invalid_params(f"`await`: {NO_IDS}", field="any")
    handles = {
        name: services.access.find(caller, params, name)
        for name in dict.fromkeys(params.all + params.any)
    }

    def wait_is_over() -> bool | None:
        awaited = [handles[name] for name in params.all if not handles[name].stopped]
        if not any(handles[name].stopped for name in params.any):
            awaited += [handles[name] for name in params.any]
        return all(_is_unclaimed(services.supervisor, handle) for handle in awaited) or None

    is_reader = not caller.read_only

    def result(*, timed_out: bool) -> AwaitResult | DeferredReply:
        if not is_reader or not any(map(Handle.takes_long_to_save, handles.values())):
            return _result(services.supervisor, handles, is_reader, timed_out=timed_out)

        async def saved() -> AwaitResult:
            await save_long(handles.values())
            return _result(services.supervisor, handles, is_reader, timed_out=timed_out)

        return DeferredReply(saved)

    if wait_is_over():
        return result(timed_out=False)
    timeout_s = inf if isinstance(params.timeout_secs, UnsetType) else params.timeout_secs

    return HandleWait(
        tuple(handles.values()),
        wait_is_over,
        lambda is_over: result(timed_out=not is_over),
        trio.current_time() + timeout_s,
        is_reader=is_reader,
    )


def _result(
    supervisor: Supervisor,
    handles: dict[str, Handle],
    is_reader: bool,
    *,
    timed_out: bool,
) -> AwaitResult:
    """Sort the handles by state; only a reader moves read offsets."""
    read = read_plain if is_reader else plain_state
    result = AwaitResult(
        completed=tuple(read(handle) for handle in handles.values() if handle.stopped),
        pending=tuple(
            plain_state(handle)
            for handle in handles.values()
            if handle.state in (State.PENDING, State.RUNNING)
        ),
        waiting=tuple(read(handle) for handle in handles.values() if handle.state is State.WAITING),
        timed_out=timed_out,
    )
    supervisor.wake_expiry()  # a read, stopped handle may expire
    return result


def _is_unclaimed(supervisor: Supervisor, handle: Handle) -> bool:
    execution = supervisor.execution_of(handle)
    return execution is not None and execution.is_unclaimed
