"""ssh-keygen: a key with a passphrase, which is asked for twice."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

from ..expect import Expect
from ..haft import Haft
from ..task import Task
from ..tmux import Tmux

_ARGV = ("ssh-keygen", "-t", "ed25519", "-C", "drive", "-f", "key")
_PHRASE = "correct horse battery"


def _prepare(folder: Path, draw: random.Random) -> None:
    pass


def _haft(haft: Haft) -> str:
    haft.run(*_ARGV, max_bytes=0)
    haft.apply({"line": _PHRASE, "secret": True}, max_bytes=0)
    return haft.apply({"line": _PHRASE, "secret": True}, wait="stopped").text


def _tmux(tmux: Tmux) -> str:
    tmux.spawn(*_ARGV)
    tmux.until(r"passphrase\):$")
    tmux.send(_PHRASE, "Enter")
    tmux.until(r"again:$")
    tmux.send(_PHRASE, "Enter")
    return tmux.ended()


def _pexpect(child: Expect) -> str:
    child.spawn(*_ARGV)
    child.expect(r"passphrase\): ")
    child.sendline(_PHRASE)
    child.expect("again: ")
    child.sendline(_PHRASE)
    return child.ended()


def _check(folder: Path, answer: str) -> str | None:
    argv = ["ssh-keygen", "-y", "-P", _PHRASE, "-f", str(folder / "key")]
    opened = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if opened.returncode:
        return f"the key does not open: {opened.stderr}; read:\n{answer}"
    if _PHRASE in answer:
        return "the passphrase was shown"
    return None if "SHA256:" in answer else f"no fingerprint in:\n{answer}"


KEY = Task(
    "ssh-keygen with a passphrase", ("ssh-keygen",), _prepare, _haft, _haft, _tmux, _pexpect, _check
)
