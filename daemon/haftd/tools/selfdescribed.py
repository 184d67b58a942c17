"""Tools that describe themselves: which programs may be asked, and what their answer makes of a tool.

Rules: pure; `haftd.executions.describing` asks. A program is run for its description only where the definition
shows that it knows the question, or says that it may: one that does not would do its work instead. Where
it must know it, nothing is said of the tool without its answer; where it may, the definition stands
without one. The user's fields win over the program's, one by one. Section 10.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import minijinja

from haft_protocol.errors import RpcError, invalid_arguments, shown, spawn_failed
from haft_protocol.methods import Problem
from haft_protocol.outcome import Described, SchemaUnreadable, read_schema

from .declared import check_names
from .definition import Command, Each, SchemaError, Tool
from .document import problem
from .merging import merge
from .parameters import Wrong, read_details, read_parameters

_MAX_ROOTS = 32
"""In so many roots it is remembered that a program gave no answer."""

_ANYWHERE = ""
"""In place of a root: the program is not asked in any other either."""

_MEMBER = re.compile(r"\b(tool|context)\s*\[")
_NAMES = minijinja.Environment()
_GIVES_A_TYPE = frozenset(["type", "anyOf", "oneOf", "allOf", "$ref"])


class Undescribed(ValueError):
    """The program has not described the tool; the message is a clause about the program."""


# -- which are asked


def marked(tool: Tool, values: Mapping[str, Any]) -> Tool:
    """The tool of a definition with these fields, marked as one that describes itself if it is one.

    It can be one if it is local and on pipes, and gives no parameter a type. It is one
    if the definition shows that its program knows the question: it hands the whole `tool` or `context`, or
    the action, to its program; a shell script, only if it does that with `context`. It may be one if it
    writes a structured `output`, or `source = "local.<name>"`, which names one of several that the program
    knows, or has the older form, whose programs are not bound to know the question.
    """
    entry = str(values.get("source", "")).partition(".")[2] if tool.source == "local" else ""
    tool = replace(tool, entry=entry) if entry else tool
    given = values.get("parameters")
    if tool.source != "local" or tool.runtime != "stdio" or tool.command is None:
        return tool
    if given is not None and not _is_laid_over(given):
        return tool
    handed = set(_handed(tool.command))
    over = given or {}
    knows = "context" in handed or (tool.command.shell is None and bool(handed))
    if knows and not tool.older:
        return replace(tool, self_describing=True, parameters_given=False, laid_over=over)
    structured = values.get("output") in ("outcome", "events")
    if knows or (tool.command.shell is None and (structured or entry or tool.older)):
        return replace(tool, may_describe=True, laid_over=over)
    return tool


def is_described_later(tool: Tool) -> bool:
    """Whether templates may name parameters that only the program describes: it is handed its call as a
    whole, so it knows that it is asked. Any other would be asked with nothing in their place."""
    return tool.is_asked and tool.command is not None and any(True for _ in _handed(tool.command))


def _is_laid_over(given: object) -> bool:
    """Whether these parameters only add to those of the program, or narrow them: none gives a type."""
    return (
        isinstance(given, dict)
        and bool(given)
        and all(isinstance(one, dict) and not _gives_a_type(one) for one in given.values())
    )


def _gives_a_type(form: dict[str, Any]) -> bool:
    inner = [form.get("items"), *_values(form.get("properties"))]
    return bool(_GIVES_A_TYPE & form.keys()) or any(
        isinstance(one, dict) and _gives_a_type(one) for one in inner
    )


def _values(form: object) -> Iterable[object]:
    return form.values() if isinstance(form, dict) else ()


def _handed(command: Command) -> Iterable[str]:
    """What of `tool` and `context` the program is handed as a whole; an action stands for its context.

    A part of it says nothing about the program: `rm` takes `tool.arguments.path`, too.
    """
    for word in command.words:
        source = f"{{{{ {word.each} }}}}" if isinstance(word, Each) else word
        if "{" in source:
            names = _NAMES.undeclared_variables_in_str(source, nested=True)
            parts = {found[1] for found in _MEMBER.finditer(source)}
            yield from (names & {"tool", "context"}) - parts
            if "context.action" in names:
                yield "context"


# -- what the answer makes of them


def read_description(tool: Tool, stdout: bytes) -> Tool:
    """The tool as its program describes it, under what the definition says; raises `Undescribed`."""
    try:
        entry = _entry(tool, read_schema(stdout))
    except SchemaUnreadable as unreadable:
        raise Undescribed(str(unreadable).removeprefix("it ")) from None
    try:
        form = _laid(_plain(entry.parameters), tool.laid_over)
        parameters = read_parameters(form)
        described = replace(
            tool,
            self_describing=False,
            may_describe=False,
            parameters_given=True,
            laid_over={},
            summary=tool.summary or entry.summary or "",
            description=tool.description or entry.description or "",
            examples=tool.examples or entry.examples or "",
            parameters=parameters,
            details=read_details(form),
        )
    except Wrong as wrong:
        where = ".".join(("parameters", *wrong.path))
        raise Undescribed(f"gave a `{where}` that is wrong: {wrong.message}") from None
    except RecursionError:
        raise Undescribed("gave parameters that are nested too deeply") from None
    except SchemaError as error:
        where = ".".join(("parameters", *error.path))
        raise Undescribed(f"gave a `{where}` that makes no schema: {error}") from None
    try:
        check_names(described)
    except Wrong as wrong:
        where = ".".join(wrong.path)
        raise Undescribed(f"does not describe all parameters: `{where}`: {wrong.message}") from None
    return described


def _entry(tool: Tool, entries: tuple[Described, ...]) -> Described:
    by_name = {one.name: one for one in entries}
    name = tool.entry or tool.name
    if name in by_name:
        return by_name[name]
    if not tool.entry and len(entries) == 1:
        return entries[0]
    names = ", ".join(map(shown, list(by_name)[:12]))
    hint = "" if tool.entry else ', name the one that is meant with `source = "local.<name>"`'
    raise Undescribed(f"describes no tool {shown(name)}, only {names}{hint}")


def _plain(form: Any) -> Any:
    """A form without what a serializer writes for nothing: nulls, and choices of nothing."""
    if isinstance(form, list):
        return [_plain(one) for one in form]
    if not isinstance(form, dict):
        return form
    nothing = {key for key in form if form[key] is None and key != "const"}
    if "null" in form.get("type", ["null"]):
        nothing.discard("default")
    if form.get("enum") == []:
        nothing.add("enum")
    whole = ("default", "const", "enum", "examples")
    return {
        key: value if key in whole else _plain(value)
        for key, value in form.items()
        if key not in nothing
    }


def _laid(form: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """The program's parameters under what the definition says of some; each required unless it has a
    default or says otherwise."""
    whole = form.get("type") == "object"
    own = form.get("properties", {}) if whole else form
    if whole and (not over or not isinstance(own, dict)):
        return form
    if unknown := sorted(set(over) - set(own)):
        raise Undescribed(
            f"describes no parameter {shown(unknown[0])}, which the definition changes"
        )
    if not whole:
        return {name: _required(one) for name, one in merge(form, dict(over)).items()}
    optional = {
        name for name, one in over.items() if "default" in one or one.get("required") is False
    }
    given = form.get("required")
    listed = [name for name in given if name not in optional] if isinstance(given, list) else given
    return {**form, "properties": merge(own, dict(over)), "required": listed}


def _required(form: Any) -> Any:
    if not isinstance(form, dict):
        return form
    return {"required": "default" not in form, **_inside(form)}


def _inside(form: dict[str, Any]) -> dict[str, Any]:
    inner = dict(form)
    properties, items = form.get("properties"), form.get("items")
    if isinstance(properties, dict) and not isinstance(form.get("required"), list):
        inner["properties"] = {name: _required(one) for name, one in properties.items()}
    if isinstance(items, dict):
        inner["items"] = _inside(items)
    return inner


# -- what is known


class Descriptions:
    """What programs have said of their tools; it goes with the definitions that it belongs to."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Tool, Tool] = WeakKeyDictionary()
        self._mute: WeakKeyDictionary[Tool, dict[str, str]] = WeakKeyDictionary()
        self.revision = 0
        """Grows with each change."""

    def of(self, tool: Tool) -> Tool:
        """The tool as it is described; itself where it is not, or needs not to be."""
        return self._known.get(tool, tool) if tool.is_asked else tool

    def lacks(self, tool: Tool, root: str) -> bool:
        """Whether the program is to be asked before anything is said of the tool."""
        if not tool.is_asked or tool in self._known:
            return False
        return not {tool.root or root, _ANYWHERE} & self._mute.get(tool, {}).keys()

    def learn(self, tool: Tool, root: str, said: Tool | str, *, anywhere: bool = False) -> None:
        """Keep the tool as it is described, or a clause about the program, until `forget`. The program
        was asked in `root`; `anywhere`: the clause holds for all roots."""
        self.revision += 1
        if isinstance(said, Tool):
            self._known[tool] = said
            self._mute.pop(tool, None)
            return
        mute = self._mute.setdefault(tool, {})
        while len(mute) >= _MAX_ROOTS:
            del mute[next(iter(mute))]
        mute[_ANYWHERE if anywhere else tool.root or root] = said

    def forget(self, tool: Tool) -> None:
        """It is not what it was: it is to be asked again."""
        was_known = self._known.pop(tool, None) is not None
        if self._mute.pop(tool, None) is not None or was_known:
            self.revision += 1

    def refusal(self, tool: Tool, root: str | None, args: Iterable[str]) -> RpcError | None:
        """Why a tool that is not described cannot be called so; None where it can."""
        if tool.self_describing:
            return spawn_failed(self._why(tool, root), tool=tool.name)
        first = next(iter(args), None)
        if not tool.may_describe or tool.parameters_given or first is None:
            return None
        why = f"the tool takes no arguments: {self._why(tool, root)}"
        return invalid_arguments(tool.name, [{"path": shown(first).strip("'"), "message": why}])

    def problems(self, tools: Iterable[Tool], root: str | None) -> tuple[Problem, ...]:
        """Those of these tools that are to describe themselves and have not."""
        return tuple(self._problem(tool, root) for tool in tools if self._is_missed(tool))

    def _is_missed(self, tool: Tool) -> bool:
        if tool in self._known:
            return False
        return tool.self_describing or (tool.may_describe and not tool.older and tool in self._mute)

    def failures(self) -> tuple[Problem, ...]:
        """Those that have been asked in vain, wherever that was."""
        return tuple(self._problem(tool, None) for tool in list(self._mute) if not tool.older)

    def _problem(self, tool: Tool, root: str | None) -> Problem:
        return problem(tool.file, f"tools.{tool.name}", self._why(tool, root), tool.line)

    def _why(self, tool: Tool, root: str | None) -> str:
        asked = self._mute.get(tool, {})
        told = asked.get(tool.root or root or _ANYWHERE) or next(reversed(asked.values()), None)
        why = "has not been asked yet" if told is None else told
        at = tool.file if tool.line is None else f"{tool.file}:{tool.line}"
        return (
            f'its definition has no `parameters`, and its program, asked with `action = "schema"`, {why}; '
            f"add `parameters` (`parameters = {{}}` if it takes none) to the definition at {at}, or "
            'make the program answer `action = "schema"`, which it is asked again when its file '
            "changes or the definitions are read again (`haft reload`)"
        )
