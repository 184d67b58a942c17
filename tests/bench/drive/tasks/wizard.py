"""A wizard with five questions: a password, and options in random order."""

from __future__ import annotations

import json
import random
import re
import sys
from pathlib import Path

from ..expect import Expect
from ..haft import Haft
from ..task import Task
from ..tmux import Tmux

_WIZARD = """\
import getpass, json

regions = json.load(open("regions.json"))
name = input("Name of the project: ")
port = input("Port [8080]: ") or "8080"
password = getpass.getpass("Password of the administrator: ")
for number, region in enumerate(regions, 1):
    print(f"  {number}) {region}")
region = regions[int(input("Region: ")) - 1]
sure = input(f"Write {name}.json? [y/N] ")
if sure == "y":
    settings = {"name": name, "port": port, "password": password, "region": region}
    json.dump(settings, open("project.json", "w"))
    print("Written.")
"""
_ARGV = (sys.executable, "wizard.py")
_PASSWORD = "tell nobody"
_WANTED = {"name": "haft", "port": "8080", "password": _PASSWORD, "region": "north"}


def _prepare(folder: Path, draw: random.Random) -> None:
    (folder / "wizard.py").write_text(_WIZARD)
    regions = ["east", "north", "south", "west"]
    draw.shuffle(regions)
    (folder / "regions.json").write_text(json.dumps(regions))


def _north(shown: str) -> str:
    match = re.search(r"(\d)\) north", shown)
    return match[1] if match else "?"


def _haft(haft: Haft) -> str:
    # The prompt beside the output has the question, but not the options.
    haft.run(*_ARGV, max_bytes=0)
    haft.line("haft", max_bytes=0)
    haft.line("", max_bytes=0)
    regions = haft.apply({"line": _PASSWORD, "secret": True}).text
    haft.line(_north(regions), max_bytes=0)
    return haft.line("y", wait="stopped").text


def _tmux(tmux: Tmux) -> str:
    tmux.spawn(*_ARGV)
    tmux.until("project:$")
    tmux.send("haft", "Enter")
    tmux.until(r"Port.*:$")
    tmux.send("Enter")
    tmux.until("administrator:$")
    tmux.send(_PASSWORD, "Enter")
    regions = tmux.until("Region:$")
    tmux.send(_north(regions), "Enter")
    tmux.until(r"\[y/N\]$")
    tmux.send("y", "Enter")
    return tmux.ended()


def _pexpect(child: Expect) -> str:
    child.spawn(*_ARGV)
    child.expect("project: ")
    child.sendline("haft")
    child.expect("Port.*: ")
    child.sendline("")
    child.expect("administrator: ")
    child.sendline(_PASSWORD)
    regions = child.expect("Region: ")
    child.sendline(_north(regions))
    child.expect(r"\[y/N\] ")
    child.sendline("y")
    return child.ended()


def _check(folder: Path, answer: str) -> str | None:
    written = folder / "project.json"
    if not written.exists() or json.loads(written.read_text()) != _WANTED:
        return f"the project is not as wanted; read:\n{answer}"
    return "the password was shown" if _PASSWORD in answer else None


WIZARD = Task("a wizard with five questions", (), _prepare, _haft, _haft, _tmux, _pexpect, _check)
