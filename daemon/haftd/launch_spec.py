"""Specification of a process to start: `tools` resolves one, `host` launches it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

PROGRAM_FOLDERS = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
)
"""Folders of the system that every sandboxed process may read and execute."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Rights at an absolute path and below: some of `read`, `create`, `update`, `delete`, `execute`, and
    `control` (of devices)."""

    path: str
    rights: frozenset[str]


@dataclass(frozen=True, slots=True)
class Sandbox:
    """Confinement of a process and its descendants.

    `grants` are all rights on files beside those that every sandbox has; None leaves files open. `network`
    permits internet sockets, and no others. No link below `root` leads out of it.
    """

    root: str
    grants: tuple[Grant, ...] | None = ()
    network: bool = False

    @property
    def may_write(self) -> bool:
        return self.grants is None or any(
            grant.rights & {"create", "update", "delete"} for grant in self.grants
        )


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """A process to start. `env` is the whole environment; its HAFT_HANDLE tags the process.

    `stdin` is `pipe` for a handle that takes input, else `null`. `output` is the format of the process's
    output: `raw` includes standard error, through a pipe of its own if `splits_stderr`; `events` implies a
    pipe for input. `limits`: `memory` and
    `output` (bytes), `cpu_s`, `wall_s`, `processes`. `nofile` is the soft limit of descriptors, since the
    daemon has raised its own.
    """

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    terminal: bool = False
    rows: int = 24
    cols: int = 80
    stdin: Literal["pipe", "null"] = "null"
    output: Literal["raw", "outcome", "events"] = "raw"
    splits_stderr: bool = False
    limits: Mapping[str, float] = field(default_factory=dict)
    nofile: int | None = None
    sandbox: Sandbox | None = None
