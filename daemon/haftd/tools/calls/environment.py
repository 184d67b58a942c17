"""Environment of a tool's process (docs/configuration.md, "The environment of a tool").

Later wins: the client's environment or the daemon's, without secrets and facts of another terminal;
haft's defaults; the definition; the proxy; HAFT_CALL, HAFT_SOCKET, HAFT_OUTER and HAFT_HANDLE.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import translate
from functools import lru_cache

from haft_protocol.errors import invalid_params, limit_exceeded, shown
from haftd.lazy_pattern import lazy_pattern
from haftd.tools.templates.template import MAX_ARGUMENT

MAX_VARIABLE = MAX_ARGUMENT - 1
"""Bytes of name and value: the kernel's limit less `=` and NUL."""

MAX_CALL_BYTES = 64 * 1024
"""Longer JSON is passed in a file."""

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"

_FILLED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG")
"""Taken from the daemon's environment if the client's does not name them."""

_MANAGER = "DBUS_SESSION_BUS_ADDRESS DBUS_STARTER_ADDRESS DBUS_STARTER_BUS_TYPE XDG_RUNTIME_DIR"
"""The user manager could start processes outside haft's control."""

_SYSTEMD = (
    "NOTIFY_SOCKET LISTEN_FDS LISTEN_PID LISTEN_FDNAMES LISTEN_PIDFDID WATCHDOG_USEC WATCHDOG_PID"
    " INVOCATION_ID JOURNAL_STREAM MAINPID MANAGERPID SYSTEMD_EXEC_PID MEMORY_PRESSURE_WATCH"
    " MEMORY_PRESSURE_WRITE CREDENTIALS_DIRECTORY RUNTIME_DIRECTORY STATE_DIRECTORY"
)
"""Set by systemd for the daemon alone."""

_ELSEWHERE = (
    "COLUMNS LINES TERMCAP TERM_PROGRAM TERM_PROGRAM_VERSION COLORTERM VTE_VERSION WINDOWID GPG_TTY"
    " SSH_TTY PWD OLDPWD SHLVL _"
)
"""Facts of another terminal, folder or shell."""

