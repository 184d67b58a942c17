"""From a spawn to a supervised execution: validate, take the id, make resources (`call_factory`).

A start that awaits an approver keeps its handle pending.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
import trio
from msgspec import UnsetType
from msgspec.structs import replace

from haft_protocol.errors import unsupported_runtime
from haft_protocol.methods import SpawnParams, ToolDescription
from haftd.core.handles import Handle, HandleSettings
from haftd.core.registry import Registry
from haftd.core.spool import Spool
from haftd.inquiries.kind import InquiryContext
from haftd.inquiries.router import InquiryRouter
from haftd.inquiries.tool_question import InquiryQueue
from haftd.launch_spec import shown_command
from haftd.runtimes.base import Call, Runtime
from haftd.tools.calls.environment import path_of
from haftd.tools.calls.resolve import CallContext, ResolvedCall, resolve
from haftd.tools.calls.tool_calls import check_arguments
from haftd.tools.catalogue import Catalogue
from haftd.tools.definitions.approval_policy import find_mode, run_modes
from haftd.tools.definitions.definition import Tool
from haftd.tools.projects.roots import resolve_root
from haftd.tools.templates.template import argument_of

from .call_factory import CallFactory, LaunchSettings, Prepared
from .execution import Execution, StartGate
from .review import PendingReview, Reviewer
from .supervisor import Supervisor

Approver = Callable[[Handle], Awaitable[Prepared]]
"""Awaited while pending. Returns the spawn to run, perhaps edited; raises like `supervisor.StartGate`."""


class Starter(msgspec.Struct):
    call_factory: CallFactory
    catalogue: Catalogue
    registry: Registry
    runtimes: Mapping[str, Runtime]
    make_spool: Callable[[], Spool]
    on_state_change: Callable[[Handle], None]
    """Called when a handle asks or stops."""
    inquiries: InquiryRouter
    supervisor: Supervisor
    stopping: bool = False
    """The daemon is about to exit: no starts."""

    @property
    def launch_settings(self) -> LaunchSettings:
        return self.call_factory.settings

    def prepare(
        self, session: str, params: SpawnParams, vars: Mapping[str, Any] | None = None
    ) -> Prepared:
        """Validate a spawn without side effects; `vars` go into the tool's context."""
        named = None if isinstance(params.root, UnsetType) else params.root
        root = self.launch_settings.default_root if named is None else named
        call_id = None if isinstance(params.call_id, UnsetType) else params.call_id
        client = None if isinstance(params.env, UnsetType) else params.env
        tool = self.catalogue.ready(params.tool, named, params.args)
        context = CallContext(
            root=_runs_in(tool, root),
            session=session,
            handle=params.id,
            action="run",
            path=path_of(self.launch_settings.environ, client),
            vars=vars or {},
            variables=self.launch_settings.environ,
        )
        args, resolved = self._resolved(tool, params.args, context)
        return Prepared(
            session,
            params.id,
            call_id,
            tool,
            args,
            context,
            resolved,
            client,
            splits_stderr=params.split_stderr,
            is_transient=not params.retain,
        )

    def describe(
        self, name: str, named_root: str | None
    ) -> tuple[ToolDescription, Callable[[], str] | None]:
        """Describe a tool; raises as `Catalogue.describe`.

        The function, for a thread as it reads files, returns the refusal of the tool's rules in
        this root, or an empty string; None for a tool without rules.
        """
        description = self.catalogue.describe(name, named_root)
        if isinstance(description.access, UnsetType):
            return description, None
        tool = self.catalogue.ready(name, named_root, ())
        root = self.launch_settings.default_root if named_root is None else named_root
        return description, partial(
            self.call_factory.explain_sandbox_refusal, tool, _runs_in(tool, root)
        )

    def change(self, prepared: Prepared, new_args: Mapping[str, Any]) -> Prepared:
        """Return the spawn with other arguments, under the same definition even if replaced."""
        args, resolved = self._resolved(prepared.tool, new_args, prepared.context)
        return replace(prepared, args=args, resolved=resolved)

    def _resolved(
        self, tool: Tool, new_args: Mapping[str, Any], context: CallContext
    ) -> tuple[dict[str, Any], ResolvedCall]:
        args = check_arguments(tool, new_args)
        resolved = resolve(tool, args, context)
        if not tool.is_builtin and resolved.runtime not in self.runtimes:
            raise unsupported_runtime(tool.name, tool.runtime, "this daemon was built without it")
        if resolved.launch.terminal and find_mode(tool, "result") != "unattended":
            why = "a terminal's output is visible immediately, and its definition requires a review of its result"
            raise unsupported_runtime(tool.name, "pty", why)
        return args, resolved

    def start(
        self,
        prepared: Prepared,
        context: InquiryContext,
        approver: Approver | None = None,
        reviewer: Reviewer | None = None,
    ) -> tuple[Handle, Execution | None, bool]:
        """Take the id and schedule the tool; raises `RpcError` without side effects.

        The last value is False for a repeated `call_id`, with the earlier handle. `context` serves
        the tool's questions.
        """
        admitted = self.registry.admit(
            trio.current_time(),
            session=prepared.session,
            id=prepared.id,
            tool=prepared.tool.name,
            call_id=prepared.call_id,
            args=prepared.args,
            root=prepared.context.root,
            make_spool=self.make_spool,
            wall=time.time(),
            # Shown to the person who approves it.
            command=""
            if approver is None
            else shown_command(prepared.resolved.launch.argv, prepared.tool.name),
            terminal=prepared.resolved.launch.terminal,
            needs_approval=approver is not None,
            settings=_settings(
                prepared.tool,
                is_sandboxed=prepared.resolved.launch.sandbox is not None,
                is_reviewed=reviewer is not None,
                is_transient=prepared.is_transient,
            ),
            on_state_change=self.on_state_change,
        )
        handle = admitted.handle
        if admitted.is_repeated:
            return handle, self.supervisor.execution_of(handle), False
        try:
            call = self.call_factory.make_execution_call(handle, prepared)
        except BaseException:
            self.registry.withdraw(handle)
            raise
        inquiries = InquiryQueue(handle, self.inquiries, context)
        gate = None if approver is None else self._gate(handle, prepared, call, approver)
        review = None if reviewer is None else PendingReview(handle, self.make_spool(), reviewer)
        execution = self.supervisor.start(
            handle, self._runtime(call), call, inquiries, gate, review
        )
        return handle, execution, True

    def _runtime(self, call: Call) -> Runtime:
        return self.runtimes["builtin" if call.builtin else call.runtime]

    def _gate(
        self, handle: Handle, prepared: Prepared, call: Call, approver: Approver
    ) -> StartGate:
        async def gate() -> tuple[Runtime, Call]:
            passed = await approver(handle)
            if passed is prepared:
                return self._runtime(call), call
            changed = self.call_factory.change_arguments(call, handle, passed)
            return self._runtime(changed), changed

        return gate


