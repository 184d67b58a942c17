"""What the files of a root would run, as whoever may trust them is shown it.

Rules: nothing is left out of it. What the files say is as they say it; escaping it for a terminal is
the business of who shows it. Section 5.
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
    shell: str | UnsetType = UNSET
    asks: dict[str, str] = {}
    describes_itself: bool = False
    says: dict[str, Any] = {}
    unused: str | UnsetType = UNSET


class DefinitionFile(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A file in a root's `.haft/tools/`. One that is `refused` cannot be trusted as it is."""

    file: str
    state: FileState
    why: str | UnsetType = UNSET
    digest: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    was: str | UnsetType = UNSET
    tools: tuple[DefinedTool, ...] = ()
    problems: tuple[Problem, ...] = ()


class TrustShowResult(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What would be trusted, and what of it is."""

    root: str
    digest: str
    files: tuple[DefinitionFile, ...]
    gone: tuple[str, ...] = ()
    at: float | UnsetType = UNSET


class TrustResult(msgspec.Struct, frozen=True):
    """What is trusted now."""

    root: str
    files: tuple[str, ...]


class TrustRevokeResult(msgspec.Struct, frozen=True):
    """Whether anything of it was trusted."""

    root: str
    was: bool


class TrustedRoot(msgspec.Struct, frozen=True):
    """A root with files that are trusted."""

    root: str
    at: float
    files: tuple[str, ...]


class TrustListResult(msgspec.Struct, frozen=True):
    """The roots by path."""

    roots: tuple[TrustedRoot, ...]


class TrustShowParams(Params, frozen=True, kw_only=True):
    """Show what the files in a root's `.haft/tools/` would run. `root` has to be given."""

    root: Root


class TrustGrantParams(Params, frozen=True, kw_only=True):
    """Trust the files of a root as `trust/show` has shown them. `root` has to be given. Over the Unix
    socket only, and not from what a tool runs."""

    root: Root
    digest: Annotated[str, Meta(max_length=64)]


class TrustRevokeParams(Params, frozen=True, kw_only=True):
    """Trust nothing of a root any more. `root` has to be given."""

    root: Root
