"""Tools by name, as one caller is offered them.

Rules: a value; what a listing cost is kept with it. A tool may be asked for by the name under which a
provider was shown it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

from haft_protocol.methods import Problem, Provider, Style, Surface, ToolInfo
from haftd.schemas import exposed

from .definition import Tool
from .listing import AWAIT, OURS, listed, listing
from .selfdescribed import Descriptions

_Listed = tuple[tuple[ToolInfo, ...], tuple[Problem, ...]]


class Offer:
    """Some tools, and what is to be told beside each listing of them."""

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
        return {shown: name for name, shown in exposed([*OURS, *self.tools]).items()}

    def get(self, name: str) -> Tool | None:
        """The tool of that name, whether it can be called or not."""
        return self.tools.get(name) or self.tools.get(self._own_names.get(name, ""))

    def callable(self) -> list[str]:
        """The names of those that a model can call."""
        known = [
            tool
            for tool in self.tools.values()
            if tool.enable != "off" and not tool.unserved and not tool.may
        ]
        names = [tool.name for tool in known]
        return [*names, AWAIT.name] if any(tool.stateful for tool in known) else names

    def listing(
        self,
        provider: Provider,
        style: Style | None,
        descriptions: Descriptions,
        surface: Surface = "actions",
    ) -> _Listed:
        """The tools that can be called in the words of a provider, and what had to be left out."""
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
        """The listing, if it was made before and nobody has described themselves since."""
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
        """What makes the listing, of the tools as they are described now: also in a thread."""
        kept = self._listed  # That of now, whatever is described meanwhile.
        described = [descriptions.of(tool) for tool in self.tools.values()]

        def make() -> _Listed:
            tools, problems = listing(described, provider, style, surface)
            found = kept[provider, style, surface] = tools, (*self.problems, *problems)
            return found

        return make
