"""`surface: "verbs"` of tools/call: one tool to start a definition, five for all handles.

Arguments are validated against `tools/list`'s schemas, all faults reported together.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import trio
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from haft_protocol.errors import RpcError, action_not_supported, handle_stopped, invalid_arguments
from haft_protocol.methods import (
    AbortParams,
    ApplyParams,
    AwaitParams,
    AwaitResult,
    FetchParams,
    HandlesListParams,
    SpawnParams,
    ToolsCallParams,
)
from haft_protocol.states import HandleState, Running, Stopped
from haftd.caller import Caller
from haftd.core.handles import Handle
from haftd.core.lifecycle import State
from haftd.executions.supervisor import Supervisor
from haftd.lazy_pattern import lazy_pattern
from haftd.schemas import UnsupportedSchema, validation
from haftd.schemas.coercion import coerce
from haftd.schemas.violations import Names
from haftd.tools.definitions.definition import NO_PARAMETERS, Tool
from haftd.tools.lists.verb_tools import (
    MAX_WAIT_S,
    START_PARAMETERS,
    WAIT_S,
    handle_schema,
    start_names,
    start_parameters,
)

from .abort import abort
from .access import Access
from .apply import apply
from .await_ import await_
from .base import DeferredReply, HandleWait, StartServices, after, then
from .fetch import fetch
from .handles_list import handles_list
from .model_text import MAX_TEXT
from .modelcall import handle_of, input_of, params_of, refuse_for_a_person, run_to_end, tool_of
from .read import plain_state, read_saved
from .spawn import spawn

_WAITS = {"now": "none"}
_VIEWS = {"new": "answer"}
_INPUTS = ("line", "keys", "text", "answer", "signal")
_LISTS = ("ids", "keys")
_MAX_NAME_LENGTH = 48
_TOOLS = {
    "spawn": "run",
    "fetch": "handle_read",
    "apply": "handle_send",
    "abort": "handle_stop",
    "await": "handle_wait",
    "handles/list": "handle_list",
}
"""This surface's tools by the methods that errors name."""
_METHOD = lazy_pattern(f"`({'|'.join(_TOOLS)})`")


def serve_verb(serve: Callable[[], object]) -> object:
    """Serve a call, with this surface's tools instead of methods in errors."""
    try:
        reply = serve()
    except RpcError as error:
        raise _reworded(error) from None
    if isinstance(reply, HandleWait):
        wait = reply
        return replace(wait, then=lambda value: serve_verb(lambda: wait.then(value)))
    if not isinstance(reply, DeferredReply):
        return reply
    later = after(reply, lambda result: serve_verb(lambda: result))
    run, run_in_batch = later.run, later.run_in_batch
    return DeferredReply(
        lambda: _reworded_run(run()),
        run_in_batch=None
        if run_in_batch is None
        else (lambda budget: _reworded_run(run_in_batch(budget))),
    )


async def _reworded_run(result: Awaitable[object]) -> object:
    try:
        return await result
    except RpcError as error:
        raise _reworded(error) from None


def _reworded(error: RpcError) -> RpcError:
    text = _METHOD.sub(lambda method: f"`{_TOOLS[method[1]]}`", error.message)
    return RpcError.received(error.code, text, error.data)


def verb_call(
    services: StartServices, caller: Caller, params: ToolsCallParams, session: str, call_id: str
) -> object:
    """Serve a call; raises the method's errors, and `invalid_arguments`."""
    handle_words = handle_schema(params.tool)
    if handle_words is not None:
        arguments = _listed_words(params.arguments)
        arguments = validation.check(params.tool, arguments, *handle_words)
        return _SERVED[params.tool](services, caller, params, arguments)
    tool = tool_of(services.catalogue, params)
    if tool.stateful:
        return _start(services, caller, params, session, call_id, tool)
    _check_names(tool, params.arguments)
    id = _new_id(services.access, session, tool.name)
    bound = float(MAX_WAIT_S)
    run = run_to_end(
        services, caller, tool, params, session, call_id, id=id, bound_s=bound, max_bytes=MAX_TEXT
    )
    return then(run, lambda state: _without_handle(services, params, session, state))


