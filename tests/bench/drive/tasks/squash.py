"""`git rebase -i`: squash three commits; vim edits the list, then the message."""

from __future__ import annotations

import random
from pathlib import Path

from ..expect import Expect
from ..haft import Haft
from ..mcp import HaftMcp
from ..task import Task, git
from ..tmux import Tmux

_MESSAGE = "Read the weights of a file"
_TODO = (":2,$s/^pick/squash/", ":wq")
_WORDS = (":%d", f"i{_MESSAGE}")


def _prepare(folder: Path, draw: random.Random) -> None:
    git(folder, "init", "-q")
    git(folder, "config", "user.name", "t")
    git(folder, "config", "user.email", "t@example.org")
    for number, title in enumerate(("Begin", "Read them", "Mend it", "Mend it again")):
        (folder / f"file{number}").write_text(f"{draw.random()}\n")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", title)
    git(folder, "tag", "before")


def _haft(haft: Haft) -> str:
    haft.spawn("git_rebase", {"onto": "HEAD~3", "rows": 24, "cols": 80}, view="screen")
    list_, leave = _TODO
    # The prompt on the last line of the screen names the file that vim has opened.
    haft.apply(f"{list_}\r{leave}\r", max_bytes=0)
    clear, words = _WORDS
    reply = haft.apply(f"{clear}\r{words}\x1b:wq\r", wait="stopped", view="tail", max_bytes=100)
    return reply.text


def _mcp(haft: HaftMcp) -> str:
    haft.spawn("git_rebase", {"onto": "HEAD~3", "rows": 24, "cols": 80})
    list_, leave = _TODO
    haft.apply(f"{list_}\r{leave}\r", view="tail")
    clear, words = _WORDS
    return haft.apply(f"{clear}\r{words}\x1b:wq\r", wait="stopped", view="tail").text


def _tmux(tmux: Tmux) -> str:
    tmux.spawn("git", "rebase", "-i", "HEAD~3")
    tmux.until(r'git-rebase-todo" \d+L')
    list_, leave = _TODO
    tmux.send(list_, "Enter", leave, "Enter")
    tmux.until(r'COMMIT_EDITMSG" \d+L')
    clear, words = _WORDS
    tmux.send(clear, "Enter", words, "Escape", ":wq", "Enter")
    return tmux.ended()


def _pexpect(child: Expect) -> str:
    child.spawn("git", "rebase", "-i", "HEAD~3", term="xterm-256color")
    child.expect(r'git-rebase-todo" \d+L')
    list_, leave = _TODO
    child.send(f"{list_}\r{leave}\r")
    child.expect(r'COMMIT_EDITMSG" \d+L')
    clear, words = _WORDS
    child.send(f"{clear}\r{words}\x1b:wq\r")
    return child.ended()


def _check(folder: Path, answer: str) -> str | None:
    titles = git(folder, "log", "--format=%s").splitlines()
    changed = git(folder, "diff", "before", "HEAD")
    if titles != [_MESSAGE, "Begin"] or changed:
        return f"{titles} {changed}"
    return None if "Successfully rebased" in answer else f"no success in:\n{answer}"


SQUASH = Task(
    "squash with `git rebase -i`", ("git", "vim"), _prepare, _haft, _mcp, _tmux, _pexpect, _check
)
