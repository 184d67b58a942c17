"""Tools by name, as offered to one caller: immutable, with cached lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

from haft_protocol.methods import Problem, Provider, Style, Surface, ToolInfo
from haftd.schemas import expose_names
from haftd.tools.definitions.definition import Tool
from haftd.tools.definitions.self_description import Descriptions

from .tool_list import AWAIT, RESERVED_NAMES, listed, listing
from .verb_tools import HANDLE_TOOLS

_Listed = tuple[tuple[ToolInfo, ...], tuple[Problem, ...]]


class Toolset:
    """Tools by name, also under the names that providers see."""

    def __init__(self, tools: Mapping[str, Tool], problems: tuple[Problem, ...] = ()) -> None:
        self.tools = tools
        self.self_describing = [tool for tool in listed(tools.values()) if tool.is_asked]
        self.problems = problems
        self._revision = 0
        self._listed: dict[tuple[Provider, Style | None, Surface], _Listed] = {}

    def __len__(self) -> int:
        return sum(tool.enable != "off" for tool in self.tools.values())

    @cached_property
    def _own_names(self) -> dict[str, str]:
        return {shown: name for name, shown in expose_names([*RESERVED_NAMES, *self.tools]).items()}

    def get(self, name: str) -> Tool | None:
        return self.tools.get(name) or self.tools.get(self._own_names.get(name, ""))

    def callable(self, surface: Surface = "actions") -> list[str]:
        offered = [
            tool
            for tool in self.tools.values()
            if tool.enable != "off" and not tool.unserved and not tool.may
        ]
        names = [tool.name for tool in offered]
        if surface == "verbs":
            return [*names, *(tool.name for tool in HANDLE_TOOLS)]
        return [*names, AWAIT.name] if any(tool.stateful for tool in offered) else names

    def listing(
        self,
        provider: Provider,
        style: Style | None,
        descriptions: Descriptions,
        surface: Surface = "actions",
    ) -> _Listed:
        return (
            self.listed(provider, style, descriptions, surface)
            or self.lister(provider, style, descriptions, surface)()
        )

    def listed(
        self,
        provider: Provider,
        style: Style | None,
        descriptions: Descriptions,
        surface: Surface = "actions",
    ) -> _Listed | None:
        """Return the cached list; None if absent or outdated by a self-description."""
        if self.self_describing and self._revision != descriptions.revision:
            self._revision, self._listed = descriptions.revision, {}
        return self._listed.get((provider, style, surface))

    def lister(
        self,
        provider: Provider,
        style: Style | None,
        descriptions: Descriptions,
        surface: Surface = "actions",
    ) -> Callable[[], _Listed]:
        """Return a function that lists the tools as described now; safe in a thread."""
        kept = self._listed  # a snapshot: descriptions may arrive meanwhile
        described = [descriptions.of(tool) for tool in self.tools.values()]

        def make() -> _Listed:
            tools, problems = listing(described, provider, style, surface)
            entry = kept[provider, style, surface] = tools, (*self.problems, *problems)
            return entry

        return make
