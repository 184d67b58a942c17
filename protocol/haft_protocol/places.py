"""Where the daemon's files are: the same answer for the daemon and for every client.

Rules: pure. The environment, the uid and what a file is come in; no folder is made. An empty
variable counts as absent, a relative XDG folder is ignored (as the XDG specification asks).
Whoever reads a command line makes its paths absolute first.
Sections 1 and 11.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping

import msgspec

__all__ = [
    "LONGEST_SOCKET_PATH",
    "PlaceError",
    "Runtime",
    "audit_log",
    "config_file",
    "config_home",
    "data_folder",
    "machine_lock",
    "machine_name",
    "runtime_places",
    "socket_path",
    "state_folder",
    "tools_folder",
    "trust_store",
    "with_login_folder",
]

LONGEST_SOCKET_PATH = 107
"""What `sun_path` holds, less its final NUL."""


class PlaceError(ValueError):
    """A place cannot be used; the message says which, why, and what to set."""


class Runtime(msgspec.Struct, frozen=True):
    """The runtime folder (0700) and what is in it. `ours`: made by us, not chosen by `HAFT_SOCKET`."""

    folder: str
    socket: str
    token: str
    proof_key: str
    handles_lock: str
    daemon_lock: str
    recover_lock: str
    ours: bool


def socket_path(env: Mapping[str, str], uid: int, *, socket: str | None = None) -> str:
    """The daemon's socket: `socket` (an option), `HAFT_SOCKET`, `XDG_RUNTIME_DIR`, else /tmp.

    Raises `PlaceError` for a path that was chosen and cannot be bound. One under
    `XDG_RUNTIME_DIR` that is too long gives way to a short one of the user's under /tmp, which
    depends on nothing but the uid and that folder.
    """
    for name, chosen in (("--socket", socket), ("HAFT_SOCKET", env.get("HAFT_SOCKET"))):
        if chosen:
            return _checked(name, chosen)
    own = f"/tmp/haft-{uid}"
    base = _folder(env, "XDG_RUNTIME_DIR")
    if base is None:
        return f"{own}/haftd.sock"
    path = f"{base}/haft/haftd.sock"
    if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
        return path
    from hashlib import sha256  # 2 ms that only a long path costs

    return f"{own}/{sha256(os.fsencode(base)).hexdigest()[:16]}/haftd.sock"


def with_login_folder(
    env: Mapping[str, str], uid: int, lstat: Callable[[str], os.stat_result]
) -> Mapping[str, str]:
    """Return `env`, with /run/user/<uid> as `XDG_RUNTIME_DIR` where that is unset and the folder ours.

    A host may start its children with a handful of variables. They are to find the daemon that a
    terminal of the same login finds.
    """
    if _folder(env, "XDG_RUNTIME_DIR") is not None:
        return env
    folder = f"/run/user/{uid}"
    try:
        found = lstat(folder)
    except OSError:
        return env
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != uid or found.st_mode & 0o022:
        return env
    return {**env, "XDG_RUNTIME_DIR": folder}


def runtime_places(env: Mapping[str, str], uid: int, *, socket: str | None = None) -> Runtime:
    """The runtime folder and its files; they sit beside the socket, wherever that is."""
    path = socket_path(env, uid, socket=socket)
    folder = _parent(path)
    base = folder.rstrip("/")
    return Runtime(
        folder=folder,
        socket=path,
        token=f"{base}/token",
        proof_key=f"{base}/proof-key",
        handles_lock=f"{base}/handles.lock",
        daemon_lock=f"{base}/daemon.lock",
        recover_lock=f"{base}/recover.lock",
        ours=not (socket or env.get("HAFT_SOCKET")),
    )


def config_file(env: Mapping[str, str], *, config: str | None = None) -> str:
    """The configuration file: `config` (an option), else `haft/config.toml` in the config home."""
    if config:
        if not config.startswith("/") or "\0" in config:
            raise PlaceError(f"--config must be an absolute path, not {config!r}")
        return config
    return f"{config_home(env)}/haft/config.toml"


def config_home(env: Mapping[str, str]) -> str:
    """The user's folder of configuration, of every program: `XDG_CONFIG_HOME`, else `~/.config`."""
    return _home(env, "XDG_CONFIG_HOME", ".config")


def tools_folder(config: str) -> str:
    """The folder of further definition files, beside the configuration file."""
    return f"{_parent(config).rstrip('/')}/tools"


def state_folder(env: Mapping[str, str]) -> str:
    """The folder of spools, trust and the audit log."""
    return f"{_home(env, 'XDG_STATE_HOME', '.local/state')}/haft"


def data_folder(env: Mapping[str, str]) -> str:
    """The folder of the Python environment that the service runs from."""
    return f"{_home(env, 'XDG_DATA_HOME', '.local/share')}/haft"


def audit_log(env: Mapping[str, str]) -> str:
    """The audit log; what was before its present beginning is in the file of that name and `.1`."""
    return f"{state_folder(env)}/audit.jsonl"


def trust_store(env: Mapping[str, str]) -> str:
    """Which files of which roots are trusted."""
    return f"{state_folder(env)}/trust.json"


def machine_name(machine_id: str, boot_id: str, pid_namespace: int) -> str:
    """Return 16 hex digits that name this machine among those that share a home.

    `machine_id` is the text of /etc/machine-id; it enters as a hash, since machine-id(5) asks not to
    disclose it. Where it is none, as in many containers, the boot id and the inode of the pid
    namespace take its place, and the name holds for one boot.
    """
    from hashlib import sha256

    known = machine_id.strip()
    if not re.fullmatch(r"[0-9a-f]{32}", known):
        known = f"{boot_id.strip()}.{pid_namespace}"
    return sha256(f"haftd:{known}".encode()).hexdigest()[:16]


def machine_lock(state: str, machine: str) -> str:
    """The lock of the one daemon of this state folder on the machine of that name.

    Its first line is a JSON object; `socket` in it is the path at which that daemon serves.
    """
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
        raise PlaceError(f"neither {name} nor HOME names a folder; set one of them")
    return f"{home}/{below}"


def _checked(name: str, path: str) -> str:
    if "\0" in path:
        raise PlaceError(f"{name} has a NUL byte in it; an abstract socket is open to every user")
    if not path.startswith("/") or path.endswith("/"):
        raise PlaceError(f"{name} must be the absolute path of a socket, not {path!r}")
    length = len(os.fsencode(path))
    if length > LONGEST_SOCKET_PATH:
        raise PlaceError(
            f"{name} is {path!r}, {length} bytes long; the path of a socket has at most "
            f"{LONGEST_SOCKET_PATH}"
        )
    return path
