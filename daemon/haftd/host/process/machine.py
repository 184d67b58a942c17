"""Identify the machine, its boot, and this process's pid namespace. Few imports: the daemon needs them before
the daemon executes itself again."""

from __future__ import annotations

import os
from functools import cache


@cache
def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


@cache
def machine_id() -> str:
    """Read /etc/machine-id; empty where missing."""
    try:
        with open("/etc/machine-id", encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""


@cache
def pid_namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116 - see above
