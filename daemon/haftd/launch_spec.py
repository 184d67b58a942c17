"""Specification of a process to start: `tools` resolves one, `host` launches it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

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

_MAX_COMMAND_LENGTH = 200


def shown_command(argv: Sequence[str]) -> str:
    """Return a command for display, of at most 200 characters."""
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
    """Confinement of a process and its descendants.

    `grants` are the rights on files beside every sandbox's; None leaves files open. `denials` are
    rights that no grant may give, by any name of a path. `network` permits internet sockets only;
    `is_proxied` TCP connections to haft's proxy only, at `proxy_port` of 127.0.0.1.
    """

    root: str
    grants: tuple[Grant, ...] | None = ()
    network: bool = False
    denials: tuple[Grant, ...] = ()
    is_proxied: bool = False
    proxy_port: int = 0

    @property
    def may_write(self) -> bool:
        return self.grants is None or any(
            grant.rights & {"create", "update", "delete"} for grant in self.grants
        )


class LaunchSpec(NamedTuple):
    """Process to start. `env` is the whole environment; its HAFT_HANDLE tags the process.

    `stdin` is `pipe` for a handle with input, else `null`. `output` is the format: `raw` includes
    standard error, with a pipe of its own if `splits_stderr`; `events` implies a pipe for input.
    `limits`: `memory` and `output` (bytes), `cpu_s`, `wall_s`, `processes`. `nofile` is the soft
    limit of descriptors, as the daemon has raised its own.
    """

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str] = _NOTHING
    terminal: bool = False
    rows: int = 24
    cols: int = 80
    stdin: Literal["pipe", "null"] = "null"
    output: Literal["raw", "outcome", "events"] = "raw"
    splits_stderr: bool = False
    stdin_head: bytes = b""
    """First bytes of standard input, a pipe."""
    limits: Mapping[str, float] = _NOTHING
    nofile: int | None = None
    sandbox: Sandbox | None = None

    def __repr__(self) -> str:
        """Leave out the values that may be secret."""
        return f"LaunchSpec(argv={self.argv!r}, cwd={self.cwd!r})"
