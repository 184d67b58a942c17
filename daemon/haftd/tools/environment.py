"""The environment of a tool's process.

Rules: pure. Order, later wins: the client's (with a few names of the daemon's where it is silent) or
the daemon's; less what is secret, what lets a process out of our hands and what speaks of another
terminal; then our defaults; then the definition; HAFT_CALL, HAFT_SOCKET and HAFT_HANDLE last. Section 10.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import translate
from functools import lru_cache

from haft_protocol.errors import invalid_params, limit_exceeded, shown

from .template import MAX_ARGUMENT

MAX_VARIABLE = MAX_ARGUMENT - 1
"""Name and value together, in bytes: what the kernel takes less `=` and NUL."""

MAX_CALL_BYTES = 64 * 1024
"""A call's JSON above this is handed over in a file."""

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"

_FILLED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG")
"""Taken from the daemon's environment when a client's does not mention them."""

_MANAGER = "DBUS_SESSION_BUS_ADDRESS DBUS_STARTER_ADDRESS DBUS_STARTER_BUS_TYPE XDG_RUNTIME_DIR"
"""The user manager: a process that reaches it can start others that are not ours."""

_SYSTEMD = (
    "NOTIFY_SOCKET LISTEN_FDS LISTEN_PID LISTEN_FDNAMES LISTEN_PIDFDID WATCHDOG_USEC WATCHDOG_PID"
    " INVOCATION_ID JOURNAL_STREAM MAINPID MANAGERPID SYSTEMD_EXEC_PID MEMORY_PRESSURE_WATCH"
    " MEMORY_PRESSURE_WRITE CREDENTIALS_DIRECTORY RUNTIME_DIRECTORY STATE_DIRECTORY"
)
"""What systemd told the daemon, and nobody else."""

_ELSEWHERE = (
    "COLUMNS LINES TERMCAP TERM_PROGRAM TERM_PROGRAM_VERSION COLORTERM VTE_VERSION WINDOWID GPG_TTY"
    " SSH_TTY PWD OLDPWD SHLVL _"
)
"""Of another terminal, folder or shell."""

_REMOVED = frozenset(f"{_MANAGER} {_SYSTEMD} {_ELSEWHERE}".split())
_FOR_PIPES = {"NO_COLOR": "1", "TERM": "dumb"}
_NOT_FOR_PIPES = ("FORCE_COLOR", "CLICOLOR_FORCE")
_FOR_TERMINALS = {"TERM": "xterm-256color"}
_EVERYWHERE = {"PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
_ASKERS = ("SUDO_ASKPASS", "SSH_ASKPASS", "GIT_ASKPASS")
_UTF8 = re.compile(r"\.utf-?8(@|\Z)", re.IGNORECASE)


@lru_cache(maxsize=16)
def secret_pattern(patterns: Sequence[str]) -> re.Pattern[str]:
    """One expression for names that match any of the shell patterns, in either case."""
    return re.compile(
        "|".join(translate(pattern) for pattern in patterns) or r"(?!)", re.IGNORECASE
    )


def _source(base: Mapping[str, str], client: Mapping[str, str | None] | None) -> dict[str, str]:
    if client is None:
        return {name: value for name, value in base.items() if _sound(name, value)}
    for name, value in client.items():
        if not _sound(name, value or ""):
            raise invalid_params(
                f"`env`: {shown(name)} is no variable: a name has no `=`, and neither has a NUL byte"
            )
        if value is not None and len(name) + len(os.fsencode(value)) > MAX_VARIABLE:
            raise limit_exceeded(
                "variable_bytes", MAX_VARIABLE, f"`env`: {shown(name)} is too long"
            )
    env = {name: value for name, value in client.items() if value is not None}
    for name in _FILLED:
        if name not in client and name in base:
            env[name] = base[name]
    return env


def _path(value: str | None) -> str:
    """PATH without what depends on the working folder: empty entries, `.`, relative ones."""
    kept = [folder for folder in (value or "").split(os.pathsep) if folder.startswith("/")]
    return os.pathsep.join(kept) or DEFAULT_PATH


def path_of(base: Mapping[str, str], client: Mapping[str, str | None] | None = None) -> str:
    """The PATH that a tool of this client gets, unless its definition says otherwise."""
    return _path(_source(base, client).get("PATH"))


def call_value(call_json: str, write: Callable[[bytes], str] | None) -> str:
    """HAFT_CALL's value: the JSON, or the path of the file that `write` put a long one into."""
    data = call_json.encode()
    if len(data) <= MAX_CALL_BYTES or write is None:
        return call_json
    return write(data)


def build(
    base: Mapping[str, str],
    *,
    client: Mapping[str, str | None] | None = None,
    secret_env: Sequence[str] = (),
    overlay: Mapping[str, str | bool | None] | None = None,
    terminal: bool = False,
    askpass: str | None = None,
    socket: str,
    outer: str = "",
    mark: str,
    call: str,
) -> dict[str, str]:
    """Return the whole environment of a tool's process.

    `call` is what `call_value` returned, `askpass` the helper through which programs ask for secrets.
    `socket` leads every program to the daemon that runs it: without it, a command of ours would look
    for the user's daemon in folders that a tool does not know. `outer` are the tags of the handles in
    which the daemon itself runs.
    """
    source = _source(base, client)
    secret = secret_pattern(tuple(secret_env))
    env = {
        name: value
        for name, value in source.items()
        if name not in _REMOVED and not name.startswith("HAFT_") and not secret.match(name)
    }
    if terminal:
        env.update(_FOR_TERMINALS)
    else:
        for name in _NOT_FOR_PIPES:
            env.pop(name, None)
        env.update(_FOR_PIPES)
    env.update(_EVERYWHERE)
    if askpass is not None:
        _ask_through(env, askpass, terminal=terminal)
    if not _UTF8.search(env.get("LANG", "")):
        env["LANG"] = "C.UTF-8"
    for name in ("LC_ALL", "LC_CTYPE"):  # they win over LANG
        if env.get(name) and not _UTF8.search(env[name]):
            env[name] = "C.UTF-8"
    env["PATH"] = _path(env.get("PATH"))
    for name, change in (overlay or {}).items():
        if change is True:
            if name in source:
                env[name] = source[name]
        elif isinstance(change, str):
            env[name] = change
        else:
            env.pop(name, None)
    env["HAFT_CALL"] = call
    env["HAFT_SOCKET"] = socket
    if outer:
        env["HAFT_OUTER"] = outer
    env.pop("HAFT_HANDLE", None)
    env["HAFT_HANDLE"] = mark
    return env


def _ask_through(env: dict[str, str], askpass: str, *, terminal: bool) -> None:
    """Have secrets asked through the daemon. A client's own program would open a window, or wait at
    a terminal, where nobody looks."""
    env.update(dict.fromkeys(_ASKERS, askpass))
    # On a terminal ssh asks there, as it should: whoever drives it sees the question.
    env.pop("SSH_ASKPASS_REQUIRE", None)
    if not terminal:
        env["SSH_ASKPASS_REQUIRE"] = "force"


def _sound(name: str, value: str) -> bool:
    """Whether the kernel and a shell can take it; what a client sends is not ours to trust."""
    return bool(name) and "=" not in name and "\0" not in name and "\0" not in value
