"""A task that every driver can do and one check judges. `prepare` fills a new folder with random
content. A script returns the text from which the question is answered. `check` returns the
fault, or nothing."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .expect import Expect
from .haft import Haft
from .mcp import HaftMcp
from .tmux import Tmux


@dataclass(frozen=True, slots=True)
class Task:
    """A task and the `programs` that the task needs."""

    title: str
    programs: tuple[str, ...]
    prepare: Callable[[Path, random.Random], None]
    haft: Callable[[Haft], str]
    mcp: Callable[[HaftMcp], str]
    tmux: Callable[[Tmux], str]
    pexpect: Callable[[Expect], str]
    check: Callable[[Path, str], str | None]


def git(repo: Path, *args: str) -> str:
    """Run git without user configuration; return the output."""
    done = subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *args],
        cwd=repo,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout
