"""less: go to a line of a long file and leave."""

from __future__ import annotations

import random
from pathlib import Path

from ..expect import Expect
from ..haft import Haft
from ..mcp import HaftMcp
from ..task import Task
from ..tmux import Tmux

_FILE = "long.txt"
_LINE = 3210


def _prepare(folder: Path, draw: random.Random) -> None:
    lines = [f"line {n} says {draw.getrandbits(96):x}\n" for n in range(1, 5001)]
    (folder / _FILE).write_text("".join(lines))


def _haft(haft: Haft) -> str:
    haft.run("less", _FILE, max_bytes=0)
    answer = haft.apply(f"{_LINE}g", view="screen").text
    haft.apply("q", wait="stopped", max_bytes=0)
    return answer


def _mcp(haft: HaftMcp) -> str:
    haft.begin("less", _FILE)
    answer = haft.apply(f"{_LINE}g", view="screen").text
    haft.apply("q", wait="stopped")
    return answer


def _tmux(tmux: Tmux) -> str:
    tmux.spawn("less", _FILE)
    tmux.until(f"^{_FILE}$")
    tmux.send(f"{_LINE}g")
    answer = tmux.until("^:$")
    tmux.send("q")
    tmux.end()
    return answer


def _pexpect(child: Expect) -> str:
    child.spawn("less", _FILE, term="xterm-256color")
    child.expect(rf"{_FILE}\S* ?")
    child.send(f"{_LINE}g")
    answer = child.expect(rf"line {_LINE} .*\n[\s\S]*:\x1b")
    child.send("q")
    child.end()
    return answer


def _check(folder: Path, answer: str) -> str | None:
    line = (folder / _FILE).read_text().splitlines()[_LINE - 1]
    return None if line in answer else f"not {line!r} in:\n{answer}"


PAGE = Task("page a long file with less", ("less",), _prepare, _haft, _mcp, _tmux, _pexpect, _check)
