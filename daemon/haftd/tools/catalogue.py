"""All tools there are, by name.

Rules: what is wrong in one file never takes another tool away. The user's own are read in `read` and
nowhere else; between two reads they do not change but for what MCP servers list, and what was read replaces them whole. Those of a root are
looked at again at each call that names the root and none of the user's tools: such a call is as it was
before, whatever lies in the root.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec import UnsetType

from haft_protocol.errors import RpcError, tool_not_found, untrusted_tool
from haft_protocol.methods import Problem, Provider, Style, Surface, ToolDescription, ToolInfo

from .definition import Tool
from .describing import describe, describe_await
from .document import Document, Unreadable, definition_files, parse, problem, read
from .functions import packaged_functions, read_functions
from .listing import AWAIT, OURS
from .load import FORMS, Layer, layers_of, shared_fields, tools_of
from .offer import Offer
from .rooted import Own, Rooted
from .roots import FOLDER, Folder, Found, Refused, canonical, project_of, text_of, whole
from .selfdescribed import Descriptions
from .served import ServerState, absence, place_tools, server_of
from .trust import Trust, TrustedFile, TrustedRoot, TrustFault

TOOLPACK: tuple[str, ...] = ("run", "shell", "git_stage", "git_rebase")
"""The tools that come with the daemon; each is a file in `toolpack/`, of the form users write."""

USER_SHELL = "user_shell"
"""The shell that a person opens with `haft shell`; whatever the toolpack is, it is there."""


# `Catalogue.list` hides the type of that name inside the class.
_Problems = list[Problem]
_Documents = list[Document]
_Layers = list[Layer]
_Tools = list[Tool]
_Names = list[str]
_Listed = tuple[tuple[ToolInfo, ...], tuple[Problem, ...]]


def _nobody() -> None:
    """Nobody wants to know."""


_FEW = 20
"""Tools that are listed in a few milliseconds."""

_MAX_ROOTS = 32
"""Roots that are remembered; one that was not asked about for long is read again."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """A root by its one path, its files, and those that were trusted, at that time."""

    root: str
    found: tuple[Found | Refused, ...]
    trusted: Mapping[str, TrustedFile]
    at: float | None

    @property
    def digest(self) -> str:
        """What stands for all that can be trusted."""
        return whole(self.found)


@dataclass(frozen=True, slots=True)
class Definitions:
    """The user's own tools as they were read, and what was wrong."""

    own: Own
    toolpack: tuple[str, ...]
    problems: tuple[Problem, ...]


