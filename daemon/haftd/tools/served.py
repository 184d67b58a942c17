"""Tools of MCP servers: what a server's list and the user's definitions make of each other.

Rules: pure; `haftd.runtimes.mcp` asks the servers. A server's schema passes as it is. The user's definition wins,
field by field: its summary lies over the server's description, its parameters over those of the same name, and a
parameter that the server requires stays required unless the definition gives a default. A tool without a definition
of its own is offered as `<server>_<tool>`; where a definition has that name, or two tools would, it is
`<server>.<tool>`. Texts of a server are a stranger's: they are cut, and its annotations free nothing from approval.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from haft_protocol.errors import RpcError, shown, spawn_failed, unsupported_source
from haft_protocol.methods import Annotations, Problem

from .definition import SchemaError, Tool
from .document import problem
from .fields import assemble
from .merging import merge
from .parameters import Wrong, read_parameters

NOT_ASKED = "its server was not asked for its tools yet"
MAX_SUMMARY = 1024
"""Characters of a server's description that a list of tools shows."""
MAX_DESCRIPTION = 32_768


@dataclass(frozen=True, slots=True)
class ServedTool:
    """One tool as its server lists it. `task` says whether a call has to be, or may be, a task of 2025-11-25."""

    name: str
    description: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict)
    annotations: Annotations | None = None
    task: Literal["forbidden", "optional", "required"] = "forbidden"


@dataclass(frozen=True, slots=True)
class ServerState:
    """A configured server as far as its tools are known.

    `offers` are the tools that are offered without a definition of their own. `tools` is None until the server has
    listed them; `fault` is a sentence on why it has not.
    """

    name: str
    offers: Literal["all"] | tuple[str, ...] = "all"
    tools: tuple[ServedTool, ...] | None = None
    fault: str = ""

    def find(self, name: str) -> ServedTool | None:
        """Return the tool of that name."""
        return next((tool for tool in self.tools or () if tool.name == name), None)

    def offered(self) -> Iterator[ServedTool]:
        """Return the tools that need no definition."""
        for tool in self.tools or ():
            if self.offers == "all" or tool.name in self.offers:
                yield tool


def server_of(tool: Tool) -> tuple[str, str] | None:
    """Return the server and the server's name of a tool whose source is `mcp.<server>[.<tool>]`; None for any
    other."""
    kind, _, rest = tool.source.partition(".")
    if kind != "mcp":
        return None
    server, _, name = rest.partition(".")
    return server, name or tool.name


def absence(tool: Tool, servers: Mapping[str, ServerState]) -> RpcError | None:
    """Return why a tool of a server cannot be called now; None where it can."""
    where = server_of(tool)
    if where is None or not tool.absent:
        return None
    if where[0] not in servers:
        return unsupported_source(tool.name, tool.source, tool.absent)
    return spawn_failed(tool.absent, tool=tool.name)


def place_tools(
    defined: Mapping[str, Tool],
    servers: Mapping[str, ServerState],
    file: str,
    shared: Mapping[str, Any],
) -> tuple[dict[str, Tool], tuple[Problem, ...]]:
    """Return the definitions with what their servers say, and the tools that servers offer besides, each with the
    fields `shared` of the user's `'*'`."""
    problems: list[Problem] = []
    tools = {name: _placed(tool, servers, problems) for name, tool in defined.items()}
    claimed = {where for tool in defined.values() if (where := server_of(tool)) is not None}
    for server in sorted(servers.values(), key=lambda one: one.name):
        for served in sorted(server.offered(), key=lambda one: one.name):
            if (server.name, served.name) in claimed:
                continue
            name = f"{server.name}_{served.name}"
            if name in tools:
                name = f"{server.name}.{served.name}"
            if name in tools:
                continue
            source = f"mcp.{server.name}.{served.name}"
            try:
                tool = assemble(name, file, None, {**shared, "source": source})
                tools[name] = _described(tool, served)
            except (Wrong, SchemaError, RecursionError) as error:
                message = f"the server's tool {shown(served.name)} is left out: {error}"
                problems.append(problem(file, f"mcp.{server.name}", message))
        if server.fault:
            problems.append(problem(file, f"mcp.{server.name}", server.fault))
    return tools, tuple(problems)


def _placed(tool: Tool, servers: Mapping[str, ServerState], problems: list[Problem]) -> Tool:
    """Return a definition with what its server says of the tool."""
    where = server_of(tool)
    if where is None:
        return tool
    server = servers.get(where[0])
    served = None if server is None else server.find(where[1])
    if served is not None:
        try:
            return _described(tool, served)
        except (Wrong, SchemaError, RecursionError) as error:
            why = f"its definition does not fit the server's tool: {error}"
    elif server is None:
        why = (
            f"there is no server {shown(where[0])} in the configuration; add `[mcp.{where[0]}]` with its "
            "`command` or `url` to config.toml"
        )
    elif server.fault:
        return replace(tool, absent=server.fault)
    elif server.tools is None:
        return replace(tool, absent=NOT_ASKED)
    else:
        names = ", ".join(shown(one.name) for one in server.tools[:12]) or "none"
        why = f"the server {shown(where[0])} has no tool {shown(where[1])}; its tools are {names}"
    if tool.enable != "off":
        problems.append(problem(tool.file, f"tools.{tool.name}", why, tool.line))
    return replace(tool, absent=why)


def _described(tool: Tool, served: ServedTool) -> Tool:
    """Return the tool as its server describes it, under what the definition says. Raises `Wrong`, `SchemaError`."""
    text = served.description.strip()[:MAX_DESCRIPTION]
    summary = tool.summary
    if not summary and not tool.description and len(text) > MAX_SUMMARY:
        summary = text[: MAX_SUMMARY - 1].rstrip() + "…"
    return replace(
        tool,
        absent="",
        summary=summary,
        description=tool.description or text,
        parameters=_parameters(served.schema, tool.laid_over),
        parameters_given=True,
        annotations=tool.annotations or served.annotations,
    )


def _parameters(schema: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return the server's schema under what the definition says of some parameters."""
    form: dict[str, Any] = {**schema, "type": "object"}
    if not over:
        return form
    if over.get("type") == "object":
        return read_parameters(dict(over))
    properties = dict(form.get("properties") or {})
    required = [name for name in form.get("required") or () if isinstance(name, str)]
    for name, said in over.items():
        if not isinstance(said, Mapping):
            raise Wrong((name,), f"`{name}`: a parameter is a table")
        if name not in properties and form.get("additionalProperties") is False:
            raise Wrong((name,), f"it has no parameter {shown(name)}, which the definition changes")
        own = read_parameters({name: dict(said)})["properties"][name]
        properties[name] = merge(properties.get(name, {}), own)
        if said.get("required") is True and name not in required:
            required.append(name)
        elif name in required and ("default" in said or said.get("required") is False):
            required.remove(name)
    form["properties"] = properties
    form.pop("required", None)
    return {**form, "required": required} if required else form
