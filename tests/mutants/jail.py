"""Run tests on one changed file, without changing the checkout or anything outside.

Rules: the changed file is mounted over the original in a mount namespace of the run's own, with an empty folder
over its bytecode; processes are in a pid namespace of their own, so that whatever a fault leaves behind ends
with the run; HOME and TMPDIR are the run's own. Needs the right to make namespaces, as root has it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .drawing import Mutant

_MOUNT = """
set -e
mount --bind "$MUTANT_FILE" "$MUTANT_OVER"
mkdir -p "$MUTANT_CACHE"
mount -t tmpfs none "$MUTANT_CACHE"
exec "$@"
"""
_UNSHARE = ("unshare", "-mpf", "--kill-child", "--mount-proc")


def is_possible() -> bool:
    """Say whether this process may make the namespaces that a jail is made of."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*_UNSHARE, "true"], capture_output=True, check=False).returncode == 0


def is_caught(mutant: Mutant, tests: Sequence[str], *, jobs: int, timeout_s: float) -> bool:
    """Say whether one of the tests fails on the mutant, or does not end within `timeout_s` seconds."""
    with tempfile.TemporaryDirectory(prefix="hm-") as folder:
        home, changed = Path(folder, "h"), Path(folder, mutant.file.name)
        home.mkdir()
        changed.write_bytes(mutant.applied(mutant.file.read_bytes()))
        env = {
            **os.environ,
            "HOME": str(home),
            "TMPDIR": folder,
            "MUTANT_FILE": str(changed),
            "MUTANT_OVER": str(mutant.file.resolve()),
            "MUTANT_CACHE": str(mutant.file.resolve().parent / "__pycache__"),
        }
        pytest = (sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-p", "no:randomly")
        spread = (
            ("-n", str(jobs), "--dist", "loadfile", "--no-loadscope-reorder") if jobs > 1 else ()
        )
        command = [*_UNSHARE, "bash", "-c", _MOUNT, "jail", *pytest, *spread, *tests]
        try:
            done = subprocess.run(
                command, env=env, timeout=timeout_s, capture_output=True, text=True, check=False
            )
        except subprocess.TimeoutExpired:
            return True
        if done.returncode not in (0, 1, 2, 3):
            raise RuntimeError(
                f"the tests could not be run: {done.stdout[-2000:]}{done.stderr[-2000:]}"
            )
        return done.returncode != 0
