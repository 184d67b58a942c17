"""Process state as the kernel reports: a zombie is not running."""

from __future__ import annotations

import time
from pathlib import Path

from tests.patience import PATIENCE_S


def is_running(pid: int) -> bool:
    """Return true if a process with this pid exists and has not ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def wait_for_environment(pid: int, timeout: float = PATIENCE_S) -> None:
    """Return once the process has its environment, or has ended: within execve(2) there is a
    moment without."""
    end = time.monotonic() + timeout
    while is_running(pid) and not _environment(pid):
        assert time.monotonic() < end, f"process {pid} does not execute its program"
        time.sleep(0.001)


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except ProcessLookupError:  # ended between the two looks
        return b""
