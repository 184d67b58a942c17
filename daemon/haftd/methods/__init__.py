"""JSON-RPC methods, a file each, and their table.

A method (form: `base`) is a function; `table` binds its first parameters, parts of the daemon such
as `access`, or services, which methods on handles share. Readers share `read`, `conditions`,
`pattern_wait`, `wait` and `evidence`, approved methods `approval_gate`. A model's calls go through `modelcall` or
`verbcall`; `model_text` writes their text. `descriptions` awaits the descriptions of tools.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from haft_protocol.methods import METHODS, SpawnParams
from haftd.caller import Caller
from haftd.daemon import Daemon

from . import (
    abort,
    apply,
    askpass,
    await_,
    control,
    fetch,
    handles_list,
    initialize,
    inquiries,
    notifications_drain,
    output,
    session,
    spawn,
    subscribe,
    tools,
    tools_call,
    trust,
    turn,
)
from .access import Access
from .base import MethodHandler, StartServices
from .descriptions import NEEDS, described


def services_of(daemon: Daemon) -> StartServices:
    return StartServices(
        access=Access(daemon.registry, daemon.sessions, daemon.clients),
        supervisor=daemon.supervisor,
        inquiries=daemon.inquiries,
        catalogue=daemon.catalogue,
        audit=daemon.audit,
        starter=daemon.starter,
        helpers=daemon.helpers,
        subscriptions=daemon.subscriptions,
        watching=daemon.watching,
    )


def table(daemon: Daemon, services: StartServices) -> dict[str, tuple[type[Any], MethodHandler]]:
    """Return the methods by name, with their params' types."""
    access, router, turns = services.access, daemon.inquiries, daemon.turns
    catalogue, audit, queues = daemon.catalogue, daemon.audit, daemon.notices
    limits = daemon.settings.limits
    reload = partial(tools.tools_reload, daemon)
    served: dict[str, MethodHandler] = {
        "initialize": partial(initialize.initialize, access, daemon.facts, limits),
        "ping": initialize.ping,
        "spawn": partial(spawn.spawn, services),
        "fetch": partial(fetch.fetch, services),
        "apply": partial(apply.apply, services),
        "abort": partial(abort.abort, services),
        "await": partial(await_.await_, services),
        "handles/list": partial(handles_list.handles_list, access, daemon.supervisor),
        "output/search": partial(output.output_search, access),
        "output/timeline": partial(output.output_timeline, access),
        "session/list": partial(session.session_list, access),
        "session/close": partial(session.session_close, services, queues, turns),
        "turn/begin": partial(turn.turn_begin, access, router, turns),
        "turn/end": partial(turn.turn_end, services, turns, daemon.nursery),
        "tools/call": partial(tools_call.tools_call, services, queues),
        "notifications/drain": partial(
            notifications_drain.notifications_drain, access, daemon.supervisor, queues
        ),
        "subscribe": partial(subscribe.subscribe, access, daemon.subscriptions, router),
        "unsubscribe": partial(subscribe.unsubscribe, daemon.subscriptions),
        "tools/list": partial(tools.tools_list, catalogue),
        "tools/describe": partial(tools.tools_describe, daemon.starter),
        "tools/reload": reload,
        "trust/show": partial(trust.trust_show, catalogue),
        "trust/grant": partial(trust.trust_grant, catalogue, audit),
        "trust/revoke": partial(trust.trust_revoke, catalogue, audit),
        "trust/list": partial(trust.trust_list, catalogue),
        "inquiries/ask": partial(inquiries.inquiries_ask, access, router),
        "inquiries/list": partial(inquiries.inquiries_list, access, router),
        "inquiries/answer": partial(inquiries.inquiries_answer, access, router),
        "approvals/list": partial(inquiries.approvals_list, access, router),
        "approvals/decide": partial(inquiries.approvals_decide, access, router),
        "askpass": partial(askpass.askpass, daemon.supervisor, audit),
        "daemon/status": partial(control.status, daemon, access),
        "daemon/reload": reload,
        "daemon/shutdown": partial(control.shutdown, access.registry, audit, daemon.stop),
        "rpc.discover": partial(control.discover, daemon.facts),
    }
    if served.keys() != METHODS.keys():
        raise AssertionError(
            f"not served, or not in the protocol: {served.keys() ^ METHODS.keys()}"
        )
    for name in NEEDS:
        served[name] = described(daemon.starter, daemon.describer, name, served[name])
    return {name: (METHODS[name].params, serve) for name, serve in served.items()}


def spawning(
    services: StartServices,
) -> dict[str, Callable[[Caller, Any], SpawnParams | None]]:
    """Return the methods that may spawn, each with a function to the spawn's params."""
    return {
        "spawn": lambda caller, params: params,
        "tools/call": partial(tools_call.spawn_of, services.catalogue),
    }
