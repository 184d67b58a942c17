"""Doing what a tool's policy says to ask about first, and handing out what it says to look at first:
the one place that every verb goes through.

Rules: what is unattended costs nothing and is done at once. A start waits as a handle that is
`pending`; an action on a handle waits beside the handle, and is then done to that very use. What
is wrong with a call is said before anybody is asked, and an action that has become pointless, as its
handle has stopped, asks nobody any more. What a person must not see is not shown, and then not
changed either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import msgspec
import trio
from msgspec import UNSET

from haft_protocol.approvals import Approval, PolicedAction
from haft_protocol.errors import RpcError, invalid_arguments
from haft_protocol.methods import AbortParams, ApplyParams, FetchParams
from haft_protocol.states import HandleState
from haftd.caller import Caller
from haftd.core.handles import Handle
from haftd.core.sealed import Shown, Word
from haftd.core.views import show
from haftd.daemon import Daemon
from haftd.tools.approving import mode_of, render, seen
from haftd.tools.definition import Tool
from haftd.uses.approvals import Request
from haftd.uses.calls import Prepared
from haftd.uses.reviewing import Reviewer
from haftd.uses.starting import Approver
from haftd.uses.use import Skipped

from .base import Later, result_of
from .rendering import renderer

__all__ = ["WITHHELD", "approved", "approver_of", "reviewer_of", "what_runs"]

P = TypeVar("P", FetchParams, ApplyParams, AbortParams)

WITHHELD = {"withheld": True}
"""What is shown in place of an input that nobody is to see."""

_MOST_OF_A_RESULT = 32_768
"""Characters of a result that are rendered."""

_FIXED = ("id", "session", "root")


def approver_of(
    daemon: Daemon, caller: Caller, ready: Prepared, *, one_shot: bool
) -> Approver | None:
    """What a start has to pass; None where it has to pass nothing."""
    action: PolicedAction = "call" if one_shot else "spawn"
    tool = ready.tool
    mode = mode_of(tool, action)
    if mode == "unattended":
        return None

    def check(arguments: dict[str, Any]) -> Prepared:
        prepared = daemon.starter.change(ready, arguments)
        if not one_shot or prepared.invocation.terminal:
            return prepared
        # A run to the end reads what the caller has decided that it reads.
        invocation = replace(prepared.invocation, stdin=ready.invocation.stdin)
        return replace(prepared, invocation=invocation)

    async def approver(handle: Handle) -> Prepared:
        if mode == "skip":
            raise Skipped(_not_run(tool.name, "its definition says so"))
        request = Request(
            caller=caller,
            handle=handle,
            action=action,
            approval=Approval(
                approval_id=daemon.approvals.new_id(),
                session=handle.session,
                tool=tool.name,
                action=action,
                id=handle.id,
                arguments=ready.args,
                rendered=render(tool.style, tool.name, ready.args),
                mode=mode,
            ),
            check=check,
            bound_to=what_runs(tool),
            render=renderer(daemon, ready),
        )
        verdict = await daemon.approvals.seek(request)
        if verdict.decision == "skip":
            raise Skipped(_not_run(tool.name, verdict.reason), verdict.by)
        return ready if verdict.edited is None else verdict.edited

    return approver


def reviewer_of(daemon: Daemon, caller: Caller, tool: Tool) -> Reviewer | None:
    """What a result has to pass before it is handed out; None where it has to pass nothing."""
    mode = mode_of(tool, "result")
    if mode == "unattended":
        return None

    async def review(handle: Handle, shown: Shown) -> Word:
        if mode == "skip":
            return Word("skip", said=_not_handed_out(tool.name, "its definition says so"))
        failure = "" if shown.failure is None else f"{shown.failure}\n"
        request = Request(
            caller=caller,
            handle=handle,
            action="result",
            approval=Approval(
                approval_id=daemon.approvals.new_id(),
                session=handle.session,
                tool=tool.name,
                action="result",
                id=handle.id,
                arguments={"text": shown.text},
                # Its length is bounded already, and an escape makes a character longer.
                rendered=seen(f"{failure}{shown.text}", most=_MOST_OF_A_RESULT),
                mode=mode,
                failed=shown.failed,
                bytes=shown.bytes,
                omitted=shown.omitted,
            ),
            check=lambda arguments: _replacing(tool.name, arguments),
            bound_to=what_runs(tool),
        )
        verdict = await daemon.approvals.seek(request)
        if verdict.decision == "skip":
            return Word("skip", said=_not_handed_out(tool.name, verdict.reason))
        if verdict.edited is not None:
            return Word("edit", text=verdict.edited)
        return Word("allow")

    return review


def approved(
    daemon: Daemon,
    caller: Caller,
    action: PolicedAction,
    handle: Handle,
    params: P,
    serve: Callable[[P], object],
    check: Callable[[P], None],
    *,
    withheld: bool = False,
) -> object:
    """Do `serve` once the action may be done. `check` raises `RpcError` where the params are wrong.
    `withheld`: the input is not to be shown."""
    mode = handle.policy.get(action)
    if mode is None:
        return serve(params)
    check(params)
    if mode == "skip":
        return _passed_over(handle, "its definition says so")
    shown = {k: v for k, v in msgspec.to_builtins(params).items() if k not in _FIXED}
    if withheld:
        shown["input"] = WITHHELD
    request = Request(
        caller=caller,
        handle=handle,
        action=action,
        approval=Approval(
            approval_id=daemon.approvals.new_id(),
            session=handle.session,
            tool=handle.tool,
            action=action,
            id=handle.id,
            arguments=shown,
            rendered=render(_style(daemon, handle), handle.tool, shown),
            mode="edit" if mode == "edit" else "ask",
        ),
        check=lambda arguments: _changed(handle.tool, params, arguments, check, withheld),
    )

    async def later() -> object:
        verdict = None
        scope = trio.CancelScope()
        ends = action != "fetch"

        def look() -> None:
            if handle.stopped:
                scope.cancel()

        if ends:
            handle.listen(look)
        try:
            with scope:
                verdict = await daemon.approvals.seek(request)
        finally:
            if ends:
                handle.unlisten(look)
        if verdict is not None and verdict.decision == "skip":
            return _passed_over(handle, verdict.reason)
        changed = None if verdict is None else verdict.edited
        return await result_of(serve(params if changed is None else changed))

    return Later(later)


def _changed(
    tool: str, params: P, arguments: dict[str, Any], check: Callable[[P], None], withheld: bool
) -> P:
    fixed = {key: getattr(params, key) for key in _FIXED if getattr(params, key) is not UNSET}
    problems = [
        {"path": key, "message": "it cannot be changed"} for key in _FIXED if key in arguments
    ]
    if withheld:
        message = "what is not shown cannot be changed; allow it, or deny it"
        problems.append({"path": "input", "message": message})
    if problems:
        raise invalid_arguments(tool, problems)
    try:
        changed = msgspec.convert({**arguments, **fixed}, type(params))
        check(changed)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$.")
        found = {"path": path.rstrip("`") or "arguments", "message": message}
        raise invalid_arguments(tool, [found]) from None
    except RpcError as error:
        path = str(error.data.get("field", "input"))
        raise invalid_arguments(tool, [{"path": path, "message": error.message}]) from None
    return changed


def _replacing(tool: str, arguments: dict[str, Any]) -> str:
    """The text that stands in place of a result."""
    text = arguments.get("text")
    if not isinstance(text, str):
        problem = {"path": "text", "message": "it is missing, and is the text that is handed out"}
        if "text" in arguments:
            problem["message"] = "it must be a text, the one that is handed out"
        raise invalid_arguments(tool, [problem])
    if unknown := sorted(set(arguments) - {"text"}):
        message = "a result has a `text` and nothing else"
        raise invalid_arguments(tool, [{"path": name, "message": message} for name in unknown])
    return text


def _style(daemon: Daemon, handle: Handle) -> dict[str, Any]:
    try:
        return dict(daemon.catalogue.known(handle.tool, handle.root).style)
    except RpcError:
        return {}  # its definition is gone since


def what_runs(tool: Tool) -> tuple[object, ...]:
    """What a remembered word about a tool is bound to: its program, as its definition has it."""
    env = tuple(sorted(tool.env.items()))
    return tool.file, tool.command, tool.runtime, tool.cwd, env


def _not_run(tool: str, why: str) -> str:
    return f"`{tool}` was skipped, it was not run" + (f": {why.rstrip('.')}." if why else ".")


def _not_handed_out(tool: str, why: str) -> str:
    said = f"`{tool}` has run, and its result was not handed out"
    return said + (f": {why.rstrip('.')}." if why else ".")


def _passed_over(handle: Handle, why: str) -> HandleState:
    """The handle as it is, unread, with the word that nothing was done."""
    state = show(handle, trio.current_time(), view="none", peek=True)
    said = "It was skipped, nothing was done" + (f": {why.rstrip('.')}." if why else ".")
    return msgspec.structs.replace(state, skipped=said)
