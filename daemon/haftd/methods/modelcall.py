"""Common parts of a model's calls: tool, params, a run to the end.

Such a run is a spawn under a generated id, ended with its call. In a batch, a run with a question
and no candidate replies `waiting`.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from math import inf
from typing import Any, TypeVar

import msgspec
import trio
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from haft_protocol.errors import (
    for_a_person,
    invalid_arguments,
    not_authorized,
    shown,
    shutting_down,
)
from haft_protocol.inquiries import schema as answer_schema
from haft_protocol.methods import SpawnParams, ToolsCallParams
from haft_protocol.questions import takes_null
from haft_protocol.states import EndedBy
from haftd.caller import Caller
from haftd.core.handles import Handle
from haftd.executions.supervisor import Supervisor
from haftd.schemas.coercion import coerce
from haftd.tools.calls.tool_calls import read_run
from haftd.tools.catalogue import Catalogue
from haftd.tools.definitions.definition import Tool

from .access import Access
from .apply import is_beside
from .base import HandleWait, StartServices
from .read import look, raise_rejection
from .spawn import start, vars_of

P = TypeVar("P")

_SIZE_THRESHOLD = 256 * 1024
"""Default limit of a result in bytes."""


def tool_of(catalogue: Catalogue, params: ToolsCallParams) -> Tool:
    root = None if isinstance(params.root, UnsetType) else params.root
    tool = catalogue.find_for_handle(params.tool, root, params.surface)
    _refuse_rights(tool.name, tool.may)
    return tool


def handle_of(access: Access, caller: Caller, params: ToolsCallParams, id: str) -> Handle:
    """Return the handle; raises `not_authorized` if its tool acts for a user."""
    handle = access.find(caller, params, id)
    # The definition may have changed.
    _refuse_rights(handle.tool, handle.settings.may)
    return handle


def _refuse_rights(tool: str, may: Collection[str]) -> None:
    if may:
        raise not_authorized(
            f"The tool {shown(tool)} acts for a person, so models cannot call it; a person starts it with `haft spawn`."
        )


def params_of(kind: type[P], tool_name: str, /, **fields: Any) -> P:
    """Build a method's params, narrower than the schema for models."""
    try:
        return msgspec.convert({k: v for k, v in fields.items() if v is not UNSET}, kind)
    except msgspec.ValidationError as error:
        from haft_protocol.validation_messages import describe_violation  # by a faulty call only

        path, message = describe_violation(kind, str(error))
        wrong = {"path": path or "arguments", "message": message}
        raise invalid_arguments(tool_name, [wrong]) from None


def input_of(tool: str, handle: Handle, value: Any, name: str = "input") -> Any:
    """Parse an input: JSON that answers an open question, else literal text.

    Raises `invalid_arguments` for `null`, unless the question takes it.
    """
    question = handle.question
    if question is not None and not is_beside(value):
        form = answer_schema("", question.answer_type)
        value = coerce({"answer": value}, form)["answer"]
        if value is None and takes_null(question):
            return None
    if value is None:
        raise invalid_arguments(tool, [{"path": name, "message": "it is required"}])
    return value


def refuse_for_a_person(supervisor: Supervisor, handle: Handle) -> None:
    execution = supervisor.execution_of(handle)
    if execution is not None and handle.question is not None and execution.inquiries.needs_a_person:
        raise for_a_person(handle.question.id)


def run_to_end(
    services: StartServices,
    caller: Caller,
    tool: Tool,
    params: ToolsCallParams,
    session: str,
    call_id: str,
    *,
    id: str = "",
    bound_s: float = inf,
    max_bytes: int = _SIZE_THRESHOLD,
) -> HandleWait:
    """Run the tool to its end.

    With `bound_s`, a longer run, or a question without a candidate, continues as the handle `id`
    and replies its state.
    """
    if services.starter.stopping:
        raise shutting_down()
    most = min(tool.size_threshold or _SIZE_THRESHOLD, max_bytes)
    as_spawn = SpawnParams(
        tool=tool.name,
        id=id or f"call.{secrets.token_hex(8)}",
        args=read_run(tool, params.arguments),
        call_id=call_id,
        session=session,
        root=params.root,
        env=params.env,
        max_bytes=most,
    )
    ready = services.starter.prepare(session, as_spawn, vars_of(params.context))
    if tool.stateful and tool.runtime == "pty":
        why = (
            "it is required: this tool runs on a terminal, and nobody types during a run to the end"
        )
        raise invalid_arguments(tool.name, [{"path": "action", "message": why}])
    ready = replace(ready, surface=params.surface)
    launch = ready.resolved.launch
    if not launch.terminal and launch.output != "events":
        # No client can write: end of input prevents an endless wait.
        ready = ready.with_stdin("null")
    handle, execution = start(services, caller, ready, params.context, one_shot=True)

    def has_ended() -> bool | None:
        return (handle.stopped and handle.output_complete) or None

    def has_ended_or_asks() -> bool | None:
        return has_ended() or (execution is not None and execution.is_unclaimed) or None

    def abort(by_request: bool) -> None:
        if execution is not None and execution.leave() and not handle.stopped:
            if by_request:
                handle.omit_notices()
            by = EndedBy("abort", caller.label)
            services.supervisor.abandon(execution, by)
            services.supervisor.end(execution, by)
            services.audit.record_action("abort", caller, handle)

    def started(has_begun: bool | None) -> object:
        if execution is not None:
            if not has_begun:
                execution.hold()
                return look(services.supervisor, as_spawn, handle)
            raise_rejection(handle)
        return HandleWait(
            (handle,),
            has_ended if bound_s == inf else has_ended_or_asks,
            ended,
            trio.current_time() + bound_s,
            on_cancel=abort,
            holds_in_batch=has_ended_or_asks,
        )

    def ended(_: bool | None) -> object:
        if execution is not None and not handle.stopped:
            execution.hold()  # continues as a handle
        state = look(services.supervisor, as_spawn, handle)
        if handle.refusal is not None:
            raise handle.refusal
        return state

    return HandleWait(
        (handle,),
        lambda: execution is None or execution.begun.is_set() or None,
        started,
        trio.current_time() + bound_s,
        is_reader=False,
        on_cancel=abort,
    )
