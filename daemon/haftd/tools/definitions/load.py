"""Loader of definitions: TOML layers merged field by field, tables by key; a `command` is replaced
whole.

A definition with a wrong field leaves the merge, and the layers below stay in force, unless it has rules
of access: then there is no tool, as it would run without these. `[tools.<name>]`
is strict, as an unknown field may be a misspelt limit; `[conversation.tools.<name>]`, another
program's format, has an unknown field only reported. An unenforceable rule of `access` invalidates
the definition, without `unsafe = true`. The name `'*'` holds defaults.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from msgspec.structs import replace

from haft_protocol.errors import shown
from haft_protocol.methods import Problem
from haftd.lazy_pattern import lazy_pattern
from haftd.redaction import Redacted

from . import fields, parameters
from .access import NOTHING, AccessPolicy, find_unenforceable
from .access_fields import read_policy
from .definition import Tool
from .document import Document, merge_tables
from .parameters import read_details
from .runtime_names import MEDIATED, find_added_runtimes
from .self_description import is_described_later, mark_self_describing
from .server_tools import NOT_ASKED, find_server
from .template_names import check_names

_CONFINED = ("stdio", "pty", "wasm")
FORMS = (("tools",), ("conversation", "tools"))
_UNSAFE = (
    "so the tool is not used; change the rule, or add `unsafe = true` to use the tool without rules"
)
_UNGRANTED = "so the tool is not used; change the rule"


_OPEN_FILES = (
    "it has no rule about `fs`, which gives the tool access to all files, also to haft's own and thereby to its rules; "
    'list files, as in `access.fs.read = ["."]`'
)

_RULES = frozenset(["access", "sandbox"])
_ABOUT_RULES = lazy_pattern(r"^(conversation\.)?tools\..+\.(access|sandbox)(\.|$)")


class Layer(Redacted, frozen=True):
    """One file's validated fields of a tool."""

    UNSHOWN: ClassVar[tuple[str, ...]] = ("document",)

    name: str
    form: tuple[str, ...]
    document: Document
    values: Mapping[str, Any]
    packed: bool = False
    is_refused: bool = False
    """The layer has access rules and a fault: no tool is made of it."""

    def problem(self, path: Iterable[str], message: str) -> Problem:
        return self.document.problem((*self.form, self.name, *path), message)


def read_layers(
    document: Document, problems: list[Problem], *, packed: bool = False
) -> Iterator[Layer]:
    """Yield the definitions of a file without those that have a fault, unless they have access rules
    (`is_refused`); faults go to `problems`."""
    for form in FORMS:
        table = _find_table(document, form)
        if table is None:
            problems.append(document.problem(form, "it must be a table of tools"))
            continue
        for name, values in table.items():
            layer = Layer(name, form, document, values)
            faults = list(_find_faults(layer, strict=form == ("tools",)))
            problems.extend(problem for problem, _ in faults)
            if not any(fatal for _, fatal in faults):
                readable = {key: value for key, value in values.items() if key in fields.READERS}
                yield Layer(name, form, document, readable, packed)
            elif isinstance(values, dict) and not _RULES.isdisjoint(values):
                # Without this layer the tool would run without its rules.
                yield Layer(name, form, document, {}, packed, is_refused=True)


