"""tools/call: a tool as an assistant calls it; the five verbs by `action`, else a run to the end.

Rules: there is one way to run a tool. A call with `action` is that verb, served by its own file; one
without is a spawn under an id made up here, read when it has stopped. A run to the end is the
call's: one that is cancelled, or whose client goes away, is ended. In a batch, which is answered as a
whole, a run that asks what nobody is asked for answers `waiting`, and lives on as a handle. What the
session has not seen rides on the reply.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any, TypeVar

import jsonschema_rs
import msgspec
import trio
from msgspec import UNSET, UnsetType

from haft_protocol.errors import (
    action_not_supported,
    for_a_person,
    invalid_arguments,
    not_authorized,
    shown,
    shutting_down,
)
from haft_protocol.inquiries import schema as answer_schema
from haft_protocol.methods import (
    AbortParams,
    ApplyParams,
    AwaitParams,
    AwaitResult,
    FetchParams,
    SpawnParams,
    ToolsCallParams,
    called,
)
from haft_protocol.questions import takes_null
from haft_protocol.states import EndedBy, HandleState
from haftd.caller import Caller
from haftd.core.handles import Handle
from haftd.daemon import Daemon
from haftd.tools.arguments import check_against
from haftd.tools.calling import HandleCall, read_call, read_run
from haftd.tools.definition import Tool, compile_schema
from haftd.tools.fitting import fit
from haftd.tools.listing import AWAIT

from .abort import abort
from .apply import apply, is_beside
from .await_ import NO_IDS, await_
from .base import Later, result_of
from .fetch import fetch
from .reading import look
from .spawn import spawn, start, vars_of
from .waiting import until

__all__ = ["spawn_of", "tools_call"]

P = TypeVar("P")

_SIZE_THRESHOLD = 256 * 1024
"""Bytes of a result, where the definition does not say."""


def tools_call(daemon: Daemon, caller: Caller, params: ToolsCallParams) -> object:
    """Answer as the verb does, or with the end of the run; with `call_id` and `notifications`."""
    call_id = (
        f"call_{secrets.token_hex(8)}" if isinstance(params.call_id, UnsetType) else params.call_id
    )
    session = daemon.session_of(caller, params)
    if params.tool == AWAIT.name:
        return _told(daemon, session, call_id, await_(daemon, caller, _await_of(params)))
    tool = _tool(daemon, params)
    reply: object
    if _is_stateful(tool, params):
        params = msgspec.structs.replace(params, call_id=call_id)
        reply = _serve(daemon, caller, tool, params, read_call(tool, params.arguments))
    else:
        reply = _run(daemon, caller, tool, params, session, call_id)
    return _told(daemon, session, call_id, reply)


def spawn_of(daemon: Daemon, caller: Caller, params: ToolsCallParams) -> SpawnParams | None:
    """The spawn that a call is, so that a batch can have it take its id before anything runs."""
    if params.tool == AWAIT.name:
        return None
    tool = _tool(daemon, params)
    if not _is_stateful(tool, params):
        return None
    call = read_call(tool, params.arguments)
    return _spawn_of(params, call) if call.action == "spawn" else None


def _told(daemon: Daemon, session: str, call_id: str, reply: object) -> object:
    """The reply with what rides on it; the notices are those of the moment at which it is made."""
    if isinstance(reply, Later):
        later = reply

        async def told(*, in_batch: bool = False) -> object:
            result = await result_of(later, in_batch=in_batch)
            return _told(daemon, session, call_id, await result_of(result))

        return Later(told, partial(told, in_batch=True))
    if not isinstance(reply, HandleState | AwaitResult):
        raise AssertionError("a verb on a handle answers with a state, `await` with several")
    return called(reply, call_id, daemon.notices.drain(session, time.time()))


def _is_stateful(tool: Tool, params: ToolsCallParams) -> bool:
    """Whether the call is a verb on a handle. Raises `RpcError` (action_not_supported)."""
    if params.arguments.get("action") is None:
        return False
    if not tool.stateful and "action" not in tool.parameters.get("properties", {}):
        action = shown(params.arguments["action"], 40).strip("'")
        raise action_not_supported(tool.name, action, "it has no handles; leave `action` out")
    return tool.stateful


def _serve(
    daemon: Daemon, caller: Caller, tool: Tool, params: ToolsCallParams, call: HandleCall
) -> object:
    """The verb of a call on a handle."""
    if call.action == "spawn":
        return spawn(daemon, caller, _spawn_of(params, call), params.context)
    handle = daemon.find(caller, params, call.id)
    if handle.tool != tool.name:
        whose = f"`{handle.id}` is a handle of the tool `{handle.tool}`"
        raise invalid_arguments(params.tool, [{"path": "id", "message": whose}])
    more = {**call.reading, "session": params.session}
    if call.action == "fetch":
        return fetch(daemon, caller, _made(FetchParams, params.tool, id=call.id, **more))
    if call.action == "apply":
        if not is_beside(call.input):
            _refuse_for_a_person(daemon, handle)
        value = _input_of(tool, handle, call.input)
        made = _made(ApplyParams, params.tool, id=call.id, input=value, **more)
        return apply(daemon, caller, made)
    return abort(daemon, caller, AbortParams(id=call.id, session=params.session))


def _input_of(tool: Tool, handle: Handle, value: Any) -> Any:
    """Read an input: while the handle asks, a text may be the JSON of an answer that fits; else a text
    is never anything but that text. Raises `RpcError` (invalid_arguments) for `null`, unless the
    question takes it."""
    question = handle.question
    if question is not None and not is_beside(value):
        form = answer_schema("", question.answer_type)
        value = fit({"answer": value}, form)["answer"]
        if value is None and takes_null(question):
            return None
    if value is None:
        raise invalid_arguments(tool.name, [{"path": "input", "message": "it is required"}])
    return value


def _refuse_for_a_person(daemon: Daemon, handle: Handle) -> None:
    """What a model says is no answer to what a person is asked."""
    use = daemon.supervisor.use_of(handle)
    if use is not None and handle.question is not None and use.asking.needs_a_person:
        raise for_a_person(handle.question.id)


def _made(kind: type[P], tool_name: str, /, **fields: Any) -> P:
    """The params of a verb; its bounds are narrower than what a model is told."""
    try:
        return msgspec.convert({k: v for k, v in fields.items() if v is not UNSET}, kind)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$.")
        wrong = {"path": path.rstrip("`") or "arguments", "message": message}
        raise invalid_arguments(tool_name, [wrong]) from None


def _tool(daemon: Daemon, params: ToolsCallParams) -> Tool:
    root = None if isinstance(params.root, UnsetType) else params.root
    tool = daemon.catalogue.known(params.tool, root)
    if tool.may:
        raise not_authorized(
            f"The tool {shown(tool.name)} acts for a person, so no model calls it; a person starts it by "
            "`haft spawn`."
        )
    return tool


def _spawn_of(params: ToolsCallParams, call: HandleCall) -> SpawnParams:
    return _made(
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
    taken = check_against(AWAIT.name, params.arguments, AWAIT.parameters, _await_validator())
    if not taken.get("any") and not taken.get("all"):
        # What a model is shown says so in words only: providers take no choice at the root.
        raise invalid_arguments(AWAIT.name, [{"path": "all", "message": NO_IDS}])
    return _made(AwaitParams, AWAIT.name, session=params.session, **taken)


@cache
def _await_validator() -> jsonschema_rs.Validator:
    return compile_schema(AWAIT.parameters)


def _run(
    daemon: Daemon,
    caller: Caller,
    tool: Tool,
    params: ToolsCallParams,
    session: str,
    call_id: str,
) -> Later:
    """Run the tool to its end."""
    if daemon.stopping:
        raise shutting_down()
    most = tool.size_threshold or _SIZE_THRESHOLD
    as_spawn = SpawnParams(
        tool=tool.name,
        id=f"call.{secrets.token_hex(8)}",
        args=read_run(tool, params.arguments),
        call_id=call_id,
        session=session,
        root=params.root,
        env=params.env,
        max_bytes=most,
    )
    ready = daemon.starter.prepare(session, as_spawn, vars_of(params.context))
    if tool.stateful and tool.runtime == "pty":
        why = "it is required: this tool runs on a terminal, and a run to the end has nobody who types"
        raise invalid_arguments(tool.name, [{"path": "action", "message": why}])
    if not ready.invocation.terminal and ready.invocation.output != "events":
        # Nobody can write to it: it reads the end at once instead of waiting for ever.
        ready = replace(ready, invocation=replace(ready.invocation, stdin="null"))
    handle, use = start(daemon, caller, ready, params.context, one_shot=True)

    def has_ended() -> bool:
        return handle.stopped and handle.output_complete

    async def ended(holds: Callable[[], bool] = has_ended) -> object:
        try:
            if use is not None:
                await use.begun.wait()
                if use.failure is not None:
                    raise use.failure
            while not holds():
                await until((handle,), lambda: holds() or None)
        except trio.Cancelled:
            if use is not None and use.leave() and not handle.stopped:
                by = EndedBy("abort", caller.label)
                daemon.supervisor.give_up(use, by)
                daemon.supervisor.end(use, by)
                daemon.record("abort", caller, handle)
            raise
        if use is not None and not handle.stopped:
            use.hold()  # it lives on as a handle, and is no call's any longer
        state = look(daemon, as_spawn, handle)
        if handle.refusal is not None:
            raise handle.refusal
        return state

    async def ended_or_asks() -> object:
        return await ended(lambda: has_ended() or (use is not None and use.is_unclaimed))

    return Later(ended, ended_or_asks)
