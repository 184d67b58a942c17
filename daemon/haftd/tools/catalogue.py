"""Catalogue of all tools by name. A fault in one file removes no other tool."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import UnsetType
from msgspec.structs import replace

from haft_protocol.errors import RpcError, tool_not_found, untrusted_tool
from haft_protocol.methods import Problem, Provider, Style, Surface, ToolDescription

from .definitions.approval_policy import combine_policies
from .definitions.definition import Tool
from .definitions.document import (
    Document,
    UnreadableFile,
    list_definition_files,
    parse,
    problem,
    read,
)
from .definitions.functions import find_packaged_functions, read_functions
from .definitions.load import (
    FORMS,
    Layer,
    build_tools,
    is_about_rules,
    read_layers,
    read_shared_fields,
)
from .definitions.self_description import Descriptions
from .definitions.server_tools import ServerState, explain_absence, find_server, place_tools
from .lists.full_description import describe, describe_own
from .lists.tool_list import RESERVED_NAMES, ToolList
from .lists.toolset import Toolset
from .projects.project_tools import ProjectTools, UserTools
from .projects.roots import (
    FOLDER,
    Folder,
    HashedFile,
    RefusedFile,
    decode_text,
    find_project,
    hash_files,
    resolve_root,
)
from .projects.trust import Trust, TrustedFile, TrustedRoot, TrustFault

TOOLPACK: tuple[str, ...] = ("run", "shell", "git_stage", "git_rebase")
"""Shipped tools, in the users' file format under `toolpack/`."""

USER_SHELL = "user_shell"
"""Shell of `haft shell`, available with any toolpack."""


_KEPT_REMARK = "; until it can be read, every start asks for approval"
_ASKS = Layer("*", ("unread",), Document("", {}, {}), {"run": "ask"})
"""Policy of roots' tools while a file of the user's cannot be read."""


def _ignore() -> None: ...


_MAX_QUICK_LIST = 20
"""Lists of so many tools take a few milliseconds."""

_MAX_ROOTS = 32
"""Cached roots, least recently used first out."""


class Inspection(msgspec.Struct, frozen=True):
    """Snapshot of a root's files and their trust."""

    root: str
    """Canonical path."""
    files: tuple[HashedFile | RefusedFile, ...]
    trusted: Mapping[str, TrustedFile]
    at: float | None

    @property
    def digest(self) -> str:
        return hash_files(self.files)


class Definitions(msgspec.Struct, frozen=True):
    """Result of `Catalogue.read`."""

    own: UserTools
    toolpack: tuple[str, ...]
    problems: tuple[Problem, ...]
    is_incomplete: bool = False
    """Modes or owners keep a file of the user's from being read."""


