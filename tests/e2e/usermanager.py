"""A real `systemd --user` in namespaces and its own cgroup, with a home and a runtime folder."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.faults.harness import cgroup_base, needs_cgroup, needs_namespaces
from tests.forkserver import run_haft

BIN = Path(sys.executable).parent

_SYSTEMD = "/lib/systemd/systemd"
_RUNTIME = "/run/user/{uid}"
_MANAGER = """
echo $$ > "$1/cgroup.procs"
exec unshare --mount --pid --fork --cgroup --kill-child --mount-proc sh -c '
    umount --lazy /sys/fs/cgroup
    mount -t cgroup2 none /sys/fs/cgroup || { mount -t tmpfs none /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; }
    mount -t tmpfs none /run
    mkdir -p "$XDG_RUNTIME_DIR" /run/systemd/system; chmod 700 "$XDG_RUNTIME_DIR"
    "$0" --user --log-target=console --log-level=info; exit' "$2"
"""


needs_user_manager = (
    needs_cgroup,
    needs_namespaces,
    pytest.mark.skipif(os.getuid() != 0, reason="needs root"),
    pytest.mark.skipif(not Path(_SYSTEMD).exists(), reason="systemd is not installed"),
)
"""The marks of a test that starts a user manager."""


class UserManager:
    """Runs commands as after a login with this user manager; `home` is the user's home."""

    def __init__(self, home: Path, data: Path) -> None:
        base = cgroup_base()
        assert base is not None
        self.home = home
        self.log = home / "systemd.log"
        self._group = base / f"user-manager.{os.getpid()}.{time.monotonic_ns()}"
        self._group.mkdir()
        runtime = _RUNTIME.format(uid=os.getuid())
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("HAFT_", "XDG_", "DBUS_"))}
        self.env = {
            **kept,
            "HOME": str(home),
            "XDG_RUNTIME_DIR": runtime,
            "XDG_DATA_HOME": str(data),
            "PATH": f"{BIN}:{os.environ['PATH']}",
        }
        (home / ".config" / "systemd" / "user").mkdir(parents=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                ["sh", "-c", _MANAGER, "sh", str(self._group), _SYSTEMD],
                env={k: v for k, v in self.env.items() if k != "XDG_DATA_HOME"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
            )
        self._wait_until_up()

    def run(
        self, *words: str, input: str | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, without a terminal; `haft` as a fork of the tests'."""
        if words[0] == "haft":
            env = {**self.env, **(env or {})}
            return run_haft(
                words[1:], env=env, cwd=Path("/"), given=input or "", namespaces=self._systemd()
            )
        where = ["nsenter", f"--target={self._systemd()}", "--mount", "--pid", "--cgroup", "--wd=/"]
        return subprocess.run(
            [*where, *words],
            env={**self.env, **(env or {})},
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def properties(self, unit: str) -> dict[str, str]:
        """Return all properties of a unit."""
        printed = self.run("systemctl", "--user", "show", unit).stdout
        return dict(line.split("=", 1) for line in printed.splitlines() if "=" in line)

    def close(self) -> None:
        """End the manager and its processes."""
        for kill in (*self._group.rglob("cgroup.kill"), self._group / "cgroup.kill"):
            with contextlib.suppress(OSError):
                kill.write_text("1")
        self._process.kill()
        self._process.wait()
        for folder in sorted((p for p in self._group.rglob("*") if p.is_dir()), reverse=True):
            _remove(folder)
        _remove(self._group)

    def _systemd(self) -> int:
        """The number, outside, of the first process in the namespace of the manager."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        found = children.read_text().split()
        return int(found[0]) if found else 0

    def _wait_until_up(self) -> None:
        end = time.monotonic() + 30
        while True:
            if self._process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"no user manager:\n{self.log.read_text(errors='replace')}")
            if self._systemd():
                done = self.run("systemctl", "--user", "is-system-running")
                if done.stdout.strip() in ("running", "degraded"):
                    return
            time.sleep(0.02)


def _remove(group: Path) -> None:
    """Remove a cgroup once the kernel has reaped its processes."""
    end = time.monotonic() + 10
    while group.exists() and time.monotonic() < end:
        try:
            group.rmdir()
        except OSError:
            time.sleep(0.01)
