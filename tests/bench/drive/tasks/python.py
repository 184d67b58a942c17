"""Python's REPL: paste a function of several lines, then call the function."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from ..expect import Expect
from ..haft import Haft
from ..mcp import HaftMcp
from ..task import Task
from ..tmux import Tmux

_DEF = """\
def total(path):
    found = 0
    for line in open(path):
        word, _, number = line.partition("=")
        if word == "weight":
            found += int(number)
    return found

"""
_CALL = 'total("weights.txt")'


def _prepare(folder: Path, draw: random.Random) -> None:
    weights = [draw.randrange(10_000, 99_999) for _ in range(8)]
    lines = [f"weight={weight}\nname={weight}\n" for weight in weights]
    (folder / "weights.txt").write_text("".join(lines))


def _haft(haft: Haft) -> str:
    haft.run(sys.executable, "-q", max_bytes=0)
    haft.apply({"paste": _DEF})
    answer = haft.line(_CALL).text
    haft.apply({"eof": True}, max_bytes=0)
    return answer


def _mcp(haft: HaftMcp) -> str:
    haft.run(sys.executable, "-q")
    haft.apply({"text": _DEF})
    answer = haft.line(_CALL).text
    haft.keys("C-d", wait="stopped")
    return answer


def _tmux(tmux: Tmux) -> str:
    tmux.spawn(sys.executable, "-q")
    tmux.until(r"^>>>$")
    tmux.paste(_DEF)
    tmux.until(r"^>>>$")
    tmux.send(_CALL, "Enter")
    answer = tmux.until(r"^>>>$")
    tmux.send("C-d")
    tmux.end()
    return answer


def _pexpect(child: Expect) -> str:
    child.spawn(sys.executable, "-q")
    child.expect(">>> ")
    child.send(_DEF)
    child.expect(">>> ")
    child.sendline(_CALL)
    answer = child.expect(">>> ")
    child.send("\x04")
    child.end()
    return answer


def _check(folder: Path, answer: str) -> str | None:
    lines = (folder / "weights.txt").read_text().splitlines()
    total = sum(int(line.removeprefix("weight=")) for line in lines if line[0] == "w")
    return None if str(total) in answer else f"{total} is not in:\n{answer}"


PYTHON = Task("paste a function into Python", (), _prepare, _haft, _mcp, _tmux, _pexpect, _check)