class Catalogue:
    """The tools of the daemon's user, and of the roots that they trust.

    `sources` are definition files, lowest first; a folder stands for the `*.toml` and `*.py` in it and in its
    subfolders, in the order of their paths. A
    file that is not there is passed over without a word: having none is usual. `builtin` names the
    tools of the daemon's own that it serves, below all others. Without `trust` no root has tools. `packages` are
    folders with installed packages, whose functions may be tools, too.
    """

    def __init__(
        self,
        sources: Sequence[Path] = (),
        toolpack: Sequence[str] = TOOLPACK,
        builtin: Iterable[str] = (),
        trust: Trust | None = None,
        packages: Sequence[str] = (),
    ) -> None:
        self._packages = tuple(packages)
        self._sources = tuple(sources)
        self._builtin = sorted(builtin)
        self._toolpack = tuple(toolpack)
        self._read = Definitions(Own(Offer({})), (), ())
        self.own = self._read.own
        self.on_changed: Callable[[], None] = _nobody
        """Called when other tools may be there than before."""
        self._trust = trust
        self._roots: dict[str, Rooted] = {}
        self.problems: tuple[Problem, ...] = ()
        self.descriptions = Descriptions()
        self.servers: dict[str, ServerState] = {}
        self.server_problems: tuple[Problem, ...] = ()
        """What is wrong with MCP servers, or with definitions of their tools, now."""
        self.reload()

    def __len__(self) -> int:
        return len(self.own.offer)

    @property
    def store_problems(self) -> tuple[Problem, ...]:
        """What is wrong with the store of trust now."""
        return () if self._trust is None else self._trust.problems

    def find(self, name: str, root: str | None = None) -> Tool:
        """The tool of that name, the user's or of that root; raises `RpcError`: tool_not_found, or
        untrusted_root where a file speaks of it that nobody has trusted. The name may be the one
        under which a provider was shown the tool. One that is to describe itself and has not is
        given as it is; see `ready`."""
        return self.descriptions.of(self._defined(name, root))

    def ready(self, name: str, root: str | None, args: Iterable[str] = ()) -> Tool:
        """As `find`, for a call with arguments of these names; raises `RpcError` (spawn_failed, or
        invalid_arguments) where its program was to say what the tool takes, and has not."""
        tool = self.find(name, root)
        if (gone := absence(tool, self.servers)) is not None:
            raise gone
        if (refusal := self.descriptions.refusal(tool, root, args)) is not None:
            raise refusal
        return tool

    def describe(self, name: str, root: str | None) -> ToolDescription:
        """All that is to be said about a tool that can be called; raises what `ready` raises."""
        return describe_await() if name == AWAIT.name else describe(self.ready(name, root))

    def self_describing(self, name: str | None = None, root: str | None = None) -> _Tools:
        """The definition of that name, or all that are listed, if it leaves the parameters to its
        program, or may do so; also when that has been asked. Raises what `find` raises."""
        if name is None:
            return self._offer(root).self_describing
        if name == AWAIT.name:
            return []
        tool = self._defined(name, root)
        return [tool] if tool.is_asked else []

    def mute(self, root: str | None = None) -> tuple[Problem, ...]:
        """Those of the listed tools that were to describe themselves and have not, and what is wrong with servers."""
        mute = self.descriptions.problems(self._offer(root).self_describing, root)
        return (*mute, *self.server_problems)

    def unlisted_servers(self, name: str | None = None, root: str | None = None) -> _Names:
        """The servers that have to list their tools before the tool of that name can be spoken of, or before all
        tools can."""
        unlisted = [state.name for state in self.servers.values() if state.tools is None]
        if not unlisted or name in OURS:
            return []
        defined = {where[0] for tool in self.own.offer.tools.values() if (where := server_of(tool))}
        if name is None:
            return [one for one in unlisted if self.servers[one].offers or one in defined]
        tool = self.own.offer.get(name)
        if tool is not None:
            where = server_of(tool)
            return [] if where is None or where[0] not in unlisted else [where[0]]
        rooted = self._rooted(root)
        if rooted is not None and rooted.offer.get(name) is not None:
            return []
        return [one for one in unlisted if self.servers[one].offers]

    def serve(self, state: ServerState) -> None:
        """Take what a server lists, or why it lists nothing."""
        if self.servers.get(state.name) == state:
            return
        self.servers[state.name] = state
        self._place()
        self.on_changed()

    def configure_servers(self, states: Iterable[ServerState]) -> None:
        """Know these servers and no others; what is known of one that is configured as before stays known."""
        before = self.servers
        self.servers = {}
        for state in states:
            known = before.get(state.name)
            same = known is not None and known.offers == state.offers
            self.servers[state.name] = known if known is not None and same else state
        self._place()

    def _defined(self, name: str, root: str | None) -> Tool:
        tool = self.own.offer.get(name)
        offer, problems = self.own.offer, (*self.problems, *self.server_problems)
        if tool is None and (rooted := self._rooted(root)) is not None:
            offer, problems = rooted.offer, (*problems, *rooted.offer.problems)
            tool = offer.get(name)
            if tool is None and (waits := rooted.speaks_of(name)) is not None:
                file, state = waits
                raise untrusted_tool(name, rooted.root, file, changed=state == "changed")
        if tool is None:
            raise tool_not_found(name, offer.callable(), _refused(name, problems))
        if tool.enable == "off":
            raise tool_not_found(
                name, offer.callable(), f"its definition in {_place(tool)} turns it off (`enable`)"
            )
        return tool

    def known(self, name: str, root: str | None = None) -> Tool:
        """The same for a call that may be about a handle: a tool of a root that was there before is
        known still, though its file has changed. Only `find` says what may start."""
        try:
            return self.find(name, root)
        except RpcError:
            rooted = self._rooted(root)
            tool = None if rooted is None else rooted.former(name)
            if tool is None:
                raise
            return self.descriptions.of(tool)

    def list(self, root: str | None = None) -> tuple[ToolInfo, ...]:
        """The tools that can be called, with the generic schema."""
        return self.listing("generic", root=root)[0]

    def listing(
        self,
        provider: Provider,
        style: Style | None = None,
        root: str | None = None,
        surface: Surface = "actions",
    ) -> _Listed:
        """The tools that can be called in the words of a provider; what had to be left out, and what
        of the root nobody has trusted."""
        return self._offer(root).listing(provider, style, self.descriptions, surface)

    def lister(
        self,
        provider: Provider,
        style: Style | None,
        root: str | None,
        surface: Surface = "actions",
    ) -> Callable[[], _Listed] | None:
        """What makes such a listing, also in a thread; None where `listing` is quick: it was made
        before, or is short."""
        offer = self._offer(root)
        descriptions = self.descriptions
        if len(offer) <= _FEW or offer.listed(provider, style, descriptions, surface) is not None:
            return None
        return offer.lister(provider, style, descriptions, surface)

    def _offer(self, root: str | None) -> Offer:
        rooted = self._rooted(root)
        return self.own.offer if rooted is None else rooted.offer

    def inspect(self, root: str) -> Inspection:
        """The files of a root as they are, and what of them is trusted; nothing of it is remembered."""
        path = project_of(root)
        known = self.trusted_roots().get(path)
        return Inspection(
            path,
            Folder(path).look(),
            {} if known is None else known.files,
            None if known is None else known.at,
        )

    def grant(self, root: str, digest: str, at: float) -> dict[str, str]:
        """Trust the files of the root, which are those that have this digest; returns that of each.
        Raises `TrustFault`."""
        seen = self.inspect(root)
        files = {one.name: one for one in seen.found if isinstance(one, Found)}
        if seen.digest != digest:
            raise TrustFault("the files are not as they were shown; look at them again")
        if not files:
            raise TrustFault(f"there is no file in {seen.root}/{FOLDER} that could be")
        kept = {name: TrustedFile(one.digest, text_of(one)) for name, one in files.items()}
        self._store().grant(seen.root, TrustedRoot(at, kept))
        self.on_changed()
        return {name: one.digest for name, one in files.items()}

    def revoke(self, root: str) -> tuple[str, bool]:
        """Trust nothing of the root; returns its one path, and whether something was trusted. Raises
        `TrustFault`."""
        trusted = self.trusted_roots()
        # One that is gone, or has become a link, goes by the path under which it was trusted.
        paths = (project_of(root), canonical(root), os.path.normpath(root))
        path = next((one for one in paths if one in trusted), paths[0])
        was = self._store().revoke(path)
        self.on_changed()
        return path, was

    def trusted_roots(self) -> Mapping[str, TrustedRoot]:
        """All roots of which something is trusted."""
        return {} if self._trust is None else self._trust.roots()

    def _store(self) -> Trust:
        if self._trust is None:
            raise TrustFault("this daemon keeps no store of trust")
        return self._trust

    def _rooted(self, root: str | None) -> Rooted | None:
        """The root as it is now."""
        if root is None or self._trust is None:
            return None
        path = project_of(root)
        # Taken out and put back: the one that was asked about longest ago is the first.
        rooted = self._roots.pop(path, None) or Rooted(path)
        self._roots[path] = rooted
        if len(self._roots) > _MAX_ROOTS:
            del self._roots[next(iter(self._roots))]
        rooted.look(self.own, self._trust.files(path))
        return rooted

    def reload(self, toolpack: Sequence[str] | None = None) -> tuple[int, tuple[Problem, ...]]:
        """Read everything again; returns how many tools there are, and what was left out."""
        self.take(self.read(toolpack))
        return len(self), self.problems

    def read(self, toolpack: Sequence[str] | None = None) -> Definitions:
        """Read everything again, and change nothing: it can take seconds, and be done in a thread."""
        toolpack = self._toolpack if toolpack is None else tuple(toolpack)
        problems: _Problems = []
        layers: _Layers = []
        packed = self._packed(toolpack)
        taken = {name for document in packed for name in document.data.get("tools", ())}
        for document in (*packed, *packaged_functions(self._packages, taken, problems)):
            layers.extend(layers_of(document, problems, packed=True))
        for document in self._documents(problems):
            # A `command` of a definition replaces a function as it replaces a tool that came with the daemon.
            packed_too = document.file.endswith(".py")
            layers.extend(layers_of(document, problems, packed=packed_too))
        shared = tuple(layer for layer in layers if layer.name == "*")
        own = Own(Offer(tools_of(layers, problems)), shared)
        return Definitions(own, tuple(toolpack), tuple(problems))

    def take(self, read: Definitions) -> None:
        """Offer what was read, and nothing else from now on."""
        self._read, self._toolpack, self.problems = read, read.toolpack, read.problems
        self._place()
        self.on_changed()

    def _place(self) -> None:
        """Put the tools of servers among the definitions."""
        own = self._read.own
        file = str(self._sources[0]) if self._sources else ""
        shared = shared_fields(own.shared)
        tools, self.server_problems = place_tools(own.offer.tools, self.servers, file, shared)
        self.own = Own(Offer(tools), own.shared)

    def _packed(self, toolpack: Sequence[str]) -> _Documents:
        folder = Path(__file__).parent
        paths = [folder / "builtin" / f"{name}.toml" for name in self._builtin]
        pack = [name for name in TOOLPACK if name in toolpack]
        paths += [folder / "toolpack" / f"{name}.toml" for name in pack]
        # As good as the program itself, whoever installed it.
        return [parse(path.read_text(encoding="utf-8"), str(path)) for path in paths]

    def _documents(self, problems: _Problems) -> _Documents:
        documents: _Documents = []
        for source in self._sources:
            try:
                paths = definition_files(source) if source.is_dir() else [source]
            except OSError as error:
                problems.append(problem(str(source), "", error.strerror or "it cannot be read"))
                continue
            except Unreadable as error:
                problems.append(problem(str(source), "", error.message))
                continue
            for path in paths:
                if path == source and not path.exists():
                    continue
                try:
                    is_python = path.suffix == ".py"
                    documents.append(read_functions(path) if is_python else read(path))
                except Unreadable as error:
                    problems.append(problem(str(path), "", error.message, error.line))
        return documents


def _refused(name: str, problems: Iterable[Problem]) -> str:
    """Why a definition of that name is not used, as a clause; empty where no file is known to have one."""
    keys = [".".join((*form, name)) for form in FORMS]
    for one in problems:
        if any(one.key == key or one.key.startswith(f"{key}.") for key in keys):
            at = one.file if isinstance(one.line, UnsetType) else f"{one.file}:{one.line}"
            return f"its definition was refused ({at}, `{one.key}`: {one.message})"
    for one in problems:
        server = one.key.removeprefix("mcp.")
        if server != one.key and name.startswith((f"{server}_", f"{server}.")):
            return f"it may be a tool of the server `{server}`: {one.message.rstrip('.')}"
    for one in problems:
        if not one.key:
            return f"no definition in {one.file} is used ({one.message})"
    return ""


def _place(tool: Tool) -> str:
    return tool.file if tool.line is None else f"{tool.file}:{tool.line}"
