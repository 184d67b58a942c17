"""From a tool and its validated arguments to a `ResolvedCall`.

A definition's relative program and `cwd` start at the root; a program from an argument at the
`cwd`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar, Literal

import msgspec

from haft_protocol.errors import (
    RpcError,
    invalid_arguments,
    limit_exceeded,
    shown,
    spawn_failed,
    unsupported_runtime,
    unsupported_source,
)
from haftd.launch_spec import LaunchSpec
from haftd.redaction import Redacted
from haftd.tools.definitions.access import AccessPolicy
from haftd.tools.definitions.definition import Each, Tool
from haftd.tools.definitions.fields import read_limit
from haftd.tools.definitions.parameters import InvalidField
from haftd.tools.definitions.runtime_names import (
    MEDIATED,
    explain_unserved_runtime,
    list_served_names,
)
from haftd.tools.definitions.server_tools import find_server
from haftd.tools.templates import shelltext, template
from haftd.tools.templates.words import CLOSE, OPEN

from .confinement import make_sandbox, mediated_policy, policy_in_force

_VALUE = "HAFT_VALUE_{}"


class CallContext(Redacted, frozen=True, kw_only=True):
    """Context of one call."""

    UNSHOWN: ClassVar[tuple[str, ...]] = ("variables",)

    root: str
    session: str
    handle: str
    action: str = "run"
    path: str = "/usr/local/bin:/usr/bin:/bin"
    """PATH for programs."""
    answers: Mapping[str, Any] = msgspec.field(default_factory=dict)
    vars: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """The client's values for the tool."""
    variables: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The daemon's environment, for `${VAR}` in access rules: the client's could widen a rule."""


class ResolvedCall(Redacted, frozen=True):
    """Call with its templates rendered."""

    UNSHOWN: ClassVar[tuple[str, ...]] = ("env_overlay", "context_json")

    launch: LaunchSpec
    """Without an environment yet."""
    runtime: str
    env_overlay: Mapping[str, str | bool | None] = msgspec.field(default_factory=dict)
    """Changes of the daemon's environment: a string sets a variable, None removes it, True passes
    the caller's even if secret."""
    context_json: str = ""
    """Value for HAFT_CALL."""
    policy: AccessPolicy | None = None
    """Policy with absolute paths."""
    is_module: bool = False
    """The program is a WebAssembly module."""


def resolve(tool: Tool, args: Mapping[str, Any], context: CallContext) -> ResolvedCall:
    """Render the tool's templates with the arguments that `check_arguments` returns; raises `RpcError`."""
    if tool.unserved and tool.source != "local":
        raise unsupported_source(tool.name, tool.source, tool.unserved)
    if find_server(tool) is not None:
        return _resolve_server_call(tool, args, context)
    if tool.unserved or (tool.command is None and not tool.is_builtin):
        raise unsupported_runtime(tool.name, tool.runtime, tool.unserved or "it has no command")
    policy = policy_in_force(tool, context.root, context.variables)
    # The older format's programs know their rules as written.
    in_force = tool.access if policy is None or tool.older else policy.as_data()
    call: dict[str, dict[str, Any]] = {
        "tool": {
            "name": tool.entry or tool.name,
            "arguments": dict(args),
            "answers": dict(context.answers),
            "options": dict(tool.options),
        },
        "context": {
            **(_make_older_context(context) if tool.older else {}),
            "action": context.action,
            "root": context.root,
            "session": context.session,
            "handle": context.handle,
            "access": in_force,
            "vars": dict(context.vars),
        },
    }
    renderer = _Renderer(tool, args, template.Scope(call["tool"], call["context"], context.path))
    runtime = renderer.render_text("runtime", tool.runtime)
    if runtime not in list_served_names():
        raise unsupported_runtime(tool.name, runtime, explain_unserved_runtime(runtime))
    if (runtime == "wasm") != (tool.runtime == "wasm"):
        why = "a template cannot choose it, as the rules of a module are read with its definition"
        raise unsupported_runtime(tool.name, runtime, why)
    terminal = runtime == "pty"
    output: Literal["raw", "outcome", "events"] = "raw" if terminal else tool.output
    if runtime == MEDIATED:
        output, policy = "events", mediated_policy(tool, policy)
    argv, values = (
        renderer.render_command(context.root, is_file=tool.is_module) if tool.command else ((), {})
    )
    folder = renderer.check_size("cwd", renderer.render_value("cwd", tool.cwd) or ".")
    overlay: dict[str, str | bool | None] = dict(values)
    for name, value in tool.env.items():
        if isinstance(value, bool):
            overlay[name] = value or None
            continue
        text = renderer.render_value(f"env.{name}", value)
        overlay[name] = None if text is None else renderer.check_size(f"env.{name}", text, name)
    # A module may read its call up to the end of the input.
    is_call_alone = runtime == "wasm" and output == "outcome"
    takes_input = "apply" in tool.actions and not is_call_alone
    launch = LaunchSpec(
        argv,
        cwd=_join_root(context.root, folder),
        terminal=terminal,
        rows=renderer.render_extent("rows", tool.rows, 24),
        cols=renderer.render_extent("cols", tool.cols, 80),
        stdin="pipe" if terminal or takes_input or output == "events" else "null",
        output=output,
        limits=renderer.render_limits(),
        sandbox=make_sandbox(tool, policy, context.root, runtime),
    )
    context_json = msgspec.json.encode(call).decode()
    return ResolvedCall(launch, runtime, overlay, context_json, policy, tool.is_module)