class Catalogue:
    """Tools of the daemon's user and of trusted roots.

    `sources` are definition files in ascending precedence; a folder stands for its `*.toml` and
    `*.py`, recursively, by path. Missing files are skipped. The `builtin` tools are below all
    others. Without `trust`, roots have no tools. `packages` are folders searched for entry points.
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
        self._read = Definitions(UserTools(Toolset({})), (), ())
        self.own = self._read.own
        self.on_changed: Callable[[], None] = _ignore
        """Called when the set of tools may have changed."""
        self._trust = trust
        self._roots: dict[str, ProjectTools] = {}
        self.problems: tuple[Problem, ...] = ()
        self.descriptions = Descriptions()
        self.servers: dict[str, ServerState] = {}
        self.server_problems: tuple[Problem, ...] = ()
        """Problems of MCP servers and their tools' definitions."""
        self.reload()

    def __len__(self) -> int:
        return self.own.toolset.enabled_count

    @property
    def store_problems(self) -> tuple[Problem, ...]:
        return () if self._trust is None else self._trust.problems

    def find(self, name: str, root: str | None = None, surface: Surface = "actions") -> Tool:
        """Return the tool by its own or a provider's name.

        Raises `RpcError`: tool_not_found with the tools of `surface`, or untrusted_root where an
        untrusted file mentions the name.
        """
        return self.descriptions.get(self._defined(name, root, surface))

    def ready(
        self,
        name: str,
        root: str | None,
        args: Iterable[str] = (),
        surface: Surface = "actions",
    ) -> Tool:
        """Return the tool for a call with these argument names.

        Raises as `find`, and spawn_failed or invalid_arguments without a description by its program
        or MCP server.
        """
        tool = self.find(name, root, surface)
        if (error := explain_absence(tool, self.servers)) is not None:
            raise error
        if (refusal := self.descriptions.explain_refusal(tool, root, args)) is not None:
            raise refusal
        return tool

    def describe(
        self, name: str, root: str | None, surface: Surface = "actions"
    ) -> ToolDescription:
        """Describe a tool; raises as `ready`."""
        own = describe_own(name, surface)
        return describe(self.ready(name, root, (), surface), surface) if own is None else own

    def find_self_describing(self, name: str | None = None, root: str | None = None) -> list[Tool]:
        """Return the self-describing tools, or only `name`; raises as `find`."""
        if name is None:
            return self._toolset(root).self_describing
        if name in RESERVED_NAMES:
            return []
        tool = self._defined(name, root)
        return [tool] if tool.is_self_describing else []

    def undescribed(self, root: str | None = None) -> tuple[Problem, ...]:
        """Return the problems of servers, access rules, and undescribed tools."""
        undescribed = self.descriptions.list_problems(self._toolset(root).self_describing, root)
        rules = [problem for problem in self.problems if is_about_rules(problem)]
        return (*rules, *undescribed, *self.server_problems)

    def failed_descriptions(self) -> tuple[Problem, ...]:
        """Return the failures to describe a tool of the user's own, or of a root whose tools were
        read since the last reload."""
        tools = list(self.own.toolset.self_describing)
        for project in self._roots.values():
            tools += project.added_tools(self.own)
        return self.descriptions.list_failures(tools)

    def unlisted_servers(self, name: str | None = None, root: str | None = None) -> list[str]:
        """Return the servers that must list their tools before this tool, or the whole list, is complete."""
        unlisted = [state.name for state in self.servers.values() if state.tools is None]
        if not unlisted or name in RESERVED_NAMES:
            return []
        defined = {
            where[0] for tool in self.own.toolset.tools.values() if (where := find_server(tool))
        }
        if name is None:
            return [
                server for server in unlisted if self.servers[server].offers or server in defined
            ]
        tool = self.own.toolset.get(name)
        if tool is not None:
            where = find_server(tool)
            return [] if where is None or where[0] not in unlisted else [where[0]]
        project = self._project(root)
        if project is not None and project.toolset.get(name) is not None:
            return []
        return [server for server in unlisted if self.servers[server].offers]

    def update_server(self, state: ServerState) -> None:
        if self.servers.get(state.name) == state:
            return
        self.servers[state.name] = state
        self._place_server_tools()
        self.on_changed()

    def configure_servers(self, states: Iterable[ServerState], changed: Iterable[str] = ()) -> None:
        """Replace the configured servers; one that is not `changed` keeps its tools."""
        kept = {name: state for name, state in self.servers.items() if name not in set(changed)}
        self.servers = {state.name: kept.get(state.name, state) for state in states}
        self._place_server_tools()

    def _defined(self, name: str, root: str | None, surface: Surface = "actions") -> Tool:
        tool = self.own.toolset.get(name)
        toolset, problems = self.own.toolset, (*self.problems, *self.server_problems)
        if tool is None and (project := self._project(root)) is not None:
            toolset, problems = project.toolset, (*problems, *project.toolset.problems)
            tool = toolset.get(name)
            if tool is None and (mention := project.find_mention(name)) is not None:
                file, state = mention
                raise untrusted_tool(name, project.root, file, changed=state == "changed")
        if tool is None:
            raise tool_not_found(
                name, toolset.list_callable_names(surface), _refused(name, problems)
            )
        if tool.enable == "off":
            raise tool_not_found(
                name,
                toolset.list_callable_names(surface),
                f"its definition in {_position(tool)} turns it off (`enable`)",
            )
        return tool

    def find_for_handle(
        self, name: str, root: str | None = None, surface: Surface = "actions"
    ) -> Tool:
        """Return the tool of an existing handle, also a root's former tool."""
        try:
            return self.find(name, root, surface)
        except RpcError:
            project = self._project(root)
            tool = None if project is None else project.former(name)
            if tool is None:
                raise
            return self.descriptions.get(tool)

    def list_tools(
        self,
        provider: Provider,
        style: Style | None = None,
        root: str | None = None,
        surface: Surface = "actions",
    ) -> ToolList:
        return self._toolset(root).list_tools(provider, style, self.descriptions, surface)

    def prepare_list(
        self,
        provider: Provider,
        style: Style | None,
        root: str | None,
        surface: Surface = "actions",
    ) -> Callable[[], ToolList] | None:
        """Return a function for a worker thread that makes the list for `list_tools`; None where that is fast."""
        toolset = self._toolset(root)
        descriptions = self.descriptions
        if (
            toolset.enabled_count <= _MAX_QUICK_LIST
            or toolset.find_list(provider, style, descriptions, surface) is not None
        ):
            return None
        return toolset.prepare_list(provider, style, descriptions, surface)

    def _toolset(self, root: str | None) -> Toolset:
        project = self._project(root)
        return self.own.toolset if project is None else project.toolset

    def inspect(self, root: str) -> Inspection:
        """Read a root's files and trust, past the cache."""
        path = find_project(root)
        root_trust = self.trusted_roots().get(path)
        return Inspection(
            path,
            Folder(path).read_files(),
            {} if root_trust is None else root_trust.files,
            None if root_trust is None else root_trust.at,
        )

    def grant(self, root: str, digest: str, at: float) -> dict[str, str]:
        """Trust the root's files if their common digest is `digest`; return each one's. Raises
        `TrustFault`."""
        seen = self.inspect(root)
        files = {file.name: file for file in seen.files if isinstance(file, HashedFile)}
        if seen.digest != digest:
            raise TrustFault("the files have changed since they were shown; review them again")
        if not files:
            raise TrustFault(f"{seen.root}/{FOLDER} has no file that can be trusted")
        kept = {name: TrustedFile(file.digest, decode_text(file)) for name, file in files.items()}
        self._store().grant(seen.root, TrustedRoot(at, kept))
        self.on_changed()
        return {name: file.digest for name, file in files.items()}

    def revoke(self, root: str) -> tuple[str, bool]:
        """Revoke all trust in the root; return its canonical path, and True if there was any.
        Raises `TrustFault`."""
        trusted = self.trusted_roots()
        # A root since removed, or replaced by a link, is stored under the path of its grant.
        paths = (find_project(root), resolve_root(root), os.path.normpath(root))
        path = next((candidate for candidate in paths if candidate in trusted), paths[0])
        was_trusted = self._store().revoke(path)
        self.on_changed()
        return path, was_trusted

    def trusted_roots(self) -> Mapping[str, TrustedRoot]:
        return {} if self._trust is None else self._trust.roots()

    def _store(self) -> Trust:
        if self._trust is None:
            raise TrustFault("this daemon has no trust store")
        return self._trust

    def _project(self, root: str | None) -> ProjectTools | None:
        if root is None or self._trust is None:
            return None
        path = find_project(root)
        # Moved to the end: the least recently used root is first.
        project = self._roots.pop(path, None) or ProjectTools(path)
        self._roots[path] = project
        if len(self._roots) > _MAX_ROOTS:
            del self._roots[next(iter(self._roots))]
        project.refresh(self.own, self._trust.files(path))
        return project

    def reload(self, toolpack: Sequence[str] | None = None) -> tuple[int, tuple[Problem, ...]]:
        self.apply(self.read(toolpack))
        return len(self), self.problems

    def read(self, toolpack: Sequence[str] | None = None) -> Definitions:
        """Read all definitions for `apply`. Takes seconds; safe in a thread."""
        toolpack = self._toolpack if toolpack is None else tuple(toolpack)
        problems: list[Problem] = []
        layers: list[Layer] = []
        packed = self._packed(toolpack)
        packed_names = {name for document in packed for name in document.data.get("tools", ())}
        for document in (*packed, *find_packaged_functions(self._packages, packed_names, problems)):
            layers.extend(read_layers(document, problems, packed=True))
        documents, is_incomplete = self._documents(problems)
        for document in documents:
            # A definition's `command` replaces a function, like a tool of the toolpack.
            packed_too = document.file.endswith(".py")
            layers.extend(read_layers(document, problems, packed=packed_too))
        shared = tuple(layer for layer in layers if layer.name == "*")
        if is_incomplete:
            shared = (*shared, _ASKS)
        own = UserTools(Toolset(build_tools(layers, problems)), shared)
        return Definitions(own, tuple(toolpack), tuple(problems), is_incomplete)

    def apply(self, read: Definitions) -> None:
        self._read, self._toolpack, self.problems = read, read.toolpack, read.problems
        self._place_server_tools()
        self.on_changed()

    def _place_server_tools(self) -> None:
        own = self._read.own
        file = str(self._sources[0]) if self._sources else ""
        shared = read_shared_fields(own.shared)
        tools, self.server_problems = place_tools(own.toolset.tools, self.servers, file, shared)
        if self._read.is_incomplete:
            tools = {
                name: replace(tool, run=combine_policies(tool.run, "ask"))
                for name, tool in tools.items()
            }
        self.own = UserTools(Toolset(tools), own.shared)

    def _packed(self, toolpack: Sequence[str]) -> list[Document]:
        folder = Path(__file__).parent
        paths = [folder / "builtin" / f"{name}.toml" for name in self._builtin]
        pack = [name for name in TOOLPACK if name in toolpack]
        paths += [folder / "toolpack" / f"{name}.toml" for name in pack]
        # Any installer's files are trusted like the interpreter's own.
        return [_parse_packed(path.read_text(encoding="utf-8"), str(path)) for path in paths]

    def _documents(self, problems: list[Problem]) -> tuple[list[Document], bool]:
        """Return the readable documents, and True if modes or owners keep a file from being read.

        Such a file may demand approvals, of which a sandboxed tool could rid itself by changing
        modes.
        """
        documents: list[Document] = []
        is_incomplete = False

        def skip(error: OSError) -> None:
            nonlocal is_incomplete
            if isinstance(error, PermissionError):
                is_incomplete = True
                message = "it cannot be listed" + _KEPT_REMARK
                problems.append(problem(str(error.filename), "", message))

        for source in self._sources:
            try:
                paths = list_definition_files(source, skip) if source.is_dir() else [source]
            except OSError as error:
                is_incomplete |= isinstance(error, PermissionError)
                remark = _KEPT_REMARK if isinstance(error, PermissionError) else ""
                why = error.strerror or "it cannot be read"
                problems.append(problem(str(source), "", why + remark))
                continue
            except UnreadableFile as error:
                is_incomplete |= error.is_kept
                problems.append(problem(str(source), "", error.message + _kept_remark(error)))
                continue
            for path in paths:
                if path == source and not path.exists():
                    continue
                try:
                    is_python = path.suffix == ".py"
                    documents.append(read_functions(path) if is_python else read(path))
                except UnreadableFile as error:
                    is_incomplete |= error.is_kept
                    message = error.message + _kept_remark(error)
                    problems.append(problem(str(path), "", message, error.line))
        return documents, is_incomplete


def _kept_remark(error: UnreadableFile) -> str:
    return _KEPT_REMARK if error.is_kept else ""


@functools.lru_cache(maxsize=32)
def _parse_packed(text: str, file: str) -> Document:
    return parse(text, file)


def _refused(name: str, problems: Iterable[Problem]) -> str:
    keys = [".".join((*form, name)) for form in FORMS]
    for entry in problems:
        if any(entry.key == key or entry.key.startswith(f"{key}.") for key in keys):
            at = entry.file if isinstance(entry.line, UnsetType) else f"{entry.file}:{entry.line}"
            return f"its definition was refused ({at}, `{entry.key}`: {entry.message})"
    for entry in problems:
        server = entry.key.removeprefix("mcp.")
        if server != entry.key and name.startswith((f"{server}_", f"{server}.")):
            return f"it may be a tool of the server `{server}`: {entry.message.rstrip('.')}"
    for entry in problems:
        if not entry.key:
            return f"no definition in {entry.file} is used ({entry.message})"
    return ""


def _position(tool: Tool) -> str:
    return tool.file if tool.line is None else f"{tool.file}:{tool.line}"
