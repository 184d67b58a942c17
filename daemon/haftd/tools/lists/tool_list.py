"""Lists of tools in each provider's JSON Schema (docs/definitions.md, "Lists for models").

A tool that a provider cannot express is omitted, with the reason.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping

import msgspec

from haft_protocol.methods import Problem, Provider, Style, Surface, ToolInfo
from haftd.schemas import PROVIDERS, Dialect, UnsupportedSchema, expose_names, translate
from haftd.schemas.calls import AWAIT_PARAMETERS, stateful
from haftd.tools.definitions.definition import Tool

from .verb_tools import HANDLE_TOOLS, runtime_of, start_info

AWAIT = ToolInfo(
    name="await",
    description=(
        "Wait until runs of stateful tools have stopped: all of `all`, and one of `any`. It also"
        " returns when every remaining run waits for an answer: these are in `waiting`, each with its"
        " `question`. Answer it with the tool's `apply`, then wait again."
    ),
    parameters=AWAIT_PARAMETERS,
    stateful=False,
    actions=(),
    source="builtin",
    runtime="builtin",
)

ToolList = tuple[tuple[ToolInfo, ...], tuple[Problem, ...]]
"""Tools for a model, sorted by name, and the problems of tools that are not listed."""

RESERVED_NAMES = (AWAIT.name, *(tool.name for tool in HANDLE_TOOLS))
"""Not available to definitions."""


def info(tool: Tool, style: Style = "oneof") -> ToolInfo:
    """Return the tool with its generic schema; raises `UnsupportedSchema`."""
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


def _in_words(tool: ToolInfo, dialect: Dialect, style: Style, names: Mapping[str, str]) -> ToolInfo:
    translation = translate(
        tool.description or f"The tool {tool.name}.", tool.parameters, dialect, style
    )
    shown = names[tool.name]
    translated = msgspec.structs.replace(
        tool, name=shown, description=translation.description, parameters=translation.parameters
    )
    return translated if shown == tool.name else msgspec.structs.replace(translated, tool=tool.name)


def select_offered(tools: Iterable[Tool]) -> list[Tool]:
    """Return the tools that lists for models have, sorted by name: enabled and served, and without a right to
    act for a person."""
    offered = [tool for tool in tools if tool.enable == "on" and not tool.unserved and not tool.may]
    return sorted(offered, key=lambda tool: tool.name)


def make_list(
    tools: Iterable[Tool],
    provider: Provider = "generic",
    style: Style | None = None,
    surface: Surface = "actions",
) -> ToolList:
    """List the offered tools, `await` if any is stateful, and the problems of tools that are not listed.

    Leaves out tools without a description of their program, for the caller to report.
    """
    all_tools = list(tools)
    dialect = PROVIDERS.get(provider)
    if dialect is None:
        style = style or "oneof"
    else:
        # A provider without a choice at the root gets one object.
        style = (style or dialect.style) if dialect.root_choice else "flat"
    names = expose_names([*RESERVED_NAMES, *(tool.name for tool in all_tools)])
    infos: list[ToolInfo] = []
    problems: list[Problem] = []
    for tool in select_offered(all_tools):
        if tool.must_describe:
            continue
        try:
            entry = info(tool, style) if surface == "actions" else start_info(tool)
            infos.append(entry if dialect is None else _in_words(entry, dialect, style, names))
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
                    message=f"the tool is not listed for {provider}: {why}",
                    line=msgspec.UNSET if tool.line is None else tool.line,
                )
            )
    if surface == "verbs":
        presented = [
            entry if dialect is None else _in_words(entry, dialect, style, names)
            for entry in HANDLE_TOOLS
        ]
        infos.sort(key=lambda tool: tool.name)
        return (*infos, *presented), tuple(problems)
    if any(tool.stateful for tool in infos):
        infos.append(AWAIT if dialect is None else _in_words(AWAIT, dialect, style, names))
    return tuple(sorted(infos, key=lambda tool: tool.name)), tuple(problems)