def _resolve_server_call(tool: Tool, args: Mapping[str, Any], context: CallContext) -> ResolvedCall:
    scope = template.Scope({"name": tool.name, "arguments": dict(args)}, {}, context.path)
    limits = _Renderer(tool, args, scope).render_limits()
    return ResolvedCall(LaunchSpec((), cwd=context.root, limits=limits), "mcp")


def _make_older_context(context: CallContext) -> dict[str, Any]:
    ids = {
        "workspace_id": hashlib.sha256(context.root.encode(errors="replace")).hexdigest()[:16],
        "conversation_id": context.session,
    }
    return {**ids, **context.vars}


class _Renderer:
    """Renderer of a call's templates; failures become `RpcError`."""

    def __init__(self, tool: Tool, args: Mapping[str, Any], scope: template.Scope) -> None:
        self.tool = tool
        self.args = args
        self.scope = scope

    def _argument_error(self, key: str, message: str) -> RpcError:
        return invalid_arguments(self.tool.name, [{"path": key, "message": message}])

    def _definition_error(self, key: str, error: Exception) -> RpcError:
        return spawn_failed(
            f"`{key}` of the definition of {shown(self.tool.name)} is wrong: {error}"
        )

    def render_text(self, key: str, source: str) -> str:
        try:
            return template.render(source, self.scope)
        except template.ArgumentRefused as error:
            raise self._argument_error(key, str(error)) from None
        except template.BadTemplate as error:
            raise self._definition_error(key, error) from None

    def render_value(self, key: str, source: str) -> str | None:
        """Render the text; None for a single expression without a value."""
        try:
            return template.value_of(source, self.scope)
        except template.ArgumentRefused as error:
            raise self._argument_error(key, str(error)) from None
        except template.BadTemplate as error:
            raise self._definition_error(key, error) from None

    def check_size(self, key: str, text: str, name: str = "") -> str:
        """Check the kernel's size limit for an argument, or the value of the variable `name`."""
        if "\0" in text:
            raise self._argument_error(
                _find_holder(self.args, "\0") or key,
                "it contains a NUL byte, which an argument cannot have",
            )
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            raise self._argument_error(
                key, "it contains half a character (a lone surrogate)"
            ) from None
        limit = template.MAX_ARGUMENT - (len(name) + 1 if name else 0)
        if size > limit:
            raise limit_exceeded("argument_bytes", limit, f"`{key}` has {size} bytes")
        return text

    def render_command(
        self, root: str, *, is_file: bool = False
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return the words; with `is_file` the first is a file, not a name on PATH."""
        command = self.tool.command
        if command is None:
            raise AssertionError("a tool without a command was resolved")
        if command.shell is not None:
            return self._render_script(command.words, command.shell)
        argv: list[str] = []
        for word in command.words:
            argv.extend(
                self._render_each(word.each)
                if isinstance(word, Each)
                else [self.render_text("command", word)]
            )
        if not argv or not argv[0]:
            raise self._argument_error("command", "it does not name a program")
        for at, argument in enumerate(argv):
            self.check_size(f"argument {at}", argument)
        is_path = is_file or "/" in argv[0]
        if is_path and not argv[0].startswith("/") and isinstance(command.words[0], str):
            argv[0] = _join_root(root, argv[0])
        return tuple(argv), {}

    def _render_each(self, expression: str) -> list[str]:
        try:
            return template.spread(expression, self.scope)
        except template.ArgumentRefused as error:
            raise self._argument_error("command", str(error)) from None
        except template.BadTemplate as error:
            raise self._definition_error("command", error) from None

    def _render_script(
        self, words: tuple[str | Each, ...], shell: str
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return the shell's arguments, and the variables with the values of the script."""
        pieces: list[str] = []
        values: list[str] = []
        try:
            for word in words:
                if isinstance(word, Each):
                    items = self._render_each(word.each)
                    numbers = range(len(values), len(values) + len(items))
                    pieces.extend(f"{OPEN}{at}{CLOSE}" for at in numbers)
                    values.extend(items)
                    continue
                text, parts = template.render_script(word, self.scope, len(values))
                pieces.append(text)
                values.extend(parts)
            script = shelltext.place(" ".join(pieces), _VALUE)
        except template.ArgumentRefused as error:
            raise self._argument_error("command", str(error)) from None
        except (template.BadTemplate, shelltext.BadScript) as error:
            raise self._definition_error("command", error) from None
        self.check_size("command", script)
        overlay = {
            name: self.check_size(name, value, name)
            for name, value in zip(map(_VALUE.format, range(len(values))), values, strict=True)
        }
        return (shell, "-c", script, self.tool.name), overlay

    def render_extent(self, key: str, value: int | str, default: int) -> int:
        if isinstance(value, int):
            return value
        text = self.render_value(key, value)
        if not text:
            return default
        if len(text) < 10 and text.isascii() and text.isdigit() and 1 <= int(text) <= 1000:
            return int(text)
        raise self._argument_error(key, f"it is {shown(text)}; it must be a number from 1 to 1000")

    def render_limits(self) -> dict[str, float]:
        limits: dict[str, float] = {}
        for name, value in self.tool.limits.items():
            if not isinstance(value, str):
                limits[name] = value
                continue
            text = self.render_value(f"limits.{name}", value)
            if not text:
                continue
            try:
                number: object = msgspec.json.decode(text)
            except msgspec.DecodeError:
                number = text
            try:
                limits[name] = read_limit(name, number)
            except InvalidField as wrong:
                raise self._argument_error(f"limits.{name}", wrong.message) from None
        return limits


@lru_cache(maxsize=256)
def _join_root(root: str, path: str) -> str:
    """Join a relative path to the root. `..` stays for the kernel, as links change its meaning."""
    joined = os.path.join(root, path)  # noqa: PTH118
    return joined if ".." in path.split("/") else os.path.normpath(joined)


def _find_holder(value: Any, needle: str, path: str = "") -> str:
    """Return the path of the first string with `needle`; empty if there is none."""
    if isinstance(value, str):
        return path if needle in value else ""
    items: Any = ()
    if isinstance(value, Mapping):
        items = ((f"{path}.{key}" if path else str(key), item) for key, item in value.items())
    elif isinstance(value, list):
        items = ((f"{path}[{at}]", item) for at, item in enumerate(value))
    for inner, item in items:
        if holder := _find_holder(item, needle, inner):
            return holder
    return ""
