"""A build of three minutes in miniature: prompt-like lines and pauses, then one real question.
The wording of the question is not known beforehand, and text typed too early answers the
question wrongly. The longest pause is drawn from half a second to a second and a half."""

from __future__ import annotations

import json
import random
import re
import sys
from pathlib import Path

from ..expect import Expect
from ..haft import Haft
from ..mcp import HaftMcp
from ..task import Task
from ..tmux import Tmux

_BUILD = """\
import json, time

plan = json.load(open("plan.json"))
for number, (text, pause, rest) in enumerate(plan["steps"], 1):
    print(f"[{number}/{len(plan['steps'])}] {text}", end="", flush=True)
    time.sleep(pause)
    print(rest)
number = plan["number"]
answer = input(f"Release build {number}? Type its number: ")
with open("released", "w") as file:
    file.write(answer)
print("released" if answer == number else "refused")
"""
_LIES = (
    ("Continue? [y/N] ", "assumed yes"),
    ("password: ", "taken from the keyring"),
    (">>> ", "14 examples passed"),
    ("Overwrite config.h? ", "no, it is the same"),
)
_ARGV = (sys.executable, "build.py")
_LOOKS_LIKE_A_QUESTION = r"[?:>\]] ?"
_SILENCE_S = 1.0


def _prepare(folder: Path, draw: random.Random) -> None:
    steps = [(f"compile part{n}.c ", draw.uniform(0.01, 0.1), "ok") for n in range(12)]
    for text, rest in _LIES:
        steps.insert(draw.randrange(len(steps)), (text, draw.uniform(0.05, 0.4), rest))
    longest = draw.choice([at for at, (text, *_) in enumerate(steps) if "part" not in text])
    text, _, rest = steps[longest]
    steps[longest] = (text, draw.uniform(0.5, 1.5), rest)
    plan = {"steps": steps, "number": f"{draw.randrange(10_000):04}"}
    (folder / "plan.json").write_text(json.dumps(plan))
    (folder / "build.py").write_text(_BUILD)


def _answer(question: str) -> str:
    """Return the answer that an assistant types."""
    match = re.search(r"Release build (\d+)\?", question.rpartition("\n")[2])
    return match[1] if match else "y"


def _haft(haft: Haft) -> str:
    question = haft.run(*_ARGV, timeout_ms=60_000, max_bytes=200).text
    return haft.line(_answer(question), wait="stopped").text


def _mcp(haft: HaftMcp) -> str:
    question = haft.begin(*_ARGV, timeout_ms=50_000).text
    return haft.line(_answer(question), wait="stopped", view="tail").text


def _tmux(tmux: Tmux) -> str:
    tmux.spawn(*_ARGV)
    tmux.send(_answer(tmux.until_quiet(_LOOKS_LIKE_A_QUESTION + "$", _SILENCE_S)), "Enter")
    return tmux.ended()


def _pexpect(child: Expect) -> str:
    child.spawn(*_ARGV)
    child.sendline(_answer(child.expect_quiet(_LOOKS_LIKE_A_QUESTION, _SILENCE_S)))
    return child.ended()


def _check(folder: Path, answer: str) -> str | None:
    number = json.loads((folder / "plan.json").read_text())["number"]
    typed = (folder / "released").read_text() if (folder / "released").exists() else None
    return None if typed == number else f"typed {typed!r} instead of {number!r}"


BUILD = Task("a build that seems to ask", (), _prepare, _haft, _mcp, _tmux, _pexpect, _check)
