"""Tools of MCP servers, merged with the user's definitions field by field.

Without a definition a tool is offered as `<server>_<tool>`, on a conflict as `<server>.<tool>`, and left
out if both names are taken. Servers are untrusted: annotations never loosen approval. A required
parameter stays required unless the definition has a default or `required = false`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from haft_protocol.ellipsis import shorten
from haft_protocol.errors import RpcError, shown, spawn_failed, unsupported_source
from haft_protocol.methods import Annotations, Problem

from .definition import SchemaError, Tool
from .document import merge_tables, problem
from .fields import assemble
from .parameters import InvalidField, read_parameters

NOT_ASKED = "its server has not been asked for its tools yet"
MAX_SUMMARY = 1024
"""Characters of a server's description in a list."""
MAX_DESCRIPTION = 32_768
"""Characters of a server's description; the rest is cut."""


class ServedTool(msgspec.Struct, frozen=True):
    """Tool as listed by its server."""

    name: str
    description: str = ""
    schema: Mapping[str, Any] = msgspec.field(default_factory=dict)
    annotations: Annotations | None = None
    task: Literal["forbidden", "optional", "required"] = "forbidden"
    """A call must, or may, be a task of MCP 2025-11-25."""


class ServerState(msgspec.Struct, frozen=True):
    """Configured server."""

    name: str
    offers: Literal["all"] | tuple[str, ...] = "all"
    """Tools offered without a definition."""
    tools: tuple[ServedTool, ...] | None = None
    """None until listed."""
    fault: str = ""
    """Reason why the tools are not listed."""

    def find(self, name: str) -> ServedTool | None:
        return next((tool for tool in self.tools or () if tool.name == name), None)

    def list_offered(self) -> Iterator[ServedTool]:
        """Yield the tools that need no definition."""
        for tool in self.tools or ():
            if self.offers == "all" or tool.name in self.offers:
                yield tool

    def had_other(self, tools: tuple[ServedTool, ...]) -> bool:
        return self.tools is not None and self.tools != tools


def find_server(tool: Tool) -> tuple[str, str] | None:
    """Return server and tool of a source `mcp.<server>[.<tool>]`; None for another source."""
    kind, _, rest = tool.source.partition(".")
    if kind != "mcp":
        return None
    server, _, name = rest.partition(".")
    return server, name or tool.name


def explain_absence(tool: Tool, servers: Mapping[str, ServerState]) -> RpcError | None:
    """Return the error of a call of a tool that its server does not offer; None if it does."""
    where = find_server(tool)
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
    """Merge definitions with the servers' lists, and add the offered tools with the fields `shared`."""
    problems: list[Problem] = []
    tools = {name: _merge(tool, servers, problems) for name, tool in defined.items()}
    claimed = {where for tool in defined.values() if (where := find_server(tool)) is not None}
    for server in sorted(servers.values(), key=lambda item: item.name):
        for served in sorted(server.list_offered(), key=lambda item: item.name):
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
                tools[name] = _describe(tool, served)
            except (InvalidField, SchemaError, RecursionError) as error:
                why = (
                    str(error)
                    if isinstance(error, InvalidField)
                    else f"its schema {_explain_fault(error)}"
                )
                message = f"the server's tool {shown(served.name)} is left out: {why}"
                problems.append(problem(file, f"mcp.{server.name}", message))
        if server.fault:
            problems.append(problem(file, f"mcp.{server.name}", server.fault))
    return tools, tuple(problems)


def _explain_fault(error: SchemaError | RecursionError) -> str:
    """Return the end of a sentence that begins with the schema."""
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    return f"is not valid: {error}"


def _merge(tool: Tool, servers: Mapping[str, ServerState], problems: list[Problem]) -> Tool:
    where = find_server(tool)
    if where is None:
        return tool
    server = servers.get(where[0])
    served = None if server is None else server.find(where[1])
    if served is not None:
        try:
            return _describe(tool, served)
        except InvalidField as error:
            why = f"its definition does not match the server's tool: {error}"
        except (SchemaError, RecursionError) as error:
            why = f"the server's schema of the tool {_explain_fault(error)}"
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
        names = ", ".join(shown(listed.name) for listed in server.tools[:12]) or "none"
        why = f"the server {shown(where[0])} has no tool {shown(where[1])}; its tools are {names}"
    if tool.enable != "off":
        problems.append(problem(tool.file, f"tools.{tool.name}", why, tool.line))
    return replace(tool, absent=why)


def _describe(tool: Tool, served: ServedTool) -> Tool:
    text = served.description.strip()[:MAX_DESCRIPTION]
    summary = tool.summary
    if not summary and not tool.description and len(text) > MAX_SUMMARY:
        summary = shorten(text, MAX_SUMMARY)
    return replace(
        tool,
        absent="",
        summary=summary,
        description=tool.description or text,
        parameters=_merge_parameters(served.schema, tool.laid_over),
        has_parameters=True,
        annotations=tool.annotations or served.annotations,
    )


def _merge_parameters(schema: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return the server's schema with the definition's changes, or the definition's whole schema. Raises
    `InvalidField`, `SchemaError`."""
    form: dict[str, Any] = {**schema, "type": "object"}
    if not over:
        return form
    if over.get("type") == "object":
        return read_parameters(dict(over))
    properties, required = form.get("properties") or {}, form.get("required") or []
    if not isinstance(properties, Mapping) or not isinstance(required, list):
        raise SchemaError("`properties` or `required` of the server's schema has a wrong type")
    properties = dict(properties)
    required = [name for name in required if isinstance(name, str)]
    for name, change in over.items():
        if not isinstance(change, Mapping):
            raise InvalidField((name,), f"`{name}`: a parameter must be a table")
        if name not in properties and form.get("additionalProperties") is False:
            raise InvalidField(
                (name,), f"it has no parameter {shown(name)}, which the definition changes"
            )
        own = read_parameters({name: dict(change)})["properties"][name]
        properties[name] = merge_tables(properties.get(name, {}), own)
        if change.get("required") is True and name not in required:
            required.append(name)
        elif name in required and ("default" in change or change.get("required") is False):
            required.remove(name)
    form["properties"] = properties
    form.pop("required", None)
    return {**form, "required": required} if required else form
