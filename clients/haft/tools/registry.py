"""Tools of a program, by name; a decorated function stays plain, for tests."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from .descriptions import Description, describe

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    function: Callable[..., Any]
    description: Description
    fault: str = ""
    """Reason why the function has no description."""

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    def message(self) -> dict[str, Any]:
        """Return the entry for a reply to the action `schema`."""
        if self.fault:
            return {"name": self.name, "error": self.fault}
        described = self.description
        message: dict[str, Any] = {"name": self.name, "summary": described.summary}
        if described.text:
            message["description"] = described.text
        return {**message, "parameters": dict(described.parameters)}


TOOLS: dict[str, Tool] = {}


def tool_of(function: Callable[..., Any], name: str | None = None) -> Tool:
    """Return a function as a tool, with the fault of its signature. Raises `TypeError` for another
    object."""
    if not inspect.isfunction(function):
        raise TypeError(f"a tool is a function with type hints, and {function!r} is none")
    name = name or function.__name__
    try:
        return Tool(name, function, describe(function))
    except Exception as error:
        fault = str(error) if isinstance(error, TypeError) else f"{type(error).__name__}: {error}"
        return Tool(name, function, Description("", "", {}), fault)


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(*, name: str | None = None, **fields: Any) -> Callable[[F], F]: ...
def tool(
    function: F | None = None, /, *, name: str | None = None, **fields: Any
) -> F | Callable[[F], F]:
    """Make a function a tool of this program, under its own name or `name`.

    `fields` are those of a definition (`stateful`, `annotations`, …), as literals: the daemon reads
    them from the source of a tool file in its `tools/`. Elsewhere they are in the definition.
    """

    def decorate(function: F) -> F:
        entry = tool_of(function, name)
        if entry.name in TOOLS:
            raise TypeError(f"there are two tools with the name {entry.name!r}")
        TOOLS[entry.name] = entry
        return function

    _check_fields(fields)
    return decorate if function is None else decorate(function)


def _check_fields(fields: Mapping[str, Any]) -> None:
    for key in ("command", "source", "runtime", "output", "parameters"):
        if key in fields:
            raise TypeError(f"`{key}` of a tool that is a function cannot be set")
