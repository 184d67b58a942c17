"""vim: change a line, delete a line, append a line; save, check, leave."""

from __future__ import annotations

import random
from pathlib import Path

from ..expect import Expect
from ..haft import Haft
from ..mcp import HaftMcp
from ..task import Task
from ..tmux import Tmux

_FILE = "settings.conf"
_EDIT = (":%s/^timeout = .*/timeout = 30/", ":g/obsolete/d", "Gofinal = yes", ":w")


def _lines(timeout: str) -> list[str]:
    return [*(f"option{n} = {n * n}" for n in range(40)), f"timeout = {timeout}", "obsolete = yes"]


def _prepare(folder: Path, draw: random.Random) -> None:
    lines = _lines(str(draw.randrange(100, 999)))
    (folder / _FILE).write_text("".join(f"{line}\n" for line in [*lines, *_lines("")[:20]]))


def _haft(haft: Haft) -> str:
    haft.run("vim", _FILE, max_bytes=0)
    change, remove, add, save = _EDIT
    edit = f"{change}\r{remove}\r{add}\x1b{save}\r"
    haft.apply(edit, view="screen")
    haft.apply(":q\r", wait="stopped", max_bytes=0)
    return ""


def _mcp(haft: HaftMcp) -> str:
    haft.begin("vim", _FILE)
    change, remove, add, save = _EDIT
    haft.apply(f"{change}\r{remove}\r{add}\x1b{save}\r", view="tail")
    haft.apply(":q\r", wait="stopped")
    return ""


def _tmux(tmux: Tmux) -> str:
    tmux.spawn("vim", _FILE)
    tmux.until(rf'"{_FILE}" \d+L')
    change, remove, add, save = _EDIT
    tmux.send(change, "Enter", remove, "Enter", add, "Escape", save, "Enter")
    tmux.until("written")
    tmux.send(":q", "Enter")
    tmux.end()
    return ""


def _pexpect(child: Expect) -> str:
    child.spawn("vim", _FILE, term="xterm-256color")
    child.expect(rf'"{_FILE}" \d+L')
    change, remove, add, save = _EDIT
    child.send(f"{change}\r{remove}\r{add}\x1b{save}\r")
    child.expect("written")
    child.send(":q\r")
    child.end()
    return ""


def _check(folder: Path, answer: str) -> str | None:
    lines = (folder / _FILE).read_text().splitlines()
    wanted = [*_lines("30")[:-1], *_lines("")[:20], "final = yes"]
    return None if lines == wanted else "\n".join(lines)


EDIT = Task("edit a file with vim", ("vim",), _prepare, _haft, _mcp, _tmux, _pexpect, _check)
