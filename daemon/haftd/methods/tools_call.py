"""tools/call: a tool as an assistant calls it, by the method of its `action`, else run to the end
(see `modelcall`). Undelivered notices join the reply."""

from __future__ import annotations

import secrets
import time
from functools import cache, partial

import jsonschema_rs
import msgspec
from msgspec import UnsetType

from haft_protocol.errors import action_not_supported, escaped, invalid_arguments
from haft_protocol.methods import (
    AbortParams,
    ApplyParams,
    AwaitParams,
    AwaitResult,
    FetchParams,
    HandlesListResult,
    SpawnParams,
    ToolsCallParams,
    called,
)
from haft_protocol.states import HandleState, Waiting
from haftd.caller import Caller
from haftd.executions.supervisor import Supervisor
from haftd.inquiries.pending_inquiry import PendingInquiry
from haftd.notices.queues import NoticeQueues
from haftd.schemas import validation
from haftd.tools.calls.tool_calls import HandleCall, read_call
from haftd.tools.catalogue import Catalogue
from haftd.tools.definitions.definition import Tool, compile_schema
from haftd.tools.lists.tool_list import AWAIT

from .abort import abort
from .apply import apply, is_beside
from .await_ import NO_IDS, await_
from .base import DeferredReply, PendingReply, StartServices, then
from .fetch import fetch
from .model_text import called_text
from .modelcall import handle_of, input_of, params_of, refuse_for_a_person, run_to_end, tool_of
from .spawn import spawn
from .verbcall import serve_verb, verb_call


def tools_call(
    services: StartServices, queues: NoticeQueues, caller: Caller, params: ToolsCallParams
) -> object:
    """Reply as the method does, or with the run's end; `call_id` and `notifications` join."""
    call_id = (
        f"call_{secrets.token_hex(8)}" if isinstance(params.call_id, UnsetType) else params.call_id
    )
    session = services.access.session_of(caller, params)
    as_text = params.format == "text"
    with_notices = partial(
        _with_notices, services, queues, caller, session, call_id, as_text=as_text
    )
    if params.surface == "verbs":
        with_notices = partial(with_notices, is_tail=params.arguments.get("view") == "tail")
        return serve_verb(
            lambda: with_notices(verb_call(services, caller, params, session, call_id))
        )
    if params.tool == AWAIT.name:
        awaited = _await_of(params)
        for id in (*awaited.any, *awaited.all):
            handle_of(services.access, caller, params, id)
        return with_notices(await_(services, caller, awaited))
    tool = tool_of(services.catalogue, params)
    reply: object
    if _is_stateful(tool, params):
        params = msgspec.structs.replace(params, call_id=call_id)
        reply = _serve(services, caller, tool, params, read_call(tool, params.arguments))
    else:
        reply = run_to_end(services, caller, tool, params, session, call_id)
    return with_notices(reply)


def spawn_of(catalogue: Catalogue, caller: Caller, params: ToolsCallParams) -> SpawnParams | None:
    """Return a call's spawn, so that a batch can reserve its id."""
    if params.tool == AWAIT.name or params.surface == "verbs":
        return None
    tool = tool_of(catalogue, params)
    if not _is_stateful(tool, params):
        return None
    call = read_call(tool, params.arguments)
    return _spawn_of(params, call) if call.action == "spawn" else None


def _with_notices(
    services: StartServices,
    queues: NoticeQueues,
    caller: Caller,
    session: str,
    call_id: str,
    reply: object,
    *,
    as_text: bool = False,
    is_tail: bool = False,
) -> object:
    more = partial(
        _with_notices, services, queues, caller, session, call_id, as_text=as_text, is_tail=is_tail
    )
    if isinstance(reply, PendingReply):
        return then(reply, more)
    if not isinstance(reply, HandleState | AwaitResult | HandlesListResult):
        raise AssertionError(f"a verb returned a {type(reply).__name__}")
    if as_text and (unrouted := _unrouted(services.supervisor, session, reply)):

        async def routed() -> object:
            for pending in unrouted:
                await pending.routed.wait()
            return more(reply)

        return DeferredReply(routed)
    notices = queues.drain(session, time.time(), partial(services.supervisor.is_asked, caller))
    if as_text:
        return called_text(services, session, reply, call_id, notices, is_tail=is_tail)
    return called(reply, call_id, notices)


def _unrouted(supervisor: Supervisor, session: str, reply: object) -> list[PendingInquiry]:
    states = reply.waiting if isinstance(reply, AwaitResult) else (reply,)
    return [
        pending
        for state in states
        if isinstance(state, Waiting)
        for execution in supervisor.executions(session, state.id)
        if (pending := execution.inquiries.current) is not None and not pending.routed.is_set()
    ]


def _is_stateful(tool: Tool, params: ToolsCallParams) -> bool:
    """True for a call on a handle. Raises `action_not_supported`."""
    if params.arguments.get("action") is None:
        return False
    if not tool.stateful and "action" not in tool.parameters.get("properties", {}):
        action = escaped(str(params.arguments["action"]), 40)
        raise action_not_supported(tool.name, action, "it has no handles; leave `action` out")
    return tool.stateful


def _serve(
    services: StartServices, caller: Caller, tool: Tool, params: ToolsCallParams, call: HandleCall
) -> object:
    if call.action == "spawn":
        return spawn(services, caller, _spawn_of(params, call), params.context)
    handle = handle_of(services.access, caller, params, call.id)
    if handle.tool != tool.name:
        whose = f"`{handle.id}` is a handle of the tool `{handle.tool}`"
        raise invalid_arguments(params.tool, [{"path": "id", "message": whose}])
    more = {**call.reading, "session": params.session}
    if call.action == "fetch":
        return fetch(services, caller, params_of(FetchParams, params.tool, id=call.id, **more))
    if call.action == "apply":
        if not is_beside(call.input):
            refuse_for_a_person(services.supervisor, handle)
        value = input_of(tool.name, handle, call.input)
        input_params = params_of(ApplyParams, params.tool, id=call.id, input=value, **more)
        return apply(services, caller, input_params)
    return abort(services, caller, AbortParams(id=call.id, session=params.session))


def _spawn_of(params: ToolsCallParams, call: HandleCall) -> SpawnParams:
    return params_of(
        SpawnParams,
        params.tool,
        tool=params.tool,
        id=call.id,
        args=dict(call.args),
        session=params.session,
        root=params.root,
        env=params.env,
        call_id=params.call_id,
        **call.reading,
    )


def _await_of(params: ToolsCallParams) -> AwaitParams:
    taken = validation.check(AWAIT.name, params.arguments, AWAIT.parameters, _await_validator())
    if not taken.get("any") and not taken.get("all"):
        # Not in schemas: providers take no choice at the root.
        raise invalid_arguments(AWAIT.name, [{"path": "all", "message": NO_IDS}])
    return params_of(AwaitParams, AWAIT.name, session=params.session, **taken)


@cache
def _await_validator() -> jsonschema_rs.Validator:
    return compile_schema(AWAIT.parameters)
