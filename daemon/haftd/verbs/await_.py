"""await: wait until every handle of `all` and one of `any` has stopped."""

from __future__ import annotations

from math import inf

import trio
from msgspec import UnsetType

from haft_protocol.errors import invalid_params
from haft_protocol.methods import AwaitParams, AwaitResult
from haftd.caller import Caller
from haftd.core.handles import Handle
from haftd.daemon import Daemon

from .base import Later
from .reading import plain_state
from .waiting import until

__all__ = ["NO_IDS", "await_"]

NO_IDS = "at least one id is needed, in `any` or `all`"


def await_(daemon: Daemon, caller: Caller, params: AwaitParams) -> object:
    """Answer with the stopped ones in `completed`, the others in `pending`. An unknown id is an
    error at once; `waiting` does not count as stopped; without `timeout_secs` there is no bound."""
    if not params.any and not params.all:
        raise invalid_params(f"`await`: {NO_IDS}", field="any")
    handles = {
        name: daemon.find(caller, params, name) for name in dict.fromkeys(params.all + params.any)
    }

    def holds() -> bool | None:
        enough = all(handles[name].stopped for name in params.all) and (
            not params.any or any(handles[name].stopped for name in params.any)
        )
        return enough or None

    if holds():
        return _result(daemon, handles)
    bound = inf if isinstance(params.timeout_secs, UnsetType) else params.timeout_secs

    async def stopped() -> AwaitResult:
        enough = await until(handles.values(), holds, deadline=trio.current_time() + bound)
        return _result(daemon, handles, timed_out=not enough)

    return Later(stopped)


def _result(daemon: Daemon, handles: dict[str, Handle], *, timed_out: bool = False) -> AwaitResult:
    daemon.stir()  # an end that was read may go when its time is over
    return AwaitResult(
        completed=tuple(plain_state(one) for one in handles.values() if one.stopped),
        pending=tuple(plain_state(one, peek=True) for one in handles.values() if not one.stopped),
        timed_out=timed_out,
    )
