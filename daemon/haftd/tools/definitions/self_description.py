"""Self-description of tools: programs to ask, and the tool built from the answer (docs/definitions.md,
"Tools that describe themselves").

A program not shown to know the request is never asked: it would do its work instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import minijinja
from msgspec.structs import replace

from haft_protocol.ellipsis import shorten
from haft_protocol.errors import RpcError, escaped, invalid_arguments, shown, spawn_failed
from haft_protocol.methods import Problem
from haft_protocol.outcome import Described, SchemaUnreadable, read_schema
from haftd.lazy_pattern import lazy_pattern

from .definition import Command, Each, SchemaError, Tool
from .document import merge_tables, problem
from .parameters import InvalidField, read_details, read_parameters
from .runtime_names import MEDIATED
from .template_names import check_names

_MAX_ROOTS = 32
"""Roots in which a tool's failure is cached; beyond, the oldest is forgotten."""

_MAX_FAULT = 400
"""Characters of a program's reason."""
_DESCRIBED = ("stdio", "wasm", MEDIATED)

_ANYWHERE = ""
"""Pseudo-root: the failure holds in every root."""

_MEMBER = lazy_pattern(r"\b(tool|context)\s*\[")
_NAMES = minijinja.Environment()
_GIVES_A_TYPE = frozenset(["type", "anyOf", "oneOf", "allOf", "$ref"])


class Undescribed(ValueError):
    """No description; the message is a clause about the program."""


class ToolFault(str):
    """The program's reason for a missing description: a clause about the tool."""

    __slots__ = ()


# -- candidates


def mark_self_describing(tool: Tool, values: Mapping[str, Any]) -> Tool:
    """Mark a tool as self-describing where the fields permit it: local, on pipes, no parameter with
    a type.

    The program must describe the tool if it gets the whole `tool`, `context` or action (a shell
    script: `context`); it may, with a structured `output`, with `source = "local.<name>"` (one of
    several tools), or in the older form, whose programs need not know the request.
    """
    entry = str(values.get("source", "")).partition(".")[2] if tool.source == "local" else ""
    tool = replace(tool, entry=entry) if entry else tool
    parameters = values.get("parameters")
    if tool.source != "local" or tool.runtime not in _DESCRIBED or tool.command is None:
        return tool
    if parameters is not None and not _is_laid_over(parameters):
        return tool
    handed = set(_find_whole_values(tool.command))
    over = parameters or {}
    knows = "context" in handed or (tool.command.shell is None and bool(handed))
    if knows and not tool.older:
        return replace(tool, must_describe=True, has_parameters=False, laid_over=over)
    structured = values.get("output") in ("outcome", "events") or tool.runtime == MEDIATED
    if knows or (tool.command.shell is None and (structured or entry or tool.older)):
        return replace(tool, may_describe=True, laid_over=over)
    return tool


def is_described_later(tool: Tool) -> bool:
    """True if templates may name parameters described later: the program gets its whole call."""
    return (
        tool.is_self_describing
        and tool.command is not None
        and any(True for _ in _find_whole_values(tool.command))
    )


def _is_laid_over(parameters: object) -> bool:
    """True if the parameters only change the program's: none has a type."""
    return (
        isinstance(parameters, dict)
        and bool(parameters)
        and all(isinstance(form, dict) and not _gives_a_type(form) for form in parameters.values())
    )


def _gives_a_type(form: dict[str, Any]) -> bool:
    inner = [form.get("items"), *_list_values(form.get("properties"))]
    return bool(_GIVES_A_TYPE & form.keys()) or any(
        isinstance(subschema, dict) and _gives_a_type(subschema) for subschema in inner
    )


def _list_values(form: object) -> Iterable[object]:
    return form.values() if isinstance(form, dict) else ()


def _find_whole_values(command: Command) -> Iterable[str]:
    """Yield `tool` and `context` where the program gets the whole value, and `context` where it gets
    the action. Other parts prove nothing: `rm` takes `tool.arguments.path`, too."""
    for word in command.words:
        source = f"{{{{ {word.each} }}}}" if isinstance(word, Each) else word
        if "{" in source:
            names = _NAMES.undeclared_variables_in_str(source, nested=True)
            parts = {member[1] for member in _MEMBER.finditer(source)}
            yield from (names & {"tool", "context"}) - parts
            if "context.action" in names:
                yield "context"


