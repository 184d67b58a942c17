"""spawn: start a tool under an id.

A batch takes all its ids before any tool runs. A start that awaits approval is cancelled with its
call, or its last retry.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from math import inf
from typing import Any

import trio
from msgspec import UnsetType
from msgspec.structs import replace

from haft_protocol.errors import (
    RpcError,
    action_not_supported,
    invalid_params,
    not_approved,
    shown,
    shutting_down,
)
from haft_protocol.methods import SpawnParams
from haft_protocol.states import EndedBy
from haftd.caller import Caller
from haftd.core.handles import Handle
from haftd.core.registry import SpawnKey, admit_batch
from haftd.executions.call_factory import Prepared
from haftd.executions.execution import Execution
from haftd.inquiries.kind import InquiryContext
from haftd.tools.definitions.approval_policy import find_mode

from .approval_gate import approver_of, definition_key, reviewer_of
from .base import HandleWait, StartServices
from .read import answer, plan, raise_rejection, read_plain

_CHECKED_IN_A_ROW = 8
"""Spawns checked between checkpoints: some milliseconds."""


def spawn(
    services: StartServices,
    caller: Caller,
    params: SpawnParams,
    context: Any = None,
    *,
    held_after_s: float = inf,
) -> object:
    """Admit the id and schedule the tool; reply once it runs and `wait` holds.

    Raises the errors of admission, arguments and definition; `spawn_failed` leaves no handle. A
    repeated `call_id` returns the first call's handle. A start that awaits approval for longer than
    `held_after_s` outlives the call, which replies `pending`.
    """
    if services.starter.stopping:
        raise shutting_down()
    prepared = services.starter.prepare(
        services.access.session_of(caller, params), params, vars_of(context)
    )
    if not caller.may_reach(prepared.tool.may):
        raise caller.refusal(f"start {shown(prepared.tool.name)}, which may do more")
    source = _source_of(services, caller, params, prepared)
    if source is not None:
        prepared = replace(prepared, is_fed=True)
    reading = plan(params, terminal=prepared.resolved.launch.terminal)
    handle, execution = start(services, caller, prepared, context, source=source)
    if execution is None:
        return answer(services.supervisor, caller, params, handle, reading)

    patience_ms = params.approval_timeout_ms
    if handle.is_awaiting_approval and not isinstance(patience_ms, UnsetType):
        held_after_s = min(held_after_s, patience_ms / 1000)

    def started(has_begun: bool | None) -> object:
        if not has_begun:
            execution.hold()
            return read_plain(handle)
        execution.leave()
        raise_rejection(handle)
        return answer(services.supervisor, caller, params, handle, reading)

    def abandon(by_request: bool) -> None:
        if execution.leave():
            if by_request and handle.is_awaiting_approval:
                handle.omit_notices()
            services.supervisor.abandon(execution, EndedBy("abort", caller.label))

    return HandleWait(
        (handle,),
        lambda: execution.begun.is_set() or None,
        started,
        trio.current_time() + held_after_s,
        is_reader=False,
        on_cancel=abandon,
    )


def _source_of(
    services: StartServices, caller: Caller, params: SpawnParams, prepared: Prepared
) -> tuple[Handle, int] | None:
    """Return the input's source, a handle and an offset; None without `stdin_from`. Raises `RpcError`."""
    stdin_from = params.stdin_from
    if isinstance(stdin_from, UnsetType):
        return None
    resolved = prepared.resolved
    if (
        prepared.tool.is_builtin
        or resolved.runtime not in ("stdio", "wasm")
        or resolved.launch.output == "events"
    ):
        why = "the input of another handle can only go into a pipe without a protocol (`runtime` is stdio or wasm, `output` is not events)"
        raise action_not_supported(prepared.tool.name, "stdin_from", why)
    if find_mode(prepared.tool, "apply") != "unattended":
        why = "each input of it is approved, so another handle's output cannot be its input"
        raise not_approved(prepared.tool.name, "apply", why)
    source = services.access.find(caller, params, stdin_from.id)
    if "fetch" in source.settings.policy:
        why = "each read of its output needs approval, so it cannot be piped"
        raise not_approved(source.tool, "fetch", why)
    offset = 0 if isinstance(stdin_from.cursor, UnsetType) else stdin_from.cursor
    first, end = source.spool.start, source.spool.end
    if not first <= offset <= end:
        kept = f"of its output the bytes from {first} to {end} are kept"
        why = f"`stdin_from` begins at {offset} of handle {shown(source.id)}, but {kept}"
        raise invalid_params(why, field="stdin_from")
    return source, offset


def reserve(
    services: StartServices, caller: Caller, spawns: Sequence[SpawnParams]
) -> Generator[None, None, list[RpcError | None] | list[Callable[[], None]]]:
    """Reserve the ids of a batch's spawns, in steps.

    Returns each spawn's clash or None; without any clash, the functions that release the ids.
    """
    registry, keys = services.access.registry, []
    for count, params in enumerate(spawns):
        if count and count % _CHECKED_IN_A_ROW == 0:
            yield
        session = services.access.session_of(caller, params)
        try:
            keys.append(services.starter.prepare(session, params).key)
        except RpcError:
            # An invalid spawn fails in its turn; its id counts.
            keys.append(SpawnKey(session, params.id))
    errors = admit_batch(keys, registry)
    if any(errors):
        return errors
    return [registry.reserve(key.session, key.id) for key in keys]


def vars_of(context: Any) -> dict[str, Any]:
    """Return the `vars` of a call's `context`; raises `invalid_params`."""
    vars = context.get("vars", {}) if isinstance(context, dict) else {}
    if not isinstance(vars, dict):
        raise invalid_params("`vars` of `context` must be an object", field="context")
    return vars


def start(
    services: StartServices,
    caller: Caller,
    prepared: Prepared,
    context: Any = None,
    *,
    one_shot: bool = False,
    source: tuple[Handle, int] | None = None,
) -> tuple[Handle, Execution | None]:
    """Start a prepared tool after approval, and record the start.

    `context` goes with its questions; `source`'s output becomes its input.
    """
    inquiry_context = InquiryContext(
        caller=caller,
        call_id=prepared.call_id,
        context=context,
        questions=prepared.tool.questions,
        # The daemon's own tools ask different questions under one id.
        bound_to=None if prepared.tool.is_builtin else definition_key(prepared.tool),
    )
    approver = approver_of(services, caller, prepared, one_shot=one_shot)
    reviewer = reviewer_of(services.inquiries, caller, prepared.tool)
    handle, execution, is_new = services.starter.start(
        prepared, inquiry_context, approver, reviewer
    )

    fed = {} if source is None else {"stdin_from": source[0].id}

    def record() -> None:
        if execution is not None and execution.control is not None:
            services.audit.record_action(
                "spawn", caller, handle, tool=handle.tool, command=handle.command, **fed
            )

    if execution is not None:
        execution.join()
    if execution is not None and is_new:
        if not one_shot:
            execution.when_begun(execution.hold)
        execution.when_begun(record)
        if source is not None:
            services.supervisor.pipe(source[0], execution, source[1])
        services.watching.follow(handle)
        services.subscriptions.add_handle(handle)
    return handle, execution
