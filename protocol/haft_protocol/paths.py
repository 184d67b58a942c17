"""Paths of the daemon's files, for daemon and clients (docs/protocol.md, "Transports").

An empty variable counts as absent; a relative XDG folder is ignored (XDG specification).
"""

from __future__ import annotations

import os
import re
import stat

TYPE_CHECKING = False  # `typing` takes 3 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "MAX_SOCKET_PATH",
    "PathError",
    "audit_log",
    "cache_above",
    "config_file",
    "config_home",
    "data_folder",
    "machine_lock",
    "machine_name",
    "modules_folder",
    "runtime_folder",
    "socket_path",
    "state_folder",
    "tools_folder",
    "trust_store",
    "with_login_folder",
]

MAX_SOCKET_PATH = 107
"""Bytes in `sun_path`, less its final NUL."""


class PathError(ValueError):
    """Unusable path; the message names path, reason, and the variable to set."""


def socket_path(env: Mapping[str, str], uid: int, *, socket: str | None = None) -> str:
    """Return the daemon's socket: `socket` (an option), `HAFT_SOCKET`, `XDG_RUNTIME_DIR`, else
    /tmp.

    Raises `PathError` for a chosen path that cannot be bound. A path under `XDG_RUNTIME_DIR` that
    is too long is replaced by a short path under /tmp.

    >>> socket_path({"XDG_RUNTIME_DIR": "/run/user/1000"}, 1000)
    '/run/user/1000/haft/haftd.sock'
    """
    for name, chosen in (("--socket", socket), ("HAFT_SOCKET", env.get("HAFT_SOCKET"))):
        if chosen:
            return _checked(name, chosen)
    own = f"/tmp/haft-{uid}"
    base = _folder(env, "XDG_RUNTIME_DIR")
    if base is None:
        return f"{own}/haftd.sock"
    path = f"{base}/haft/haftd.sock"
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH:
        return path
    from hashlib import sha256

    return f"{own}/{sha256(os.fsencode(base)).hexdigest()[:16]}/haftd.sock"


def runtime_folder(env: Mapping[str, str], uid: int, *, socket: str | None = None) -> str:
    """Return the folder of the socket and the locks."""
    return _parent(socket_path(env, uid, socket=socket))


def with_login_folder(
    env: Mapping[str, str], uid: int, lstat: Callable[[str], os.stat_result]
) -> Mapping[str, str]:
    """Return `env`, with the user's existing /run/user/<uid> for an unset `XDG_RUNTIME_DIR`.

    A host may start a client with few variables.
    """
    if _folder(env, "XDG_RUNTIME_DIR") is not None:
        return env
    folder = f"/run/user/{uid}"
    try:
        status = lstat(folder)
    except OSError:
        return env
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != uid or status.st_mode & 0o022:
        return env
    return {**env, "XDG_RUNTIME_DIR": folder}


def config_file(env: Mapping[str, str], *, config: str | None = None) -> str:
    """Return the configuration file: `config` (an option), else `haft/config.toml` in the config home."""
    if config:
        if not config.startswith("/") or "\0" in config:
            raise PathError(f"--config must be an absolute path, not {config!r}")
        return config
    return f"{config_home(env)}/haft/config.toml"


def config_home(env: Mapping[str, str]) -> str:
    return _home(env, "XDG_CONFIG_HOME", ".config")


def tools_folder(config: str) -> str:
    return f"{_parent(config).rstrip('/')}/tools"


def state_folder(env: Mapping[str, str]) -> str:
    """Return the folder of spools, trust and the audit log."""
    return f"{_home(env, 'XDG_STATE_HOME', '.local/state')}/haft"


def data_folder(env: Mapping[str, str]) -> str:
    """Return the folder of the service's Python environment."""
    return f"{_home(env, 'XDG_DATA_HOME', '.local/share')}/haft"


def modules_folder(env: Mapping[str, str]) -> str:
    """Return the cache of compiled WebAssembly modules."""
    return f"{_home(env, 'XDG_CACHE_HOME', '.cache')}/haft/modules"


def cache_above(prefix: str, exists: Callable[[str], bool]) -> str | None:
    """Return the cache that contains the Python environment `prefix`, None if it was installed to stay.

    A cache is marked by a file of the Cache Directory Tagging Specification. uv and pipx also mark each
    environment, so a mark in `prefix` itself does not count.

    >>> cache_above("/home/me/.cache/uv/archive-v0/x", {"/home/me/.cache/uv/CACHEDIR.TAG"}.__contains__)
    '/home/me/.cache/uv'
    """
    folder = prefix.rstrip("/")
    while folder:
        folder = folder.rpartition("/")[0]
        if exists(f"{folder}/CACHEDIR.TAG"):
            return folder
    return None


def audit_log(env: Mapping[str, str]) -> str:
    """Return the audit log; older events have the suffix `.1`."""
    return f"{state_folder(env)}/audit.jsonl"


def trust_store(env: Mapping[str, str]) -> str:
    return f"{state_folder(env)}/trust.json"


def machine_name(machine_id: str, boot_id: str, pid_namespace: int) -> str:
    """Return 16 hex digits that name this machine among those that share a home.

    They hash /etc/machine-id, which machine-id(5) asks not to disclose, or, in many containers,
    boot id and pid namespace.
    """
    from hashlib import sha256

    identity = machine_id.strip()
    if not re.fullmatch(r"[0-9a-f]{32}", identity):
        identity = f"{boot_id.strip()}.{pid_namespace}"
    return sha256(f"haftd:{identity}".encode()).hexdigest()[:16]


def machine_lock(state: str, machine: str) -> str:
    """Return the lock of this machine's daemon; its first line is a JSON object with `socket`."""
    return f"{state}/daemon-{machine}.lock"


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _folder(env: Mapping[str, str], name: str) -> str | None:
    value = env.get(name, "")
    return (value.rstrip("/") or "/") if value.startswith("/") and "\0" not in value else None


def _home(env: Mapping[str, str], name: str, below: str) -> str:
    folder = _folder(env, name)
    if folder is not None:
        return folder
    home = _folder(env, "HOME")
    if home is None:
        raise PathError(f"neither {name} nor HOME names a folder; set one of them")
    return f"{home}/{below}"


def _checked(name: str, path: str) -> str:
    if "\0" in path:
        raise PathError(
            f"{name} has a NUL byte in it; an abstract socket would be open to every user"
        )
    if not path.startswith("/") or path.endswith("/"):
        raise PathError(f"{name} must be the absolute path of a socket, not {path!r}")
    length = len(os.fsencode(path))
    if length > MAX_SOCKET_PATH:
        raise PathError(
            f"{name} is {path!r}, {length} bytes long; the path of a socket has at most "
            f"{MAX_SOCKET_PATH}"
        )
    return path
