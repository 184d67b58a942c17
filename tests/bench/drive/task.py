"""A piece of work that can be done in three ways and is checked in one.

Rules: `prepare` fills a new folder and draws what the scripts cannot know beforehand. A script
knows the program, not what it will print; it returns the text from which the question is answered,
where there is one. `check` alone decides: it says what is wrong, or nothing.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .expect import Expect
from .haft import Haft
from .tmux import Tmux


@dataclass(frozen=True, slots=True)
class Task:
    """`programs` are those that it needs."""

    title: str
    programs: tuple[str, ...]
    prepare: Callable[[Path, random.Random], None]
    haft: Callable[[Haft], str]
    tmux: Callable[[Tmux], str]
    pexpect: Callable[[Expect], str]
    check: Callable[[Path, str], str | None]


def git(repo: Path, *args: str) -> str:
    """Run git without anybody's configuration; returns what it prints."""
    done = subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *args],
        cwd=repo,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout
