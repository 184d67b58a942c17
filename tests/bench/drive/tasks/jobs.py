"""bash: a background job, a foreground server that C-c ends, then the end of the job."""

from __future__ import annotations

import random
from pathlib import Path

from ..expect import Expect
from ..haft import Haft
from ..task import Task
from ..tmux import Tmux

_WATCH = """\
trap 'echo terminated > watched; exit' TERM
while :; do sleep 0.02; done
"""
_SERVE = """\
trap 'echo interrupted > served; exit' INT
sleep 0.1
echo "listening on port $(cat port)"
while :; do sleep 1; done
"""
_PROMPT = r"bash-[\d.]+[#$]$"
_BASH = ("bash", "--noprofile", "--norc")


def _prepare(folder: Path, draw: random.Random) -> None:
    (folder / "watch").write_text(_WATCH)
    (folder / "serve").write_text(_SERVE)
    (folder / "port").write_text(f"{draw.randrange(1024, 65536)}\n")


def _haft(haft: Haft) -> str:
    haft.spawn("shell", max_bytes=0)
    haft.line("sh watch &", max_bytes=0)
    answer = haft.line("sh serve", pattern="listening.*\n").text
    haft.keys("C-c", max_bytes=0)
    answer += haft.line("jobs").text
    haft.line("kill %1; wait", max_bytes=0)
    haft.line("exit", wait="stopped", max_bytes=0)
    return answer


def _tmux(tmux: Tmux) -> str:
    tmux.spawn(*_BASH)
    tmux.until(_PROMPT)
    tmux.send("sh watch &", "Enter")
    tmux.until(_PROMPT)
    tmux.send("sh serve", "Enter")
    answer = tmux.until("^listening")
    tmux.send("C-c")
    tmux.until(_PROMPT)
    tmux.send("jobs", "Enter")
    answer += tmux.until(_PROMPT)
    tmux.send("kill %1; wait", "Enter")
    tmux.until(_PROMPT)
    tmux.send("exit", "Enter")
    tmux.end()
    return answer


def _pexpect(child: Expect) -> str:
    prompt = r"bash-[\d.]+[#$] "
    child.spawn(*_BASH)
    child.expect(prompt)
    child.sendline("sh watch &")
    child.expect(prompt)
    child.sendline("sh serve")
    answer = child.expect("listening.*\n")
    child.send("\x03")
    child.expect(prompt)
    child.sendline("jobs")
    answer += child.expect(prompt)
    child.sendline("kill %1; wait")
    child.expect(prompt)
    child.sendline("exit")
    child.end()
    return answer


def _check(folder: Path, answer: str) -> str | None:
    for name, content in (("watched", "terminated\n"), ("served", "interrupted\n")):
        if not (folder / name).exists() or (folder / name).read_text() != content:
            return f"not {name}; read:\n{answer}"
    port = (folder / "port").read_text().strip()
    if f"port {port}" not in answer or "Running" not in answer:
        return f"no port or no job in:\n{answer}"
    return None


JOBS = Task(
    "bash: a job, a server, C-c", ("bash",), _prepare, _haft, _haft, _tmux, _pexpect, _check
)
