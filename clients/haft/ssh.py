"""The command line of OpenSSH for another machine's daemon, and messages for its failures.

Each connection is a channel of one shared connection (`ControlMaster`) to `haft connect` there: no
port, no token. `BatchMode` turns each question of ssh into an error.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from haft_protocol.ellipsis import shorten

from .addresses import Ssh

CONNECT_S = 10
"""Seconds for TCP's connection and for the key exchange."""
PERSIST_S = 60
"""Seconds for which the shared connection outlives its last channel."""

_ALIVE_S, _ALIVE_COUNT = 15, 3
# Installers for one user put `haft` where a shell without login does not look.
_SCRIPT = 'unset HAFT_HOST; PATH="$PATH:$HOME/.local/bin:$HOME/bin"; export PATH; exec haft "$@"'
_FAILED = 255
_NOT_FOUND = 127
_NOT_EXECUTABLE = 126


def ssh_program(env: Mapping[str, str]) -> list[str]:
    """Return `HAFT_SSH` in words, else `ssh`; raise `ValueError` for an open quote."""
    return shlex.split(env.get("HAFT_SSH", "")) or ["ssh"]


def ssh_command(
    address: Ssh,
    program: list[str],
    *,
    control: str | None,
    may_start: bool,
    connect_s: int = CONNECT_S,
) -> list[str]:
    """Return the command; `control` is the socket of the shared connection, or None.

    ssh takes the first value of an option, so the options of `program` come before these.
    """
    shared = (
        ("ControlMaster=no", "ControlPath=none")
        if control is None
        else (
            "ControlMaster=auto",
            f"ControlPath={_escaped(control)}",
            f"ControlPersist={PERSIST_S}",
        )
    )
    options = (
        "BatchMode=yes",
        f"ConnectTimeout={connect_s}",
        f"ServerAliveInterval={_ALIVE_S}",
        f"ServerAliveCountMax={_ALIVE_COUNT}",
        *shared,
        # Of the user's configuration only the way to the machine counts.
        "ClearAllForwardings=yes",
        "RemoteCommand=none",
        "LogLevel=ERROR",
    )
    words = [*program, "-a", "-x", "-T"]
    for option in options:
        words += ["-o", option]
    if address.port is not None:
        words += ["-p", str(address.port)]
    if address.user is not None:
        words += ["-l", address.user]
    # Behind `--` no name becomes an option.
    return [*words, "--", address.machine, remote_command(address, may_start=may_start)]


def remote_command(address: Ssh, *, may_start: bool) -> str:
    """Return the command for any login shell there: quoted words, no operators."""
    words = [] if address.socket is None else ["--socket", address.socket]
    words += ["connect", "--announce"]
    if not may_start:
        words.append("--no-start")
    return f"exec sh -c {shlex.quote(_SCRIPT)} haft {' '.join(map(shlex.quote, words))}"


def explain(address: Ssh, status: int, errors: str) -> str:
    """Return one sentence for the command's exit status and errors."""
    name = address.name
    last = _last_line(errors)
    if status == _NOT_FOUND:
        return (
            f"there is no `haft` on {name}: install it there (`uv tool install haftd`), in a folder of "
            "PATH or in ~/.local/bin"
        )
    if status == _NOT_EXECUTABLE:
        return f"`haft` on {name} cannot be executed: {last}"
    if status != _FAILED:
        return _explain_haft(name, status, last)
    for sign, words in _SIGNS:
        if sign in errors:
            return words.format(name=name, login=address.login, last=last)
    return f"ssh to {name} failed: {last or 'it gave no reason'}"


def _explain_haft(name: str, status: int, last: str) -> str:
    if status == 2 and "unrecognized arguments" in last:
        return f"`haft` on {name} is a different version; install the same version as here"
    message = last.removeprefix("haft connect: ")
    return f"on {name}: {message}" if message else f"`haft` on {name} ended with status {status}"


_SIGNS = (
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        (
            "the host key of {name} is not the one that ssh knows, so nothing was sent; find out why, then "
            "remove the old key with `ssh-keygen -R`"
        ),
    ),
    (
        "Host key verification failed",
        "ssh does not know the host key of {name}; run `{login}` once, compare the key and accept it",
    ),
    (
        "Permission denied",
        (
            "{name} refuses the login: {last}; `{login}` must work without a question, by a key "
            "(`ssh-copy-id`, `ssh-add`)"
        ),
    ),
    (
        "Too many authentication failures",
        (
            "{name} refuses the login: {last}; name the key for it in ~/.ssh/config (IdentityFile, "
            "IdentitiesOnly)"
        ),
    ),
    ("Could not resolve hostname", "there is no machine {name}: {last}"),
    ("Connection refused", "{name} has no ssh server at this port: {last}"),
    ("timed out", "{name} does not answer: {last}"),
    ("No route to host", "{name} cannot be reached: {last}"),
    ("unreachable", "{name} cannot be reached: {last}"),
    ("not responding", "the connection to {name} was lost: {last}"),
)


def _last_line(errors: str) -> str:
    lines = ["".join(c if c.isprintable() else " " for c in line) for line in errors.splitlines()]
    full = [line.strip() for line in lines if line.strip()]
    return shorten(full[-1].rstrip("."), 300) if full else ""


def _escaped(path: str) -> str:
    """Keep ssh from expanding a path."""
    return path.replace("%", "%%")
