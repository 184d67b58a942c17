"""The machine, its boot, and this pid namespace. Few imports: they are repeated after the daemon's exec."""

from __future__ import annotations

import os
from functools import cache


@cache
def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


@cache
def machine_id() -> str:
    """Return the id of machine-id(5); empty where there is none."""
    try:
        with open("/etc/machine-id", encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""


@cache
def pid_namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116 - see above


def architecture() -> str:
    """Return the kernel's name of the machine, as `x86_64`; `platform` would compile nine expressions."""
    return os.uname().machine
