"""Effects of a root's definition files, for the person who may trust them (docs/definitions.md,
"Definitions of a project").

Texts are unescaped: a client escapes them for its terminal. Times are in seconds since the epoch.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from .params import Params, Root
from .reports import Problem

__all__ = [
    "DefinedTool",
    "DefinitionFile",
    "FileState",
    "TrustGrantParams",
    "TrustListResult",
    "TrustResult",
    "TrustRevokeParams",
    "TrustRevokeResult",
    "TrustShowParams",
    "TrustShowResult",
    "TrustedRoot",
]

FileState = Literal["trusted", "new", "changed", "refused"]


class DefinedTool(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A tool that a file of a root defines."""

    name: str
    runs: tuple[str, ...] = ()
    """Words of the command, with templates."""
    shell: str | UnsetType = UNSET
    """Shell that runs the words as a script."""
    asks: dict[str, str] = {}
    """Mode (`ask`, `edit` or `skip`) of each action that is not `unattended`."""
    describes_itself: bool = False
    """True if the command also runs, without a question, to describe the tool."""
    says: dict[str, Any] = {}
    """Definition as written in the file."""
    unused: str | UnsetType = UNSET
    """Reason why trust in the file adds no such tool."""


class DefinitionFile(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A file in a root's `.haft/tools/`. A `refused` file cannot be trusted as it is."""

    file: str
    state: FileState
    why: str | UnsetType = UNSET
    digest: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    was: str | UnsetType = UNSET
    """Last trusted content, if changed since."""
    tools: tuple[DefinedTool, ...] = ()
    problems: tuple[Problem, ...] = ()


class TrustShowResult(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The files to trust, each with its present state."""

    root: str
    digest: str
    """Digest of all files that can be trusted, to grant the trust by."""
    files: tuple[DefinitionFile, ...]
    gone: tuple[str, ...] = ()
    """Names of trusted files that no longer exist."""
    at: float | UnsetType = UNSET
    """Time of the last grant."""


class TrustResult(msgspec.Struct, frozen=True):
    """The files that are trusted now."""

    root: str
    files: tuple[str, ...]


class TrustRevokeResult(msgspec.Struct, frozen=True):
    """The root, and `was`, true if a file of the root was trusted."""

    root: str
    was: bool


class TrustedRoot(msgspec.Struct, frozen=True):
    """A root with trusted files."""

    root: str
    at: float
    files: tuple[str, ...]


class TrustListResult(msgspec.Struct, frozen=True):
    """The roots with trusted files, sorted by path."""

    roots: tuple[TrustedRoot, ...]


class TrustShowParams(Params, frozen=True, kw_only=True):
    """Show the commands of the files in a root's `.haft/tools/`. `root` is required."""

    root: Root


class TrustGrantParams(Params, frozen=True, kw_only=True):
    """Trust the files of a root as `trust/show` has shown them. `root` is required. Over the Unix
    socket only, and not from a tool's process."""

    root: Root
    digest: Annotated[str, Meta(max_length=64)]


class TrustRevokeParams(Params, frozen=True, kw_only=True):
    """Revoke the trust in all files of a root. `root` is required."""

    root: Root
