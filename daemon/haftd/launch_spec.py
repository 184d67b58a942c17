"""Specification of a process to start, resolved by `tools` and launched by `host`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """Process to start. `env` is the whole environment, with PATH; its HAFT_HANDLE tags the child.

    `stdin` is `pipe` for a handle that takes input, `null` for an empty one. `output` is the format
    of the child's output: `raw` includes standard error, `events` implies a pipe for input.
    `limits`: `memory` (bytes), `cpu_s`, `wall_s`, `processes`, `output` (bytes). `nofile` is the
    child's soft limit of descriptors, where the daemon has raised its own.
    """

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    terminal: bool = False
    rows: int = 24
    cols: int = 80
    stdin: Literal["pipe", "null"] = "null"
    output: Literal["raw", "outcome", "events"] = "raw"
    limits: Mapping[str, float] = field(default_factory=dict)
    nofile: int | None = None
