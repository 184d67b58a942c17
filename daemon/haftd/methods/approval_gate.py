"""Approval of actions and review of results by a tool's policy, and the shown form of arguments.

An action is withdrawn when its handle stops. Secret input is neither shown nor editable.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import msgspec
import trio
from msgspec import UNSET

from haft_protocol.approvals import PolicedAction
from haft_protocol.errors import RpcError, invalid_arguments
from haft_protocol.methods import AbortParams, ApplyParams, FetchParams
from haft_protocol.outcome import Failure, Malformed, NeedsInput, Success, read_outcome
from haft_protocol.states import HandleState
from haftd.caller import Caller
from haftd.core.handles import Handle
from haftd.core.views import handle_state
from haftd.core.withheld import ResultExcerpt, ReviewDecision
from haftd.executions.call_factory import Prepared
from haftd.executions.execution import Skipped
from haftd.executions.helpers import HelperRunner
from haftd.executions.review import Reviewer
from haftd.executions.starter import Approver
from haftd.inquiries.approval import Approval, request_approval
from haftd.inquiries.kind import InquiryContext
from haftd.inquiries.result_review import review
from haftd.inquiries.router import InquiryRouter
from haftd.runtimes.process.helper import Failed
from haftd.tools.catalogue import Catalogue
from haftd.tools.definitions.approval_policy import escape_invisible, find_mode, render
from haftd.tools.definitions.definition import Command, Tool

from .base import DeferredReply, HandleServices, StartServices

P = TypeVar("P", FetchParams, ApplyParams, AbortParams)

WITHHELD = {"withheld": True}

_FIXED = ("id", "session", "root")

_MAX_NAMES = 64
"""Variables that an approval names: a person reads no more."""
_CODE_VARIABLES = ("PATH", "LD_", "PYTHON", "NODE_", "PERL", "RUBY", "GIT_", "BASH_ENV", "ENV")
"""Beginnings of names of variables by which programs choose what to execute or load."""


def approver_of(
    services: StartServices, caller: Caller, prepared: Prepared, *, one_shot: bool
) -> Approver | None:
    """Return a start's approver; None if unattended."""
    action: PolicedAction = "call" if one_shot else "spawn"
    tool = prepared.tool
    mode = find_mode(tool, action)
    if mode == "unattended":
        return None

    def check(arguments: dict[str, Any]) -> Prepared:
        changed = services.starter.change(prepared, arguments)
        if not one_shot or changed.resolved.launch.terminal:
            return changed
        # A run to the end has its own review.
        return changed.with_stdin(prepared.resolved.launch.stdin)

    async def approver(handle: Handle) -> Prepared:
        if mode == "skip":
            raise Skipped(_not_run(tool.name, "its definition says so"))

        def approve(edited: Prepared | None) -> None:
            handle.approve(terminal=(edited or prepared).resolved.launch.terminal)

        approval = Approval(
            context=InquiryContext(caller=caller, bound_to=definition_key(tool)),
            session=handle.session,
            tool=handle.tool,
            handle=handle,
            action=action,
            arguments=prepared.args,
            rendered=render(tool.style, tool.name, prepared.args),
            env=_changed_variables(prepared.client_env, services.starter.launch_settings.environ),
            mode=mode,
            check=check,
            render=renderer(services.helpers, prepared),
            on_allow=approve,
        )
        decision = await request_approval(services.inquiries, approval)
        if decision is None:
            raise AssertionError("the approval ended without a decision while its handle waits")
        if decision.decision == "skip":
            raise Skipped(_not_run(tool.name, decision.reason), decision.by)
        return prepared if decision.edited is None else decision.edited

    return approver


