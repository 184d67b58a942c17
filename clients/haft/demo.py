"""Demonstration: `git add --patch`, staged hunk by hunk by clients that come and go."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from haft_protocol.states import HandleState, Stopped

from .client import Haft

POEM = """\
The tool has a blade and the blade has an edge,
and the edge is what everyone sees.
But nobody ever cut bread or a hedge
with an edge that they held by degrees.

It wants to be held by a part that is dull,
by a thing that is made for the hand,
that keeps when you push and that keeps when you pull,
and waits where you left it to stand.

It was ash in the wood, it was bent by the wind,
it was split along grain by a wedge;
it was shaved, it was oiled, it was fitted and pinned,
long before there was talk of an edge.

So praise for the part that nobody shows,
that is worn by the hand to a shine:
the blade may go where the cutting goes,
but the haft of it, friend, is mine.
"""
CHANGES = (
    ("the edge is what everyone sees", "an edge is what everyone sees"),
    ("ash in the wood", "ash in a wood"),
    ("friend, is mine", "friend, was mine"),
)
PROMPT = r"\(\d/\d\) Stage this hunk \[.*\]\? "
_IS_COLOURED = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
_DIM, _BOLD, _OFF = ("\033[2m", "\033[1m", "\033[0m") if _IS_COLOURED else ("", "", "")


def main() -> int:
    print(f"{_BOLD}haft: a tool that lives between the calls{_OFF}\n")
    with _folder() as base:
        repository = _repository(base)
        _print_step(
            1, f"A repository with one file and three changes that are not staged: {repository}"
        )
        with _daemon(base) as path:
            _stage(repository, path)
        _print_step(7, "haftd was asked to stop. It has ended, and so has everything that it ran.")
    return 0


def _stage(repository: Path, path: str) -> None:
    with Haft.connect(host=f"unix://{path}", root=str(repository), name="first client") as haft:
        _print_step(2, f"haftd runs as process {haft.status().pid}, at {path}")
        _print_step(3, "A first client spawns the tool `git_stage` under the id `staging`:")
        state = haft.spawn("git_stage", "staging", wait="pattern", pattern=PROMPT)
        _show(state)
        _answer("y", "the first change is wanted")
        _show(haft.apply("staging", {"line": "y"}, wait="pattern", pattern=PROMPT))
        pid = haft.handles()[0].pid
    _print_step(4, f"The first client hangs up in the middle. git (process {pid}) is still there:")
    with Haft.connect(host=f"unix://{path}", root=str(repository), name="second client") as haft:
        (handle,) = haft.handles()
        _print_step(5, f"A second client asks what runs: `{handle.state.id}`, {handle.command}")
        again = haft.fetch("staging", view="tail", max_bytes=400)
        _show(again)
        _answer("n", "the second change can wait")
        _show(haft.apply("staging", {"line": "n"}, wait="pattern", pattern=PROMPT))
        _answer("y", "the third is wanted")
        state = haft.apply("staging", {"line": "y"}, wait="stopped")
        if not isinstance(state, Stopped) or state.ended_by.by != "exit":
            raise SystemExit(f"the demonstration went wrong: {state}")
    staged = _git(repository, "diff", "--cached", "--unified=0", "--no-color")
    _print_step(6, "git has ended by itself. What `git diff --cached` says was staged:")
    lines = [
        line for line in staged.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")
    ]
    print(textwrap.indent("\n".join(lines), "     "), end="\n\n")
    if [line[:1] for line in lines] != ["-", "+", "-", "+"]:
        raise SystemExit("the demonstration went wrong: two of three changes should be staged")


def _print_step(number: int, text: str) -> None:
    print(f"{_BOLD}{number}.{_OFF} {text}\n", flush=True)


def _show(state: HandleState) -> None:
    content = getattr(state, "content", "")
    text = content.replace("\r\n", "\n").rstrip("\n")
    print(textwrap.indent(text, f"     {_DIM}git |{_OFF} ", lambda _: True), flush=True)
    print()


def _answer(key: str, why: str) -> None:
    print(f"     {_BOLD}apply {key}{_OFF}  ({why})\n", flush=True)


def _git(repository: Path, *args: str) -> str:
    command = ["git", "-c", "user.name=demo", "-c", "user.email=demo@localhost", *args]
    done = subprocess.run(command, cwd=repository, check=True, capture_output=True, text=True)
    return done.stdout


def _repository(base: Path) -> Path:
    folder = base / "poem"
    folder.mkdir()
    _git(folder, "init", "--quiet")
    file = folder / "haft.txt"
    file.write_text(POEM)
    _git(folder, "add", ".")
    _git(folder, "commit", "--quiet", "--message", "A poem")
    text = POEM
    for old, new in CHANGES:
        text = text.replace(old, new)
    file.write_text(text)
    return folder


@contextmanager
def _folder() -> Iterator[Path]:
    """Make a temporary folder with a short path: a socket's has at most 107 bytes."""
    base = Path(tempfile.mkdtemp(prefix="haft-demo-"))
    try:
        yield base
    finally:
        shutil.rmtree(base, ignore_errors=True)


@contextmanager
def _daemon(base: Path) -> Iterator[str]:
    path = str(base / "run" / "haftd.sock")
    env = {
        **os.environ,
        "XDG_STATE_HOME": str(base / "state"),
        "XDG_CONFIG_HOME": str(base / "config"),
    }
    command = [sys.executable, "-P", "-m", "haftd", "--socket", path, "--log-level", "warning"]
    with subprocess.Popen(command, env=env, cwd="/") as daemon:
        try:
            _wait_for(path, daemon)
            yield path
        finally:
            daemon.terminate()


def _wait_for(path: str, daemon: subprocess.Popen[bytes]) -> None:
    while not _answers(path):
        try:
            daemon.wait(0.02)
        except subprocess.TimeoutExpired:
            continue
        raise SystemExit("haftd did not start; its messages are above")


def _answers(path: str) -> bool:
    """True if a daemon listens: the file of its socket is there a moment earlier."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(path) == 0


if __name__ == "__main__":
    sys.exit(main())