# -- answers


def read_description(tool: Tool, stdout: bytes) -> Tool:
    """Merge the program's description below the definition; raises `Undescribed`."""
    try:
        entry = _find_entry(tool, read_schema(stdout))
    except SchemaUnreadable as unreadable:
        raise Undescribed(str(unreadable).removeprefix("it ")) from None
    if entry.error is not None:
        text = "".join(c if c.isprintable() else " " for c in entry.error)
        raise Undescribed(ToolFault(shorten(text.strip(), _MAX_FAULT) or "has no description"))
    try:
        form = _merge_parameters(_drop_absent(entry.parameters), tool.laid_over)
        parameters = read_parameters(form)
        described = replace(
            tool,
            must_describe=False,
            may_describe=False,
            has_parameters=True,
            laid_over={},
            summary=tool.summary or entry.summary or "",
            description=tool.description or entry.description or "",
            examples=tool.examples or entry.examples or "",
            parameters=parameters,
            details=read_details(form),
        )
    except InvalidField as wrong:
        where = ".".join(("parameters", *wrong.path))
        raise Undescribed(f"gave an invalid `{where}`: {wrong.message}") from None
    except RecursionError:
        raise Undescribed("gave parameters that are nested too deeply") from None
    except SchemaError as error:
        where = ".".join(("parameters", *error.path))
        raise Undescribed(f"gave a `{where}` that does not make a schema: {error}") from None
    try:
        check_names(described)
    except InvalidField as wrong:
        where = ".".join(wrong.path)
        raise Undescribed(f"does not describe all parameters: `{where}`: {wrong.message}") from None
    return described


def _find_entry(tool: Tool, entries: tuple[Described, ...]) -> Described:
    """Return the description of this tool from the program's descriptions. Raises `Undescribed`."""
    by_name = {candidate.name: candidate for candidate in entries}
    name = tool.entry or tool.name
    if name in by_name:
        return by_name[name]
    if not tool.entry and len(entries) == 1:
        return entries[0]
    names = ", ".join(map(shown, list(by_name)[:12]))
    hint = "" if tool.entry else '; choose one with `source = "local.<name>"`'
    raise Undescribed(f"describes no tool {shown(name)}, only {names}{hint}")


def _drop_absent(form: Any) -> Any:
    """Drop nulls and empty choices, some serializers' absent values."""
    if isinstance(form, list):
        return [_drop_absent(item) for item in form]
    if not isinstance(form, dict):
        return form
    nothing = {key for key in form if form[key] is None and key != "const"}
    if "null" in form.get("type", ["null"]):
        nothing.discard("default")
    if form.get("enum") == []:
        nothing.add("enum")
    whole = ("default", "const", "enum", "examples")
    return {
        key: value if key in whole else _drop_absent(value)
        for key, value in form.items()
        if key not in nothing
    }


