"""A real git repository with three hunks to stage."""

from __future__ import annotations

import subprocess
from pathlib import Path

_FIRST = "".join(f"line {n}\n" for n in range(1, 41))


def git(repo: Path, *args: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *args],
        cwd=repo,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


def make_repository(folder: Path) -> Path:
    """Make a repository with a file of three changed hunks."""
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "poem.txt").write_text(_FIRST)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    changed = _FIRST.replace("line 2\n", "line two\n").replace("line 20\n", "line twenty\n")
    (folder / "poem.txt").write_text(changed.replace("line 39\n", "line thirty-nine\n"))
    return folder


def staged(repo: Path) -> list[str]:
    """The added lines of the index."""
    diff = git(repo, "diff", "--cached", "-U0")
    return [line[1:] for line in diff.splitlines() if line[:1] == "+" and line[:3] != "+++"]
