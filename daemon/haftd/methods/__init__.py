"""The JSON-RPC methods, one file each, and the table that serves them.

`base` defines the form of a method. Methods that read a handle share `reading`, `conditions`, `waiting` and `evidence`;
methods that need approval share `approved` and `rendering`; `described` awaits the descriptions of tools. Calls of a
model go through `modelcall`, those of the surface for models through `verbcall`, and `model_text` writes their text.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from haft_protocol.methods import METHODS, SpawnParams
from haftd.caller import Caller
from haftd.daemon import Daemon

from . import (
    abort,
    apply,
    approvals,
    askpass,
    await_,
    control,
    fetch,
    handles_list,
    initialize,
    inquiries,
    notifications_drain,
    output_search,
    output_timeline,
    session,
    spawn,
    subscribe,
    tools,
    tools_call,
    trust,
    turn,
)
from .base import MethodHandler
from .described import NEEDS, described, wanted

__all__ = ["spawning", "table", "unready"]

_SERVED: dict[str, Any] = {
    "initialize": initialize.initialize,
    "ping": initialize.ping,
    "spawn": spawn.spawn,
    "fetch": fetch.fetch,
    "apply": apply.apply,
    "abort": abort.abort,
    "await": await_.await_,
    "handles/list": handles_list.handles_list,
    "output/search": output_search.output_search,
    "output/timeline": output_timeline.output_timeline,
    "session/list": session.session_list,
    "session/close": session.session_close,
    "turn/begin": turn.turn_begin,
    "turn/end": turn.turn_end,
    "tools/call": tools_call.tools_call,
    "notifications/drain": notifications_drain.notifications_drain,
    "subscribe": subscribe.subscribe,
    "unsubscribe": subscribe.unsubscribe,
    "tools/list": tools.tools_list,
    "tools/describe": tools.tools_describe,
    "tools/reload": tools.tools_reload,
    "trust/show": trust.trust_show,
    "trust/grant": trust.trust_grant,
    "trust/revoke": trust.trust_revoke,
    "trust/list": trust.trust_list,
    "inquiries/list": inquiries.inquiries_list,
    "inquiries/answer": inquiries.inquiries_answer,
    "approvals/list": approvals.approvals_list,
    "approvals/decide": approvals.approvals_decide,
    "askpass": askpass.askpass,
    "daemon/status": control.status,
    "daemon/reload": control.reload,
    "daemon/shutdown": control.shutdown,
    "rpc.discover": control.discover,
}


def table(daemon: Daemon) -> dict[str, tuple[type[Any], MethodHandler]]:
    """Return the methods of this daemon by name, each with the type of its params."""
    if _SERVED.keys() != METHODS.keys():
        raise AssertionError("every method of the protocol is served, and nothing else")
    served: dict[str, MethodHandler] = {
        name: partial(serve, daemon) for name, serve in _SERVED.items()
    }
    for name in NEEDS:
        served[name] = described(daemon, name, served[name])
    return {name: (METHODS[name].params, serve) for name, serve in served.items()}


def spawning(daemon: Daemon) -> dict[str, Callable[[Caller, Any], SpawnParams | None]]:
    """Return the methods that may spawn, each with a function from its params to the params of that spawn."""
    return {
        "spawn": lambda caller, params: params,
        "tools/call": partial(tools_call.spawn_of, daemon),
    }


def unready(daemon: Daemon) -> Callable[[str, Any], Callable[[], Awaitable[None]] | None]:
    """Return a function from a method and its params to the coroutine that has to be awaited first, if any."""
    return partial(wanted, daemon)
