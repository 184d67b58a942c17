"""pdb: run to a breakpoint with a condition and print a variable there."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from ..expect import Expect
from ..haft import Haft
from ..task import Task
from ..tmux import Tmux

_PROGRAM = """\
import json

def add_up(numbers):
    total = 0
    for at, number in enumerate(numbers):
        total += number
        print("added", at)
    return total

print(add_up(json.load(open("numbers.json"))))
"""
_ARGV = (sys.executable, "-m", "pdb", "program.py")
_BREAK = "break 7, at == 5"


def _prepare(folder: Path, draw: random.Random) -> None:
    (folder / "program.py").write_text(_PROGRAM)
    (folder / "numbers.json").write_text(json.dumps([draw.randrange(10**6) for _ in range(20)]))


def _haft(haft: Haft) -> str:
    haft.run(*_ARGV, max_bytes=0)
    haft.line(_BREAK)
    haft.line("continue")
    answer = haft.line("p total").text
    haft.line("q", wait="stopped", max_bytes=0)
    return answer


def _tmux(tmux: Tmux) -> str:
    tmux.spawn(*_ARGV)
    tmux.until(r"^\(Pdb\)$")
    tmux.send(_BREAK, "Enter")
    tmux.until(r"^\(Pdb\)$")
    tmux.send("continue", "Enter")
    tmux.until(r"^\(Pdb\)$")
    tmux.send("p total", "Enter")
    answer = tmux.until(r"^\(Pdb\)$")
    tmux.send("q", "Enter")
    tmux.end()
    return answer


def _pexpect(child: Expect) -> str:
    child.spawn(*_ARGV)
    child.expect(r"\(Pdb\) ")
    child.sendline(_BREAK)
    child.expect(r"\(Pdb\) ")
    child.sendline("continue")
    child.expect(r"\(Pdb\) ")
    child.sendline("p total")
    answer = child.expect(r"\(Pdb\) ")
    child.sendline("q")
    child.end()
    return answer


def _check(folder: Path, answer: str) -> str | None:
    total = sum(json.loads((folder / "numbers.json").read_text())[:6])
    return None if str(total) in answer else f"{total} is not in:\n{answer}"


DEBUG = Task("pdb to a breakpoint", (), _prepare, _haft, _haft, _tmux, _pexpect, _check)