def _changed_variables(
    client: Mapping[str, str | None] | None, environ: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the names alone, as a value may be secret; first those that choose the code that runs.

    >>> _changed_variables({"PATH": "/evil", "A": "1", "HOME": None}, {"PATH": "/bin"})
    ('PATH', 'A')
    """
    client = client or {}
    names = [name for name in client if client[name] != environ.get(name)]
    names.sort(key=lambda name: (not name.startswith(_CODE_VARIABLES), name))
    return tuple(names[:_MAX_NAMES])


def reviewer_of(inquiries: InquiryRouter, caller: Caller, tool: Tool) -> Reviewer | None:
    mode = find_mode(tool, "result")
    if mode == "unattended":
        return None

    async def reviewer(handle: Handle, shown: ResultExcerpt) -> ReviewDecision:
        context = InquiryContext(caller=caller, bound_to=definition_key(tool))
        return await review(inquiries, context, handle, shown, mode)

    return reviewer


def approved(
    services: HandleServices,
    caller: Caller,
    action: PolicedAction,
    handle: Handle,
    params: P,
    serve: Callable[[P], object],
    check: Callable[[P], object],
    *,
    withheld: bool = False,
) -> object:
    """Call `serve` after the approval.

    `check` raises `RpcError` for invalid params; `withheld` marks secret input.
    """
    mode = handle.settings.policy.get(action)
    if mode is None:
        return serve(params)
    check(params)
    if mode == "skip":
        return _skipped(handle, "its definition says so")
    shown = {k: v for k, v in msgspec.to_builtins(params).items() if k not in _FIXED}
    if withheld:
        shown["input"] = WITHHELD
    approval = Approval(
        context=InquiryContext(caller=caller),
        session=handle.session,
        tool=handle.tool,
        handle=handle,
        action=action,
        arguments=shown,
        rendered=render(_style(services.catalogue, handle), handle.tool, shown),
        mode="edit" if mode == "edit" else "ask",
        check=lambda arguments: _changed(handle.tool, params, arguments, check, withheld),
        depends_on=() if action == "fetch" else (handle,),
    )

    async def later() -> object:
        decision = await request_approval(services.inquiries, approval)
        if decision is not None and decision.decision == "skip":
            return _skipped(handle, decision.reason)
        changed = None if decision is None else decision.edited
        return serve(params if changed is None else changed)

    return DeferredReply(later)


def _changed(
    tool: str, params: P, arguments: dict[str, Any], check: Callable[[P], object], withheld: bool
) -> P:
    fixed = {key: getattr(params, key) for key in _FIXED if getattr(params, key) is not UNSET}
    problems = [
        {"path": key, "message": "it cannot be changed"} for key in _FIXED if key in arguments
    ]
    if withheld:
        message = "arguments that are not shown cannot be changed; allow or deny them"
        problems.append({"path": "input", "message": message})
    if problems:
        raise invalid_arguments(tool, problems)
    try:
        changed = msgspec.convert({**arguments, **fixed}, type(params))
        check(changed)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$.")
        problem = {"path": path.rstrip("`") or "arguments", "message": message}
        raise invalid_arguments(tool, [problem]) from None
    except RpcError as error:
        path = str(error.data.get("field", "input"))
        raise invalid_arguments(tool, [{"path": path, "message": error.message}]) from None
    return changed


def _style(catalogue: Catalogue, handle: Handle) -> dict[str, Any]:
    try:
        return dict(catalogue.find_for_handle(handle.tool, handle.root).style)
    except RpcError:
        return {}  # its definition is gone


def definition_key(tool: Tool) -> tuple[object, ...]:
    """Return the key that binds remembered decisions to a definition."""
    key = _keys.get(tool)
    if key is None:
        env = tuple(sorted(tool.env.items()))
        key = _keys[tool] = tool.file, tool.source, tool.command, tool.runtime, tool.cwd, env
    return key


_keys: WeakKeyDictionary[Tool, tuple[object, ...]] = WeakKeyDictionary()
"""Weak: a definition may have secrets in `env`, and is replaced by a reload."""


def _not_run(tool: str, why: str) -> str:
    return f"`{tool}` was skipped and did not run" + (f": {why.rstrip('.')}." if why else ".")


def _skipped(handle: Handle, why: str) -> HandleState:
    state = handle_state(handle, trio.current_time(), view="none")
    message = "It was skipped; nothing was done" + (f": {why.rstrip('.')}." if why else ".")
    return msgspec.structs.replace(state, skipped=message)


MAX_RENDER_S = 3.0
"""Maximum delay of an approval by rendering."""


def renderer(helpers: HelperRunner, prepared: Prepared) -> Callable[[], Awaitable[str]] | None:
    """Return the rendering of a start's arguments; None without a program."""
    tool = prepared.tool
    command = tool.style.get("parameters")
    if not isinstance(command, Command):
        return None

    async def rendered() -> str:
        output: bytes | Failed = Failed("time", "did not get its turn in time")
        with trio.move_on_after(2 * MAX_RENDER_S):
            output = await helpers.run(
                tool,
                "format_arguments",
                root=prepared.context.root,
                session=prepared.session,
                args=prepared.args,
                handle=prepared.id,
                client=prepared.client_env,
                vars=prepared.context.vars,
                command=command,
                timeout_s=MAX_RENDER_S,
            )
        text = _read(output)
        if isinstance(text, str):
            return escape_invisible(text)
        plain = render(tool.style, tool.name, prepared.args)
        return f"{escape_invisible(f'{text.why}; they are shown as JSON.')}\n{plain}"

    return rendered


def _read(output: bytes | Failed) -> str | Failed:
    subject = "The program that shows the arguments"
    if isinstance(output, Failed):
        prefix = "cannot be run: " if output.kind == "start" else ""
        return Failed(output.kind, f"{subject} {prefix}{output.why.rstrip('.')}")
    match read_outcome(output):
        case Success(content=content):
            text = content
        case Failure(message=message):
            return Failed("output", f"{subject} has failed: {message.rstrip('.')}")
        case Malformed(message=message):
            return Failed("output", f"{subject} printed {message}")
        case NeedsInput():
            return Failed("output", f"{subject} asks a question, and nobody answers it")
        case _:
            text = output.decode("utf-8", "replace")
    text = text.removesuffix("\n")
    return text if text.strip() else Failed("output", f"{subject} printed nothing")