def _runs_in(tool: Tool, root: str) -> str:
    """Return the working folder: a tool of a root above `root` runs there."""
    return root if tool.root is None or resolve_root(root) == tool.root else tool.root


def _settings(
    tool: Tool, *, is_sandboxed: bool, is_reviewed: bool, is_transient: bool
) -> HandleSettings:
    """Return the settings that all handles of a definition share."""
    of_tool = _settings_of.setdefault(tool, {})
    settings = of_tool.get((is_sandboxed, is_reviewed, is_transient))
    if settings is None:
        settings = _make_settings(tool, is_sandboxed, is_reviewed, is_transient)
        of_tool[is_sandboxed, is_reviewed, is_transient] = settings
    return settings


_settings_of: WeakKeyDictionary[Tool, dict[tuple[bool, bool, bool], HandleSettings]] = (
    WeakKeyDictionary()
)
"""Weak: a definition may have secrets in `env`, and is replaced by a reload."""


def _make_settings(
    tool: Tool, is_sandboxed: bool, is_reviewed: bool, is_transient: bool
) -> HandleSettings:
    return HandleSettings(
        policy=run_modes(tool),
        may=tool.may,
        is_sandboxed=is_sandboxed,
        on_turn_end=tool.on_turn_end or "abort",
        on_disconnect=tool.on_disconnect,
        notify=tool.notify,
        is_reviewed=is_reviewed,
        is_transient=is_transient,
        limit_arguments={
            name: argument
            for name, value in tool.limits.items()
            if isinstance(value, str) and (argument := argument_of(value)) is not None
        },
    )
