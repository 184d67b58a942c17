"""`git add -p`: stage all hunks of a file but the debugging hunk."""

from __future__ import annotations

import random
from pathlib import Path

from ..expect import Expect
from ..haft import Haft
from ..task import Task, git
from ..tmux import Tmux

_BEFORE = "".join(f"step{n} = run({n})\n" for n in range(1, 61))
_PLACES = (5, 30, 55)


def _prepare(folder: Path, draw: random.Random) -> None:
    git(folder, "init", "-q")
    (folder / "steps.py").write_text(_BEFORE)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    text, unwanted = _BEFORE, draw.choice(_PLACES)
    for place in _PLACES:
        new = f"debug({place})" if place == unwanted else f"run({place}, retries=3)"
        text = text.replace(f"run({place})", new)
    (folder / "steps.py").write_text(text)


def _answer(shown: str) -> str:
    hunk = shown.rpartition("@@ -")[2]
    return "n" if "debug" in hunk else "y"


def _haft(haft: Haft) -> str:
    reply = haft.spawn("git_stage")
    while not reply.stopped:
        reply = haft.line(_answer(reply.text))
    return ""


def _tmux(tmux: Tmux) -> str:
    tmux.spawn("git", "add", "-p")
    for _ in _PLACES:
        shown = tmux.until(r"Stage this hunk \[.*\]\?$")
        tmux.send(_answer(shown), "Enter")
    tmux.ended()
    return ""


def _pexpect(child: Expect) -> str:
    child.spawn("git", "add", "-p")
    for _ in _PLACES:
        child.sendline(_answer(child.expect(r"Stage this hunk \[.*?\]\? ")))
    child.ended()
    return ""


def _check(folder: Path, answer: str) -> str | None:
    staged = git(folder, "diff", "--cached", "-U0")
    left = git(folder, "diff", "-U0")
    if staged.count("retries=3") != 2 or "debug" in staged:
        return f"staged:\n{staged}"
    if left.count("\n@@") != 1 or "debug" not in left:
        return f"not staged:\n{left}"
    return None


STAGE = Task("stage two of three hunks", ("git",), _prepare, _haft, _haft, _tmux, _pexpect, _check)
