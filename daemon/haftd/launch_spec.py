"""Specification of a process to start: `tools` resolves one, `host` launches it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal

from haftd.named_tuple import NamedTuple

PROGRAM_FOLDERS = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
)
"""System folders that every sandboxed process may read and execute."""

SYSTEM_FILES = (
    "/etc/ld.so.cache",
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/localtime",
    "/etc/os-release",
    "/etc/gitconfig",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/openssl.cnf",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/loadavg",
    "/proc/uptime",
    "/proc/version",
    "/proc/filesystems",
    "/sys/devices/system/cpu",
)
"""Facts and settings of the system, without secrets, needed at the start."""

NETWORK_FILES = (
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/protocols",
    "/etc/ssl/certs",
    "/etc/ssl/cert.pem",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/ca-trust",
    "/etc/ca-certificates",
)
"""Names of hosts and certificates, readable in every sandbox with a network."""

PYTHON_WORKER = (sys.executable, "-P", "-m", "haft.tools")
"""First words of the command of a tool that is a Python function: the worker of haft's SDK."""

_MAX_COMMAND_LENGTH = 200


def shown_command(argv: Sequence[str], tool: str) -> str:
    """Return the command of a tool for display, of at most 200 characters: for a Python function its
    name and file, or `MODULE:NAME` of a package's, in place of the worker's words."""
    is_function = tuple(argv[: len(PYTHON_WORKER)]) == PYTHON_WORKER
    match argv[len(PYTHON_WORKER) :] if is_function else ():
        case ["--entry", place, *_] | [place, *_]:
            text = f"{tool} in {place}"
        case _:
            text = shlex.join(argv)
    return text if len(text) <= _MAX_COMMAND_LENGTH else text[: _MAX_COMMAND_LENGTH - 1] + "…"


_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


def is_within(path: str, folder: str) -> bool:
    """True if `path` is `folder` or below; both absolute, or relative to one folder, without `..`."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


class Grant(NamedTuple):
    """Rights at an absolute path and below: of `read`, `create`, `update`, `delete`, `execute`, and
    `control` (of devices)."""

    path: str
    rights: frozenset[str]


class Sandbox(NamedTuple):
    """Confinement of a process and its descendants."""

    root: str
    grants: tuple[Grant, ...] | None = ()
    """Rights on files, beside every sandbox's; None leaves files open."""
    network: bool = False
    """Internet sockets are permitted."""
    denials: tuple[Grant, ...] = ()
    """Rights that no grant may give, by any name of a path."""
    is_proxied: bool = False
    """Only TCP connections to haft's proxy are permitted, at `proxy_port` of 127.0.0.1."""
    proxy_port: int = 0

    @property
    def may_write(self) -> bool:
        return self.grants is None or any(
            grant.rights & {"create", "update", "delete"} for grant in self.grants
        )


class LaunchSpec(NamedTuple):
    """Process to start."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str] = _NOTHING
    """Whole environment; its HAFT_HANDLE tags the process."""
    terminal: bool = False
    rows: int = 24
    cols: int = 80
    stdin: Literal["pipe", "null"] = "null"
    """`pipe` for a handle with input."""
    output: Literal["raw", "outcome", "events"] = "raw"
    """Format: `raw` includes standard error; `events` implies a pipe for input."""
    splits_stderr: bool = False
    """Standard error has a separate pipe."""
    stdin_head: bytes = b""
    """First bytes of standard input, a pipe."""
    limits: Mapping[str, float] = _NOTHING
    """`memory` and `output` (bytes), `cpu_s`, `wall_s`, `processes`."""
    nofile: int | None = None
    """Soft limit of descriptors, as the daemon has raised its own."""
    sandbox: Sandbox | None = None

    def __repr__(self) -> str:
        """Leave out the values that may be secret."""
        return f"LaunchSpec(argv={self.argv!r}, cwd={self.cwd!r})"