_REMOVED = frozenset(f"{_MANAGER} {_SYSTEMD} {_ELSEWHERE}".split())
_FOR_PIPES = {"NO_COLOR": "1", "TERM": "dumb"}
_NOT_FOR_PIPES = ("FORCE_COLOR", "CLICOLOR_FORCE")
_FOR_TERMINALS = {"TERM": "xterm-256color"}
_EVERYWHERE = {"PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
_PROXIES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"]
_ASKERS = ("SUDO_ASKPASS", "SSH_ASKPASS", "GIT_ASKPASS")
_UTF8 = lazy_pattern(r"\.utf-?8(@|\Z)", re.IGNORECASE)


class Variables(dict[str, str]):
    """Environment that no code changes: derived environments are remembered by its identity, for
    which no value is read."""

    __hash__ = object.__hash__  # type: ignore[assignment]


_Source = Variables | tuple[tuple[str, str], ...]


@lru_cache(maxsize=16)
def compile_secret_pattern(patterns: Sequence[str]) -> re.Pattern[str]:
    """Compile shell patterns into one expression that ignores case."""
    return re.compile(
        "|".join(translate(pattern) for pattern in patterns) or r"(?!)", re.IGNORECASE
    )


def _make_key(variables: Mapping[str, str]) -> _Source:
    return variables if isinstance(variables, Variables) else tuple(variables.items())


def _list_pairs(source: _Source) -> Iterable[tuple[str, str]]:
    return source.items() if isinstance(source, Variables) else source


@lru_cache(maxsize=16)
def _keep_valid(source: _Source) -> Variables:
    return Variables((name, value) for name, value in _list_pairs(source) if _is_valid(name, value))


@lru_cache(maxsize=16)
def _find_inherited_names(names: tuple[str, ...], secret_env: tuple[str, ...]) -> tuple[str, ...]:
    secret = compile_secret_pattern(secret_env)
    return tuple(
        name
        for name in names
        if name not in _REMOVED and not name.startswith("HAFT_") and not secret.match(name)
    )


def _inherit(source: Mapping[str, str], secret_env: tuple[str, ...]) -> dict[str, str]:
    # Remembered by the names alone: a cache of values would keep a client's secrets.
    return {name: source[name] for name in _find_inherited_names(tuple(source), secret_env)}


def _add_defaults(env: dict[str, str], *, terminal: bool) -> dict[str, str]:
    if terminal:
        env.update(_FOR_TERMINALS)
    else:
        for name in _NOT_FOR_PIPES:
            env.pop(name, None)
        env.update(_FOR_PIPES)
    env.update(_EVERYWHERE)
    if not _UTF8.search(env.get("LANG", "")):
        env["LANG"] = "C.UTF-8"
    for name in ("LC_ALL", "LC_CTYPE"):  # they override LANG
        if env.get(name) and not _UTF8.search(env[name]):
            env[name] = "C.UTF-8"
    env["PATH"] = _clean_path(env.get("PATH"))
    return env


@lru_cache(maxsize=32)
def _make_common(
    source: Variables, secret_env: tuple[str, ...], terminal: bool
) -> Mapping[str, str]:
    """Return what all calls of tools without rules have in the daemon's environment."""
    return _add_defaults(_inherit(source, secret_env), terminal=terminal)


def _choose_source(
    base: Mapping[str, str], client: Mapping[str, str | None] | None
) -> Mapping[str, str]:
    if client is None:
        return _keep_valid(_make_key(base))
    for name, value in client.items():
        if not _is_valid(name, value or ""):
            raise invalid_params(
                f"`env`: {shown(name)} is not a variable: a name has no `=`, and neither name nor value a NUL byte"
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


@lru_cache(maxsize=16)
def _clean_path(value: str | None) -> str:
    """Remove entries that depend on the working folder: empty, `.`, relative."""
    kept = [folder for folder in (value or "").split(os.pathsep) if folder.startswith("/")]
    return os.pathsep.join(kept) or DEFAULT_PATH


def path_of(base: Mapping[str, str], client: Mapping[str, str | None] | None = None) -> str:
    """Return the PATH of a tool's process, before the definition's changes."""
    return _clean_path(_choose_source(base, client).get("PATH"))


def find_granted_variables(
    base: Mapping[str, str],
    client: Mapping[str, str | None] | None,
    secret_env: Sequence[str],
    may_see: Callable[[str], bool],
    names: Iterable[str],
) -> dict[str, str]:
    """Return the variables for host calls; a secret one only by its own name in `names`."""
    secret, named = compile_secret_pattern(tuple(secret_env)), frozenset(names)
    return {
        name: value
        for name, value in _choose_source(base, client).items()
        if value and may_see(name) and (name in named or not secret.match(name))
    }


def make_call_value(call_json: str, write: Callable[[bytes], str] | None) -> str:
    """Return HAFT_CALL: the JSON, or the path that `write` returns for a file with a long JSON."""
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
    may_inherit: Callable[[str], bool] | None = None,
    may_read: Callable[[str], bool] | None = None,
    is_confined: bool = False,
    proxy: str = "",
) -> dict[str, str]:
    """Build the environment of a tool's process. Raises `RpcError` for a client's invalid variable.

    `askpass` asks for secrets. `socket` addresses this daemon, as a tool's environment lacks the
    folders to find it. `outer` has the tags of handles around the daemon. `may_inherit` decides on
    the variables of a tool with rules, `may_read` on files: git, which ends at an unreadable
    configuration, gets none. A process that `is_confined` gets no daemon's address, as no socket is
    reachable; `proxy` is then the only one.
    """
    source = _choose_source(base, client)
    secret = tuple(secret_env)
    if may_inherit is None and isinstance(source, Variables):
        env = dict(_make_common(source, secret, terminal))
    else:
        env = _inherit(source, secret)
        if may_inherit is not None:
            env = {name: value for name, value in env.items() if may_inherit(name)}
        env = _add_defaults(env, terminal=terminal)
    if askpass is not None and not is_confined:
        _set_askpass(env, askpass, terminal=terminal)
    if may_read is not None and not any(map(may_read, _list_git_files(env.get("HOME", "")))):
        env["GIT_CONFIG_GLOBAL"] = os.devnull
    for name, change in (overlay or {}).items():
        if change is True:
            if name in source:
                env[name] = source[name]
        elif isinstance(change, str):
            env[name] = change
        else:
            env.pop(name, None)
    if proxy:
        env.update(dict.fromkeys(_PROXIES, proxy))
        env.update(dict.fromkeys(("NO_PROXY", "no_proxy"), ""))
        env["NODE_USE_ENV_PROXY"] = "1"
    env["HAFT_CALL"] = call
    if not is_confined:
        env["HAFT_SOCKET"] = socket
    if outer:
        env["HAFT_OUTER"] = outer
    env.pop("HAFT_HANDLE", None)
    env["HAFT_HANDLE"] = mark
    return env


def _list_git_files(home: str) -> tuple[str, str]:
    return f"{home}/.gitconfig", f"{home}/.config/git/config"


def _set_askpass(env: dict[str, str], askpass: str, *, terminal: bool) -> None:
    """Route questions for secrets through the daemon: a client's askpass would open a window, or
    wait at an unattended terminal."""
    env.update(dict.fromkeys(_ASKERS, askpass))
    # On a terminal ssh asks there, visibly.
    env.pop("SSH_ASKPASS_REQUIRE", None)
    if not terminal:
        env["SSH_ASKPASS_REQUIRE"] = "force"


def _is_valid(name: str, value: str) -> bool:
    return bool(name) and "=" not in name and "\0" not in name and "\0" not in value
