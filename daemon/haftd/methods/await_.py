"""await: wait until every handle of `all` and one of `any` has stopped.

Rules: it also answers when all that it still needs waits for an answer that nobody is asked for: the
caller may be the one who is to give it, by `apply`. While a client, a program or a model is asked, it
waits on.
"""

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

from .base import DeferredReply
from .reading import plain_state, read_plain
from .services import HandleServices
from .waiting import until

NO_IDS = "at least one id is needed, in `any` or `all`"


def await_(services: HandleServices, caller: Caller, params: AwaitParams) -> object:
    """Answer with the stopped ones in `completed`, those that wait for an answer in `waiting`, the
    others in `pending`. An unknown id is an error at once; without `timeout_secs` there is no bound."""
    if not params.any and not params.all:
        raise invalid_params(f"`await`: {NO_IDS}", field="any")
    handles = {
        name: services.access.find(caller, params, name)
        for name in dict.fromkeys(params.all + params.any)
    }

    def holds() -> bool | None:
        needed = [handles[name] for name in params.all if not handles[name].stopped]
        if not any(handles[name].stopped for name in params.any):
            needed += [handles[name] for name in params.any]
        return all(_is_unclaimed(services.supervisor, handle) for handle in needed) or None

    if holds():
        return _result(services.supervisor, handles)
    bound = inf if isinstance(params.timeout_secs, UnsetType) else params.timeout_secs

    async def stopped() -> AwaitResult:
        enough = await until(handles.values(), holds, deadline=trio.current_time() + bound)
        return _result(services.supervisor, handles, timed_out=not enough)

    return DeferredReply(stopped)


def _result(
    supervisor: Supervisor, handles: dict[str, Handle], *, timed_out: bool = False
) -> AwaitResult:
    supervisor.wake_expiry()  # an end that was read may go when its time is over
    return AwaitResult(
        completed=tuple(read_plain(one) for one in handles.values() if one.stopped),
        pending=tuple(
            plain_state(one)
            for one in handles.values()
            if one.state in (State.PENDING, State.RUNNING)
        ),
        waiting=tuple(read_plain(one) for one in handles.values() if one.state is State.WAITING),
        timed_out=timed_out,
    )


def _is_unclaimed(supervisor: Supervisor, handle: Handle) -> bool:
    use = supervisor.use_of(handle)
    return use is not None and use.is_unclaimed
