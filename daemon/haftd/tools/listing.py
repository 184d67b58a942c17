"""Tools as a client sees them: names, texts, and one JSON Schema each, in a provider's words.

Rules: pure. A tool that a provider cannot be given is left out by name, with the reason; the others
stand. The name that is shown is one that every provider takes, and leads back to the tool; only the
generic list has the names as they are. Section 5.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping

import msgspec

from haft_protocol.methods import Problem, Provider, Style, Surface, ToolInfo
from haftd.schemas import PROVIDERS, Dialect, UnsupportedSchema, exposed, translate
from haftd.schemas.calls import AWAIT_PARAMETERS, stateful

from .definition import Tool
from .verbtools import HANDLE_TOOLS, runtime_of, start_info

AWAIT = ToolInfo(
    name="await",
    description=(
        "Wait until runs of stateful tools have stopped: all of `all`, and one of `any`. It also"
        " answers when all that is left waits for an answer: those stand in `waiting`, each with its"
        " `question`. Answer it with the tool's `apply`, then wait again."
    ),
    parameters=AWAIT_PARAMETERS,
    stateful=False,
    actions=(),
    source="builtin",
    runtime="builtin",
)

OURS = (AWAIT.name, *(tool.name for tool in HANDLE_TOOLS))
"""Names of tools that no definition has."""


def info(tool: Tool, style: Style = "oneof") -> ToolInfo:
    """One tool with its generic schema and its summary, with its description where it has no summary;
    raises `UnsupportedSchema`."""
    if tool.stateful:
        parameters = stateful(tool.parameters, tool.actions, style, one_shot=tool.one_shot)
    else:
        parameters = copy.deepcopy(dict(tool.parameters))
    return ToolInfo(
        name=tool.name,
        description=tool.summary.strip() or tool.description.strip(),
        parameters=parameters,
        stateful=tool.stateful,
        actions=tool.actions,
        source=tool.source,
        runtime=runtime_of(tool),
    )


def _in_words(one: ToolInfo, dialect: Dialect, style: Style, names: Mapping[str, str]) -> ToolInfo:
    """The tool in the words of a provider; raises `UnsupportedSchema`."""
    said = translate(one.description or f"The tool {one.name}.", one.parameters, dialect, style)
    shown = names[one.name]
    found = msgspec.structs.replace(
        one, name=shown, description=said.description, parameters=said.parameters
    )
    return found if shown == one.name else msgspec.structs.replace(found, tool=one.name)


def listed(tools: Iterable[Tool]) -> list[Tool]:
    """Those that a model is offered, by name; not what may act for a person."""
    found = [tool for tool in tools if tool.enable == "on" and not tool.unserved and not tool.may]
    return sorted(found, key=lambda tool: tool.name)


def listing(
    tools: Iterable[Tool],
    provider: Provider = "generic",
    style: Style | None = None,
    surface: Surface = "actions",
) -> tuple[tuple[ToolInfo, ...], tuple[Problem, ...]]:
    """All that can be called, by name, and what had to be left out; `await` is there when a stateful
    one is. What has not described itself is passed over: whoever asked it says why. Without a style it is the provider's own."""
    known = list(tools)
    dialect = PROVIDERS.get(provider)
    if dialect is None:
        style = style or "oneof"
    else:
        # A provider that takes no choice at the root gets one object, whatever was asked for.
        style = (style or dialect.style) if dialect.root_choice else "flat"
    names = exposed([*OURS, *(tool.name for tool in known)])
    found: list[ToolInfo] = []
    problems: list[Problem] = []
    for tool in listed(known):
        if tool.self_describing:
            continue
        try:
            one = info(tool, style) if surface == "actions" else start_info(tool)
            found.append(one if dialect is None else _in_words(one, dialect, style, names))
        except (UnsupportedSchema, RecursionError) as error:
            why = (
                error
                if isinstance(error, UnsupportedSchema)
                else "its parameters are nested too deeply"
            )
            problems.append(
                Problem(
                    file=tool.file,
                    key=f"tools.{tool.name}.parameters",
                    message=f"the tool is left out for {provider}: {why}",
                    line=msgspec.UNSET if tool.line is None else tool.line,
                )
            )
    if surface == "verbs":
        given = [
            one if dialect is None else _in_words(one, dialect, style, names)
            for one in HANDLE_TOOLS
        ]
        found.sort(key=lambda tool: tool.name)
        return (*found, *given), tuple(problems)
    if any(tool.stateful for tool in found):
        found.append(AWAIT if dialect is None else _in_words(AWAIT, dialect, style, names))
    return tuple(sorted(found, key=lambda tool: tool.name)), tuple(problems)