def _start(
    services: StartServices,
    caller: Caller,
    params: ToolsCallParams,
    session: str,
    call_id: str,
    tool: Tool,
) -> object:
    added_names = start_names(tool)
    start_arguments = {
        n: item for n, item in params.arguments.items() if n in added_names and item is not None
    }
    own = {n: item for n, item in params.arguments.items() if n not in added_names}
    _check_names(tool, params.arguments)
    start_arguments = validation.check(tool.name, start_arguments, *START_PARAMETERS)
    wait_s = start_arguments.get("wait_s", WAIT_S)
    spawned = spawn(
        services,
        caller,
        params_of(
            SpawnParams,
            tool.name,
            tool=tool.name,
            id=start_arguments.get("id") or _new_id(services.access, session, tool.name),
            args=own,
            session=params.session,
            root=params.root,
            env=params.env,
            call_id=call_id,
            **_reading({"until": "input", "wait_s": wait_s}),
        ),
        params.context,
        held_after_s=wait_s,
    )
    line = start_arguments.get("command")
    is_named = "id" in start_arguments

    def opened(state: object) -> object:
        if line and isinstance(state, Running):
            typed = {"id": state.id, "line": line, "wait_s": wait_s}
            return _send(services, caller, params, typed)
        return state if is_named else _without_handle(services, params, session, state)

    return then(spawned, opened)


def _check_names(tool: Tool, arguments: Mapping[str, Any]) -> None:
    if tool.parameters == NO_PARAMETERS:
        return  # the definition may lack parameters; its own check reports that
    try:
        shown = start_parameters(tool)
    except UnsupportedSchema:
        return
    names, taken = Names(), list(shown["properties"])
    accepted = {*taken, *_properties(tool), *start_names(tool)}
    is_closed = tool.parameters.get("additionalProperties") is False
    unknown = [name for name in arguments if is_closed and name not in accepted]
    # The definition may take another argument in place of a listed one.
    has_hidden = not arguments.keys() <= {*taken, *unknown}
    missing = [
        name for name in shown.get("required", ()) if name not in arguments and not has_hidden
    ]
    if unknown or missing:
        faults = _wrong_values(tool, arguments)
        faults += [{"path": name, "message": names.unknown(name, taken)} for name in unknown]
        faults += [{"path": name, "message": "it is required"} for name in missing]
        raise invalid_arguments(tool.name, faults)


def _wrong_values(tool: Tool, arguments: Mapping[str, Any]) -> list[dict[str, str]]:
    names = set(_properties(tool))
    values = {name: value for name, value in arguments.items() if name in names}
    fitted = coerce(values, tool.parameters, with_defaults=False)
    faults = validation.problems(tool.validator, fitted, tool.parameters)
    return [fault for fault in faults if re.split(r"[.\[]", fault["path"])[0] in values]


def _properties(tool: Tool) -> Iterable[str]:
    properties: Iterable[str] = tool.parameters.get("properties", {})
    return properties


def _without_handle(
    services: StartServices, params: ToolsCallParams, session: str, state: object
) -> object:
    """Return the state; forget an ended handle of this call, which no call can name."""
    has_no_name = isinstance(params.call_id, UnsetType)
    if has_no_name and isinstance(state, Stopped) and _is_whole(state):
        registry = services.access.registry
        if (handle := registry.get(session, state.id, state.generation)) is not None:
            registry.forget(handle)
            services.supervisor.wake_expiry()
    return state


def _is_whole(state: Stopped) -> bool:
    return (
        state.ended_by.by == "exit"
        and state.output_complete is not False
        and not state.left_behind
        and isinstance(state.truncated, UnsetType)
        and not state.omitted
    )


def _new_id(access: Access, session: str, tool: str) -> str:
    """Return an unused id: a model may still mean the former handle."""
    stem = tool.lstrip("_.-")[:_MAX_NAME_LENGTH] or "handle"
    number = 1
    while access.registry.is_used(session, f"{stem}-{number}"):
        number += 1
    return f"{stem}-{number}"


