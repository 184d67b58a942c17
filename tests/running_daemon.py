"""A real daemon in a process and folders of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.forkserver import Process, can_fork, fork_haftd
from tests.patience import PATIENCE_S
from tests.wire import Framing, Wire


class RunningDaemon:
    """Starts `haftd` below `base`, calls, kills and restarts the daemon in the same folders."""

    def __init__(
        self, base: Path, *, config: str = "", env: Mapping[str, str | None] | None = None
    ) -> None:
        self.base = base
        self.runtime = base / "run"
        self.state = base / "state"
        self.config = base / "config"
        self.cache = base / "cache"
        self.home = base / "home"
        for folder in (self.runtime, self.state, self.config, self.home):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.config / "haft" / "tools").mkdir(parents=True, exist_ok=True)
        self.socket = self.runtime / "haft" / "haftd.sock"
        self.log = base / "haftd.log"
        self.process: Process | None = None
        self._env = dict(env or {})
        if config:
            (self.config / "haft" / "config.toml").write_text(config)

    @property
    def env(self) -> dict[str, str]:
        """Return the environment of the daemon and of clients that shall find the daemon."""
        env = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("HAFT_", "XDG_", "LISTEN_", "NOTIFY_", "GIT_"))
        }
        env |= {
            "XDG_RUNTIME_DIR": str(self.runtime),
            "XDG_STATE_HOME": str(self.state),
            "XDG_CONFIG_HOME": str(self.config),
            "XDG_CACHE_HOME": str(self.cache),
            "XDG_DATA_HOME": str(self.base / "data"),
            "HOME": str(self.home),
        }
        # With PYTHONDONTWRITEBYTECODE every daemon would compile all of its modules anew.
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        for key, value in self._env.items():
            if value is None:
                env.pop(key, None)
            else:
                env[key] = value
        return env

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def tools(self, text: str, name: str = "test.toml") -> None:
        """Write a file of definitions, read at the next start or reload."""
        (self.config / "haft" / "tools" / name).write_text(text)

    def start(
        self,
        *args: str,
        wait: bool = True,
        descriptors: int | None = None,
        prefix: Sequence[str] = (),
        as_child: bool = False,
    ) -> RunningDaemon:
        """Start the daemon, with at most so many descriptors and behind a `prefix` that executes
        haftd; with `wait`, return once a call is answered. The daemon is a child of this
        process if any option needs that, or with `as_child`; else of the fork server, which
        is some ten times as fast."""
        args = ("--log-format", "json", *args)
        limit = ["sh", "-c", 'ulimit -n "$0" && exec "$@"', str(descriptors)]
        can_be_forked = not as_child and not prefix and can_fork(self.env)
        before = [*(limit if descriptors is not None and not can_be_forked else ()), *prefix]
        with self.log.open("ab") as log:
            if can_be_forked:
                self.process = fork_haftd(
                    args, env=self.env, cwd="/", output=log.fileno(), descriptors=descriptors
                )
            else:
                self.process = subprocess.Popen(
                    [*before, sys.executable, "-m", "haftd", *args],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=self.env,
                    cwd="/",
                    start_new_session=True,
                )
        if wait:
            self.wait_until_up()
        return self

    def second(self, *args: str) -> int:
        """Run a second daemon in the same folders to its end; return the exit status."""
        assert can_fork(self.env)
        with self.log.open("ab") as log:
            second = fork_haftd(args, env=self.env, cwd="/", output=log.fileno())
        return second.wait(PATIENCE_S)

    def is_up(self) -> bool:
        """Return whether the daemon listens, which it does a moment after the socket's file exists."""
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.socket)) == 0

    def wait_until_up(self, timeout: float = PATIENCE_S) -> None:
        """Wait until the daemon listens."""
        end = time.monotonic() + timeout
        while not self.is_up():
            assert self.process is not None
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"haftd does not answer:\n{self.log_text()}")
            time.sleep(0.01)

    def connect(self, framing: Framing = "lines") -> Wire:
        return Wire(self.socket, framing)

    def log_text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def kill9(self) -> None:
        """Kill the daemon as a crash would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self, timeout: float = PATIENCE_S) -> int:
        """Send SIGTERM; return the exit status."""
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def close(self) -> None:
        """End the daemon in any state."""
        if self.process is not None and self.process.poll() is None:
            try:
                self.stop(10)
            except subprocess.TimeoutExpired:
                self.kill9()
