"""The tools of one caller: by name, and in lists for models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

from haft_protocol.methods import Problem, Provider, Style, Surface
from haftd.schemas import expose_names
from haftd.tools.definitions.definition import Tool
from haftd.tools.definitions.self_description import Descriptions

from .tool_list import AWAIT, RESERVED_NAMES, ToolList, make_list, select_offered
from .verb_tools import HANDLE_TOOLS

_Variant = tuple[Provider, Style | None, Surface]


class Toolset:
    """Tools by name, found also by the names that model providers see. The tools never change; their lists are
    cached until a self-description changes."""

    def __init__(self, tools: Mapping[str, Tool], problems: tuple[Problem, ...] = ()) -> None:
        self.tools = tools
        self.self_describing = [
            tool for tool in select_offered(tools.values()) if tool.is_self_describing
        ]
        self.problems = problems
        self._lists: dict[_Variant, ToolList] = {}
        self._revision = 0
        """Revision of the descriptions from which the lists were made."""

    @property
    def enabled_count(self) -> int:
        return sum(tool.enable != "off" for tool in self.tools.values())

    @cached_property
    def _names_by_exposed(self) -> dict[str, str]:
        names = expose_names([*RESERVED_NAMES, *self.tools])
        return {exposed: name for name, exposed in names.items()}

    def get(self, name: str) -> Tool | None:
        """Return a tool by its own name, else by the name that providers see."""
        return self.tools.get(name) or self.tools.get(self._names_by_exposed.get(name, ""))

    def list_callable_names(self, surface: Surface = "actions") -> list[str]:
        """Return the own names of the tools that a model may call: of those in its list, and of those with
        `enable = "explicit"`, which are in no list. A tool with rights to act for a person is not callable."""
        tools = [
            tool
            for tool in self.tools.values()
            if tool.enable != "off" and not tool.unserved and not tool.may
        ]
        names = [tool.name for tool in tools]
        if surface == "verbs":
            return [*names, *(tool.name for tool in HANDLE_TOOLS)]
        return [*names, AWAIT.name] if any(tool.stateful for tool in tools) else names

    def list_tools(
        self,
        provider: Provider,
        style: Style | None,
        descriptions: Descriptions,
        surface: Surface = "actions",
    ) -> ToolList:
        cached = self.find_list(provider, style, descriptions, surface)
        return cached or self.prepare_list(provider, style, descriptions, surface)()

    def find_list(
        self,
        provider: Provider,
        style: Style | None,
        descriptions: Descriptions,
        surface: Surface = "actions",
    ) -> ToolList | None:
        """Return the cached list; None if it must be made."""
        return self._current_lists(descriptions).get((provider, style, surface))

    def prepare_list(
        self,
        provider: Provider,
        style: Style | None,
        descriptions: Descriptions,
        surface: Surface = "actions",
    ) -> Callable[[], ToolList]:
        """Return a function that makes the list from the current descriptions and caches it; a thread may
        call it."""
        # The thread only adds an item, which is atomic, to the dict of these descriptions. If a
        # description changes meanwhile, the toolset gets another dict, and only this call returns the
        # outdated list.
        lists = self._current_lists(descriptions)
        tools = [descriptions.get(tool) for tool in self.tools.values()]

        def make() -> ToolList:
            infos, problems = make_list(tools, provider, style, surface)
            made = lists[provider, style, surface] = infos, (*self.problems, *problems)
            return made

        return make

    def _current_lists(self, descriptions: Descriptions) -> dict[_Variant, ToolList]:
        """Return the cache, a new one if a description has changed."""
        if self.self_describing and self._revision != descriptions.revision:
            self._revision, self._lists = descriptions.revision, {}
        return self._lists