def _listed_words(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a single id, or keys separated by spaces, to a list."""
    words = dict(arguments)
    for name in _LISTS:
        value = words.get(name)
        if isinstance(value, str) and not value.lstrip().startswith("["):
            words[name] = value.split()
    return words


def _check_reading(tool: str, handle: Handle, arguments: Mapping[str, Any]) -> None:
    faults = []
    if arguments.get("until") == "pattern" and not arguments.get("pattern"):
        faults.append({"path": "pattern", "message": "it is required with `until` = `pattern`"})
    if arguments.get("view") == "screen" and not handle.terminal:
        why = "the handle has no terminal; give new, all or tail"
        faults.append({"path": "view", "message": why})
    if faults:
        raise invalid_arguments(tool, faults)


def _reading(arguments: Mapping[str, Any]) -> dict[str, Any]:
    until = arguments.get("until") or ("pattern" if arguments.get("pattern") else "input")
    wait_s = arguments.get("wait_s", WAIT_S)
    view = arguments.get("view", "new")
    return {
        "wait": _WAITS.get(until, until),
        "timeout_ms": int(wait_s * 1000),
        "pattern": arguments.get("pattern", UNSET),
        "view": _VIEWS.get(view, view),
        "max_bytes": MAX_TEXT,
    }


def _send(
    services: StartServices, caller: Caller, params: ToolsCallParams, arguments: Mapping[str, Any]
) -> object:
    inputs = [name for name in _INPUTS if name in arguments]
    if len(inputs) != 1:
        has = f"it has {' and '.join(inputs)}" if inputs else "it has none"
        why = f"give exactly one of {', '.join(_INPUTS)}; {has}"
        raise invalid_arguments(params.tool, [{"path": "arguments", "message": why}])
    handle = handle_of(services.access, caller, params, arguments["id"])
    _check_reading(params.tool, handle, arguments)
    value: Any = arguments[inputs[0]]
    if inputs[0] == "answer":
        value = _answer(services.supervisor, handle, value)
    elif inputs[0] != "signal" and handle.state is State.WAITING:
        why = "the handle asks a question; give `answer` instead"
        raise invalid_arguments(params.tool, [{"path": inputs[0], "message": why}])
    else:
        value = {inputs[0]: value}
    more = {**_reading(arguments), "session": params.session}
    return apply(
        services, caller, params_of(ApplyParams, params.tool, id=handle.id, input=value, **more)
    )


def _answer(supervisor: Supervisor, handle: Handle, value: Any) -> Any:
    if handle.stopped:
        raise handle_stopped(handle.id, plain_state(handle))
    if handle.state is not State.WAITING:
        why = "it asks nothing; give `line` for the input that it reads"
        raise action_not_supported(handle.tool, "answer", why)
    refuse_for_a_person(supervisor, handle)
    return input_of(handle.tool, handle, value, "answer")


def _read(
    services: StartServices, caller: Caller, params: ToolsCallParams, arguments: Mapping[str, Any]
) -> object:
    handle = handle_of(services.access, caller, params, arguments["id"])
    _check_reading(params.tool, handle, arguments)
    reading = dict(arguments)
    is_whole = arguments.get("view", "new") != "new" or "from" in arguments
    if is_whole and not {"until", "pattern"} & arguments.keys():
        reading["until"] = "now"
    more = _reading(reading)
    if "from" in arguments:
        more |= {"cursor": arguments["from"], "view": "delta"}
    return fetch(
        services,
        caller,
        params_of(FetchParams, params.tool, id=arguments["id"], session=params.session, **more),
    )


def _wait(
    services: StartServices, caller: Caller, params: ToolsCallParams, arguments: Mapping[str, Any]
) -> object:
    ids = tuple(handle_of(services.access, caller, params, id).id for id in arguments["ids"])
    bound = float(arguments.get("wait_s", WAIT_S))
    any_of = ids if arguments.get("any") else ()
    wanted = AwaitParams(
        session=params.session, timeout_secs=bound, any=any_of, all=() if any_of else ids
    )
    return await_(services, caller, wanted)


def _stop(
    services: StartServices, caller: Caller, params: ToolsCallParams, arguments: Mapping[str, Any]
) -> object:
    try:
        handles = [
            handle_of(services.access, caller, params, id) for id in dict.fromkeys(arguments["ids"])
        ]
    except RpcError as error:
        text = f"{error.message} Nothing was stopped."
        raise RpcError.received(error.code, text, error.data) from None
    ends = [_end(services, caller, params, handle) for handle in handles]

    async def ended() -> AwaitResult:
        states: dict[int, HandleState] = {}

        async def wait(number: int, end: object) -> None:
            state = end
            while isinstance(state, DeferredReply):
                state = await state.run()
            if not isinstance(state, HandleState):
                raise AssertionError(f"an abort returned a {type(state).__name__}")
            states[number] = state

        async with trio.open_nursery() as nursery:
            for number, end in enumerate(ends):
                nursery.start_soon(wait, number, end)
        return _by_state(states[number] for number in range(len(ends)))

    return DeferredReply(ended)


def _end(
    services: StartServices, caller: Caller, params: ToolsCallParams, handle: Handle
) -> object:
    try:
        return abort(services, caller, AbortParams(id=handle.id, session=params.session))
    except RpcError as error:
        if error.kind != "handle_stopped":
            raise
        return read_saved(handle)


def _by_state(states: Iterable[HandleState]) -> AwaitResult:
    all_states = list(states)
    return AwaitResult(
        completed=tuple(state for state in all_states if isinstance(state, Stopped)),
        pending=tuple(state for state in all_states if not isinstance(state, Stopped)),
    )


def _list(
    services: StartServices, caller: Caller, params: ToolsCallParams, arguments: Mapping[str, Any]
) -> object:
    return handles_list(
        services.access, services.supervisor, caller, HandlesListParams(session=params.session)
    )


_Serve = Callable[[StartServices, Caller, ToolsCallParams, Mapping[str, Any]], object]
_SERVED: dict[str, _Serve] = {
    "handle_send": _send,
    "handle_read": _read,
    "handle_wait": _wait,
    "handle_stop": _stop,
    "handle_list": _list,
}