def _find_table(document: Document, form: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the table of tools in this form, empty if it is missing; None if it is no table."""
    table: Any = document.data
    for key in form:
        table = table.get(key, {}) if isinstance(table, dict) else None
    return table if isinstance(table, dict) else None


def read_tables(document: Document) -> Iterator[dict[str, Any]]:
    """Yield the table of tools in either form, empty if it is missing or no table."""
    for form in FORMS:
        yield _find_table(document, form) or {}


def _find_faults(layer: Layer, *, strict: bool) -> Iterator[tuple[Problem, bool]]:
    """Yield a layer's faults, each with True if the fault invalidates the layer."""
    if layer.name != "*" and not fields.NAME.fullmatch(layer.name):
        yield (
            layer.problem(
                (),
                f"{shown(layer.name)} is not a name for a tool: letters, digits, `_`, `-`, `.`; at most 64",
            ),
            True,
        )
        return
    if layer.name in fields.RESERVED:
        yield layer.problem((), f"the name {layer.name!r} is taken by the daemon itself"), True
        return
    if not isinstance(layer.values, dict):
        yield layer.problem((), "a definition must be a table"), True
        return
    for key, value in layer.values.items():
        reader = fields.READERS.get(key)
        if reader is None:
            near = difflib.get_close_matches(key, fields.READERS, n=1)
            hint = f"; did you mean `{near[0]}`?" if near else ""
            yield layer.problem((key,), f"a definition has no field {shown(key)}{hint}"), strict
            continue
        if layer.name == "*" and key not in fields.SHARED:
            yield layer.problem((key,), "it cannot be set for all tools together"), True
            continue
        try:
            reader(value)
        except parameters.InvalidField as wrong:
            yield layer.problem((key, *wrong.path), wrong.message), True


def is_about_rules(problem: Problem) -> bool:
    """True if a problem concerns access rules, without which a tool is another one."""
    return bool(_ABOUT_RULES.search(problem.key))


def merge_layers(layers: Iterable[Layer]) -> dict[str, Any]:
    """Return the unparsed fields of the layers, of which a later one overrides an earlier one."""
    values: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.values.items():
            if key in fields.FLAT:
                values[key] = {**values.get(key, {}), **value}
            else:
                values[key] = value if key in fields.WHOLE else merge_tables(values.get(key), value)
    return values


def read_shared_fields(layers: Iterable[Layer]) -> dict[str, Any]:
    """Return the parsed fields of the user's `'*'`, for tools without a definition."""
    values = merge_layers(layer for layer in layers if layer.form == ("tools",))
    return {key: fields.READERS[key](value) for key, value in values.items()}


def build_tools(layers: Iterable[Layer], problems: list[Problem]) -> dict[str, Tool]:
    """Merge layers, lowest first, into tools by name; faults go to `problems`. A definition with a
    `command` replaces a packed one whole."""
    named: dict[str, list[Layer]] = {}
    shared: list[Layer] = []
    for layer in layers:
        if layer.name == "*":
            shared.append(layer)
        else:
            named.setdefault(layer.name, []).append(layer)
    tools = {}
    for name, own in named.items():
        if any("command" in layer.values and not layer.packed for layer in own):
            own = [layer for layer in own if not layer.packed]
        if any(layer.is_refused for layer in own):
            continue
        if (tool := _build(name, find_defaults(shared, own), own, problems)) is not None:
            tools[name] = tool
    return tools


def find_defaults(shared: Iterable[Layer], own: Iterable[Layer]) -> list[Layer]:
    """Return the `'*'` that lie under a tool's layers, lowest first: those of `[tools]` under every tool,
    above them those of another form in which the tool is defined."""
    forms = {FORMS[0], *(layer.form for layer in own)}
    under = [layer for layer in shared if layer.form in forms]
    return sorted(under, key=lambda layer: FORMS.index(layer.form))


def _map_path(path: tuple[str, ...], values: Mapping[str, Any]) -> tuple[str, ...]:
    """Map a path of the schema to the definition's: the short form omits `properties`."""
    is_short = path[:2] == ("parameters", "properties") and _is_short(values.get("parameters"))
    return (path[0], *path[2:]) if is_short else path


def _is_short(parameters: object) -> bool:
    return isinstance(parameters, dict) and parameters.get("type") != "object"


def _build(name: str, under: list[Layer], own: list[Layer], problems: list[Problem]) -> Tool | None:
    """Merge the layers to a tool; None, with a problem, if they are no valid definition."""
    values = merge_layers((*under, *own))
    origins = {key: layer for layer in (*under, *own) for key in layer.values}
    last = own[-1]
    try:
        read = {key: fields.READERS[key](value) for key, value in values.items()}
        tool = fields.assemble(
            name, last.document.file, last.document.line((*last.form, last.name)), read
        )
    except parameters.InvalidField as wrong:
        layer = origins.get(wrong.path[0], last) if wrong.path else last
        layer = layer if layer.name != "*" else last
        problems.append(layer.problem(_map_path(wrong.path, values), wrong.message))
        return None
    is_module = tool.source == "local" and tool.runtime == "wasm"
    if is_module:
        tool = replace(tool, policy=NOTHING)
    if ("access" in read or "sandbox" in read) and (is_module or not tool.unsafe):
        layer = origins.get("access") or origins["sandbox"]
        is_strict = is_module or any(
            each.form == ("tools",) and not _RULES.isdisjoint(each.values)
            for each in (*under, *own)
        )
        try:
            policy = read_policy(read.get("access"), read.get("sandbox"), strict=is_strict)
        except parameters.InvalidField as wrong:
            problems.append(layer.problem(("access", *wrong.path), wrong.message))
            return None
        faults = list(
            _find_unenforceable(tool, policy, "access" if "access" in read else "sandbox")
        )
        if not faults and _is_confined(tool) and policy.fs is None and policy != AccessPolicy():
            faults = [(("access",), _OPEN_FILES)]
        so = _UNGRANTED if is_module else _UNSAFE
        problems.extend(layer.problem(path, f"{why}, {so}") for path, why in faults)
        if faults:
            return None
        # Kinds that are all open confine nothing.
        tool = replace(tool, policy=None if policy == AccessPolicy() else policy)
    elif tool.runtime == MEDIATED and not tool.unsafe:
        tool = replace(tool, policy=NOTHING)
    for path, message in fields.find_remarks(tool, read):
        problems.append(origins.get(path[0], last).problem(path, message))
    older = any(layer.form != ("tools",) for layer in own)
    tool = replace(tool, older=older, details=read_details(values.get("parameters")))
    tool = mark_self_describing(tool, values)
    if find_server(tool) is not None:
        tool = replace(tool, absent=NOT_ASKED, laid_over=values.get("parameters") or {})
    try:
        check_names(tool, arguments=not is_described_later(tool))
    except parameters.InvalidField as wrong:
        problems.append(origins.get(wrong.path[0], last).problem(wrong.path, wrong.message))
        return None
    return tool


def _is_confined(tool: Tool) -> bool:
    """True if a sandbox enforces the tool's rules; a template may name any runtime."""
    return tool.source == "local" and ("{" in tool.runtime or tool.runtime in _CONFINED)


def _find_unenforceable(
    tool: Tool, policy: AccessPolicy, key: str
) -> Iterator[tuple[tuple[str, ...], str]]:
    if tool.source != "local":
        yield (key,), f"it is not enforced for a tool of the source {tool.source!r}"
    elif _is_confined(tool):
        for path, why in find_unenforceable(policy, tool.runtime, is_unsafe=tool.unsafe):
            yield ("access", *path), why
    elif tool.runtime == MEDIATED:
        for path, why in policy.find_unmediated():
            yield ("access", *path), why
    elif tool.runtime in find_added_runtimes():
        yield (key,), f"the runtime {tool.runtime!r} does not enforce it"