def _merge_parameters(form: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the definition's changes over the program's parameters, each required unless it has a
    default or is marked optional."""
    whole = form.get("type") == "object"
    own = form.get("properties", {}) if whole else form
    if whole and (not over or not isinstance(own, dict)):
        return form
    if unknown := sorted(set(over) - set(own)):
        raise Undescribed(
            f"describes no parameter {shown(unknown[0])}, which the definition changes"
        )
    if not whole:
        return {
            name: _mark_required(change) for name, change in merge_tables(form, dict(over)).items()
        }
    optional = {
        name
        for name, change in over.items()
        if "default" in change or change.get("required") is False
    }
    required = form.get("required")
    listed = (
        [name for name in required if name not in optional]
        if isinstance(required, list)
        else required
    )
    return {**form, "properties": merge_tables(own, dict(over)), "required": listed}


def _mark_required(form: Any) -> Any:
    if not isinstance(form, dict):
        return form
    return {"required": "default" not in form, **_merge_nested(form)}


def _merge_nested(form: dict[str, Any]) -> dict[str, Any]:
    """Mark nested properties without a default as required, like properties of the top."""
    inner = dict(form)
    properties, items = form.get("properties"), form.get("items")
    if isinstance(properties, dict) and not isinstance(form.get("required"), list):
        inner["properties"] = {
            name: _mark_required(property_) for name, property_ in properties.items()
        }
    if isinstance(items, dict):
        inner["items"] = _merge_nested(items)
    return inner


# -- cache


class Descriptions:
    """Cache of self-descriptions, alive as long as their definitions."""

    def __init__(self) -> None:
        self._described: WeakKeyDictionary[Tool, Tool] = WeakKeyDictionary()
        self._failures: WeakKeyDictionary[Tool, dict[str, str]] = WeakKeyDictionary()
        self.revision = 0
        """Incremented by each change."""

    def get(self, tool: Tool) -> Tool:
        """Return the described tool; `tool` itself without a description."""
        return self._described.get(tool, tool) if tool.is_self_describing else tool

    def lacks(self, tool: Tool, root: str) -> bool:
        """True if the program is to be asked: it may describe the tool, and neither a description nor a
        failure in this root is cached."""
        if not tool.is_self_describing or tool in self._described:
            return False
        return not {tool.root or root, _ANYWHERE} & self._failures.get(tool, {}).keys()

    def learn(self, tool: Tool, root: str, outcome: Tool | str, *, anywhere: bool = False) -> None:
        """Store a description, or the clause of a failure in `root` or `anywhere`, until `forget`."""
        self.revision += 1
        if isinstance(outcome, Tool):
            self._described[tool] = outcome
            self._failures.pop(tool, None)
            return
        failures = self._failures.setdefault(tool, {})
        while len(failures) >= _MAX_ROOTS:
            del failures[next(iter(failures))]
        failures[_ANYWHERE if anywhere else tool.root or root] = outcome

    def forget(self, tool: Tool) -> None:
        """Drop the description and all failures, so that the program is asked again."""
        was_described = self._described.pop(tool, None) is not None
        if self._failures.pop(tool, None) is not None or was_described:
            self.revision += 1

    def explain_refusal(self, tool: Tool, root: str | None, args: Iterable[str]) -> RpcError | None:
        """Return the error of a call without a description; None if the call may proceed."""
        if tool.must_describe:
            return spawn_failed(self._explain_failure(tool, root), tool=tool.name)
        first = next(iter(args), None)
        if not tool.may_describe or tool.has_parameters or first is None:
            return None
        why = f"the tool takes no arguments: {self._explain_failure(tool, root)}"
        return invalid_arguments(tool.name, [{"path": escaped(first), "message": why}])

    def list_problems(self, tools: Iterable[Tool], root: str | None) -> tuple[Problem, ...]:
        """Return a problem for each tool without its needed description, asked or not."""
        return tuple(self._make_problem(tool, root) for tool in tools if self._is_missed(tool))

    def _is_missed(self, tool: Tool) -> bool:
        if tool in self._described:
            return False
        return tool.must_describe or (
            tool.may_describe and not tool.older and tool in self._failures
        )

    def list_failures(self, tools: Iterable[Tool]) -> tuple[Problem, ...]:
        """Return a problem for each tool whose program has failed to describe it, except for the older
        form."""
        return tuple(
            self._make_problem(tool, None)
            for tool in tools
            if tool in self._failures and not tool.older
        )

    def _make_problem(self, tool: Tool, root: str | None) -> Problem:
        return problem(
            tool.file, f"tools.{tool.name}", self._explain_failure(tool, root), tool.line
        )

    def _explain_failure(self, tool: Tool, root: str | None) -> str:
        failures = self._failures.get(tool, {})
        reason = failures.get(tool.root or root or _ANYWHERE) or next(
            reversed(failures.values()), None
        )
        why = "has not been asked yet" if reason is None else reason
        at = tool.file if tool.line is None else f"{tool.file}:{tool.line}"
        if isinstance(reason, ToolFault):
            return f"{reason} ({at})"
        if tool.file.endswith(".py") and reason is not None:
            # A function has no `parameters` that could be added.
            return f"its file, run for the description, {reason}; fix {at}"
        lack, remedy = (
            "its definition has no `parameters`",
            f"add `parameters` (`parameters = {{}}` if it takes none) to the definition at {at}",
        )
        if tool.laid_over:
            lack = "no parameter in its definition has a type"
            remedy = f"give each one in the definition at {at} a `type`"
        return (
            f'{lack}, and its program, asked with `action = "schema"`, {why}; {remedy}, or make the '
            'program answer `action = "schema"`: it is asked again when its file changes or the '
            "definitions are read again (`haft reload`)"
        )
