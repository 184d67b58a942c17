"""All tools there are, by name.

Rules: what is wrong in one file never takes another tool away. Reading happens in `reload` and
nowhere else; between two reads the catalogue does not change, and a read replaces it whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.resources import as_file, files
from pathlib import Path

from haft_protocol.dialects import exposed
from haft_protocol.errors import tool_not_found
from haft_protocol.methods import Problem, Provider, Style, ToolInfo

from .definition import Tool
from .document import Document, Unreadable, problem, read
from .listing import listing
from .load import Layer, layers_of, tools_of

__all__ = ["TOOLPACK", "Catalogue"]

TOOLPACK: tuple[str, ...] = ("run", "shell", "git_stage", "git_rebase")
"""The tools that come with the daemon; each is a file in `toolpack/`, of the form users write."""


# `Catalogue.list` hides the type of that name inside the class.
_Problems = list[Problem]
_Documents = list[Document]
_Layers = list[Layer]
_Listed = tuple[tuple[ToolInfo, ...], tuple[Problem, ...]]


class Catalogue:
    """The tools of the daemon's user.

    `sources` are definition files, lowest first; a folder stands for its `*.toml` in name order. A
    file that is not there is passed over without a word: having none is usual. `builtin` names the
    tools of the daemon's own that it serves, below all others.
    """

    def __init__(
        self,
        sources: Sequence[Path] = (),
        toolpack: Sequence[str] = TOOLPACK,
        builtin: Iterable[str] = (),
    ) -> None:
        self._sources = tuple(sources)
        self._builtin = sorted(builtin)
        self._toolpack = tuple(toolpack)
        self._tools: dict[str, Tool] = {}
        self._shown: dict[str, str] = {}
        self._listed: dict[tuple[Provider, Style | None], _Listed] = {}
        self.problems: tuple[Problem, ...] = ()
        self.reload()

    def __len__(self) -> int:
        return sum(tool.enable != "off" for tool in self._tools.values())

    def find(self, name: str, root: str | None = None) -> Tool:
        """The tool of that name, as the root's folder has it; raises `RpcError` (tool_not_found). The
        name may be the one under which a provider was shown the tool.

        Definitions of a root are not read by this version, so `root` makes no difference yet.
        """
        tool = self._tools.get(name) or self._tools.get(self._shown.get(name, ""))
        if tool is None or tool.enable == "off":
            on = [known.name for known in self._tools.values() if known.enable != "off"]
            raise tool_not_found(name, on)
        return tool

    def list(self, root: str | None = None) -> tuple[ToolInfo, ...]:
        """The tools that can be called, with the generic schema."""
        return self.listing("generic")[0]

    def listing(self, provider: Provider, style: Style | None = None) -> _Listed:
        """The tools that can be called in the words of a provider, and what had to be left out."""
        found = self._listed.get((provider, style))
        if found is None:
            found = listing(self._tools.values(), provider, style)
            self._listed[provider, style] = found
        return found

    def reload(
        self, sources: Sequence[Path] | None = None, toolpack: Sequence[str] | None = None
    ) -> tuple[int, tuple[Problem, ...]]:
        """Read everything again; returns how many tools there are, and what was left out."""
        self._sources = self._sources if sources is None else tuple(sources)
        self._toolpack = self._toolpack if toolpack is None else tuple(toolpack)
        problems: _Problems = []
        layers: _Layers = []
        for document in self._packed():
            layers.extend(layers_of(document, problems, packed=True))
        for document in self._documents(problems):
            layers.extend(layers_of(document, problems))
        self._tools = tools_of(layers, problems)
        self._shown = {shown: name for name, shown in exposed(["await", *self._tools]).items()}
        self._listed = {}
        self.problems = tuple(problems)
        return len(self), self.problems

    def _packed(self) -> _Documents:
        with as_file(files(__package__)) as folder:
            own = [read(folder / "builtin" / f"{name}.toml") for name in self._builtin]
            pack = [name for name in TOOLPACK if name in self._toolpack]
            return own + [read(folder / "toolpack" / f"{name}.toml") for name in pack]

    def _documents(self, problems: _Problems) -> _Documents:
        documents: _Documents = []
        for source in self._sources:
            try:
                paths = sorted(source.glob("*.toml")) if source.is_dir() else [source]
            except OSError as error:
                problems.append(problem(str(source), "", error.strerror or "it cannot be read"))
                continue
            for path in paths:
                if path == source and not path.exists():
                    continue
                try:
                    documents.append(read(path))
                except Unreadable as error:
                    problems.append(problem(str(path), "", error.message, error.line))
        return documents
