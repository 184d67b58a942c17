"""Node's REPL: load a file and compute."""

from __future__ import annotations

import json
import random
from pathlib import Path

from ..expect import Expect
from ..haft import Haft
from ..task import Task
from ..tmux import Tmux

_LOAD = "const sizes = require('./sizes.json')"
_ASK = "sizes.filter((size) => size % 2).reduce((sum, size) => sum + size, 0)"


def _prepare(folder: Path, draw: random.Random) -> None:
    (folder / "sizes.json").write_text(json.dumps([draw.randrange(10**6) for _ in range(30)]))


def _haft(haft: Haft) -> str:
    haft.run("node", max_bytes=0)
    haft.line(_LOAD)
    answer = haft.line(_ASK).text
    haft.line(".exit", wait="stopped", max_bytes=0)
    return answer


def _tmux(tmux: Tmux) -> str:
    tmux.spawn("node")
    tmux.until("^>$")
    tmux.send(_LOAD, "Enter")
    tmux.until("^>$")
    tmux.send(_ASK, "Enter")
    answer = tmux.until("^>$")
    tmux.send(".exit", "Enter")
    tmux.end()
    return answer


def _pexpect(child: Expect) -> str:
    child.spawn("node")
    child.expect("> ")
    child.sendline(_LOAD)
    child.expect("\n> ")
    child.sendline(_ASK)
    answer = child.expect("\n> ")
    child.sendline(".exit")
    child.end()
    return answer


def _check(folder: Path, answer: str) -> str | None:
    total = sum(size for size in json.loads((folder / "sizes.json").read_text()) if size % 2)
    return None if str(total) in answer else f"{total} is not in:\n{answer}"


NODE = Task("node: load and compute", ("node",), _prepare, _haft, _haft, _tmux, _pexpect, _check)
