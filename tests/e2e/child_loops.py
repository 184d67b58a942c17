"""Programs that run a short child after another and print nothing: busy, with moments without a
foreground job. A program runs until ended, and never reads its terminal once `line` was typed
at its first prompt."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Loop:
    """A program; `make` prepares its folder."""

    argv: tuple[str, ...]
    line: str = ""
    make: Callable[[Path], None] = lambda folder: None


def _makefile(folder: Path) -> None:
    """Write a build of many short steps that restarts when done."""
    steps = " ".join(f"step{n}" for n in range(300))
    (folder / "Makefile").write_text(
        f"again: all\n\t@$(MAKE) -s again\nall: {steps}\n{steps}:\n\t@/bin/true\n"
    )


def _node(source: str) -> tuple[str, ...]:
    return ("node", "-e", f"const {{exec, spawn, spawnSync}} = require('child_process'); {source}")


_BASH = ("bash", "--norc", "-i")
_PYTHON = (sys.executable, "-I", "-q")
_INHERITED = "{stdio: 'inherit'}"

LOOPS: dict[str, Loop] = {
    "bash: true": Loop(_BASH, "while true; do /bin/true; done"),
    "bash: seq": Loop(_BASH, "for i in $(seq 1000000); do /bin/true; done"),
    "bash: sleep 0.02": Loop(_BASH, "while true; do sleep 0.02; done"),
    "bash: sleep 0.1": Loop(_BASH, "while true; do sleep 0.1; done"),
    "bash: until": Loop(_BASH, "until cat nothing 2>/dev/null; do sleep 0.03; done"),
    "bash: pipe": Loop(_BASH, "while true; do /bin/true | /bin/cat; done"),
    "bash: substitution": Loop(_BASH, "while true; do x=$(/bin/echo); done"),
    "bash: subshell": Loop(_BASH, "while true; do (:); done"),
    "bash without line editing": Loop(
        ("bash", "--norc", "--noediting", "-i"), "while true; do /bin/true; done"
    ),
    "bash -c": Loop(("bash", "-c", "while true; do /bin/true; done")),
    "dash": Loop(("dash", "-i"), "while true; do /bin/true; done"),
    "dash: until": Loop(("dash", "-i"), "until cat nothing 2>/dev/null; do sleep 0.01; done"),
    "dash -c": Loop(("dash", "-c", "while true; do /bin/true; done")),
    "zsh": Loop(("zsh", "-f", "-i"), "while true; do /bin/true; done"),
    "zsh: sleep": Loop(("zsh", "-f", "-i"), "while true; do sleep 0.02; done"),
    "bash in script": Loop(
        ("script", "-q", "-c", "bash --norc -i", "/dev/null"), "while true; do /bin/true; done"
    ),
    "make": Loop(("make", "-s", "again"), make=_makefile),
    "make in bash": Loop(_BASH, "make -s again", _makefile),
    "xargs": Loop(("bash", "-c", "yes | xargs -n 1 true")),
    "perl": Loop(("perl", "-e", "while (1) { system('/bin/true') }")),
    "python: run": Loop(
        (*_PYTHON, "-c", "import subprocess\nwhile True: subprocess.run(['/bin/true'])")
    ),
    "python: fork": Loop(
        (*_PYTHON, "-c", "import os\nwhile True:\n if not os.fork(): os._exit(0)\n os.wait()")
    ),
    "python: prompt": Loop(_PYTHON, "import os; [os.system('/bin/true') for _ in iter(int, 1)]"),
    "node: spawnSync": Loop(_node("for (;;) spawnSync('/bin/true');")),
    "node: spawn": Loop(
        _node(f"const next = () => spawn('/bin/true', {_INHERITED}).on('exit', next); next();")
    ),
    "node: exec while it listens": Loop(
        _node(
            "require('readline').createInterface({input: process.stdin});"
            "const next = () => exec('/bin/true', next); next();"
        )
    ),
    "node: spawn while it listens": Loop(
        _node(
            "require('readline').createInterface({input: process.stdin});"
            f"const next = () => spawn('/bin/true', {_INHERITED}).on('exit', next); next();"
        )
    ),
    "node: keys": Loop(
        _node(
            "process.stdin.setRawMode(true).resume();"
            "const next = () => spawn('/bin/true', {stdio: 'ignore'}).on('exit', next); next();"
        )
    ),
}
"""None of them is ever at a prompt."""

QUICK = ("bash: true", "bash: seq", "bash without line editing", "dash", "zsh", "bash in script",
         "node: exec while it listens", "node: keys")  # fmt: skip
"""Those that are most often met between two children."""
