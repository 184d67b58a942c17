"""Specification of a process to start: `tools` resolves one, `host` launches it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

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
"""Folders of the system that every sandboxed process may read and execute."""

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
"""Facts and settings of the system without secrets, which programs need to start."""

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
"""Names of hosts and certificates, which every sandboxed process with a network may read."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Rights at an absolute path and below: some of `read`, `create`, `update`, `delete`, `execute`, and
    `control` (of devices)."""

    path: str
    rights: frozenset[str]


@dataclass(frozen=True, slots=True)
class Sandbox:
    """Confinement of a process and its descendants.

    `grants` are all rights on files beside those that every sandbox has; None leaves files open. `denials` are
    rights that no grant may give, by any name of a path. `network` permits internet sockets, and no others.
    `is_proxied` permits connections of TCP to haft's proxy only, at `proxy_port` of 127.0.0.1.
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


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """A process to start. `env` is the whole environment; its HAFT_HANDLE tags the process.

    `stdin` is `pipe` for a handle that takes input, else `null`. `output` is the format of the process's
    output: `raw` includes standard error, through a pipe of its own if `splits_stderr`; `events` implies a
    pipe for input. `limits`: `memory` and
    `output` (bytes), `cpu_s`, `wall_s`, `processes`. `nofile` is the soft limit of descriptors, since the
    daemon has raised its own.
    """

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    terminal: bool = False
    rows: int = 24
    cols: int = 80
    stdin: Literal["pipe", "null"] = "null"
    output: Literal["raw", "outcome", "events"] = "raw"
    splits_stderr: bool = False
    stdin_head: bytes = field(default=b"", repr=False)
    """Bytes that standard input, a pipe, begins with."""
    limits: Mapping[str, float] = field(default_factory=dict)
    nofile: int | None = None
    sandbox: Sandbox | None = None
