"""Ground truth and killable daemons for fault tests. Survivors are counted by a cgroup of the
test's own, which neither `setsid` nor an empty environment leaves; without one, by digits in
the arguments. `Subject` starts the stand-in (`standin.py`) or a real `haftd`, kills and
restarts the daemon in the same folders. Nothing is signalled by number, and the test's cgroup
is emptied at the end."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import pytest

from haftd.host.cgroup import Cgroup, find_base, find_own_cgroup
from haftd.host.limit_group import Controllers, enable_controllers
from haftd.host.process.identity import Identity, every_pid, identify_child, read_stat
from haftd.host.process.process_tag import ProcessTag
from haftd.host.recovery.record import Record
from tests.forkserver import ForkedProcess, Process, can_fork, fork_haftd, fork_standin
from tests.patience import PATIENCE_S

STANDIN = Path(__file__).with_name("standin.py")
BOMB = (
    "b() { if (($1)); then b $(($1 - 1)) | b $(($1 - 1)) & else exec sleep 60; fi; }; "
    "b 9; sleep 600"
)
"""A fork bomb for bash of about a thousand processes: one without end it takes the machine if its daemon is
killed before the limit is enforced."""
_counter = itertools.count()


def until(fact: Callable[[], object], kind: str, timeout_s: float = PATIENCE_S) -> None:
    """Wait for a fact of another process that nothing announces."""
    end = time.monotonic() + timeout_s
    while not fact():
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout_s:g} s: {kind}")
        time.sleep(0.002)


def cgroup_base() -> Path | None:
    """Return a cgroup below which this test may make its own: a delegated one, or for root its
    own."""
    own = find_base("auto") or find_own_cgroup()
    if own is None:
        return None
    try:
        probe = Cgroup.create(own, f"probe.{secrets.token_hex(8)}")
    except OSError:
        return None
    probe.remove()
    return own


def controllers() -> Controllers | None:
    """Return controllers that count for groups outside the daemon's own cgroup, as in a container."""
    found = enable_controllers("auto", None)
    return found if found is not None and os.access(found.base, os.W_OK) else None


def _can_unshare() -> bool:
    if shutil.which("unshare") is None:
        return False
    trial = ["unshare", "-pf", "--kill-child", "--mount-proc", "true"]
    return subprocess.run(trial, capture_output=True, check=False).returncode == 0


needs_cgroup = pytest.mark.skipif(cgroup_base() is None, reason="no cgroup of our own to make")
needs_controllers = pytest.mark.skipif(controllers() is None, reason="no cgroup of our own to make")
needs_namespaces = pytest.mark.skipif(not _can_unshare(), reason="no namespaces of our own to make")
needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


class Ground:
    """All living processes started here, by a cgroup of the test's own, or else by `tag`: digits
    that every `sleep` started here has in its arguments."""

    def __init__(self) -> None:
        base = cgroup_base()
        self.tag = f".0{os.getpid()}{next(_counter):04d}{secrets.randbelow(1000):03d}"
        self._cgroup = None
        if base is not None:
            self._cgroup = Cgroup.create(base, f"ground.{secrets.token_hex(8)}")

    def __enter__(self) -> Ground:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._cgroup is not None:
            self._cgroup.empty(10.0)
            # A killed process stays in the cgroup until reaped.
            until(self._cgroup.remove, "the test's own cgroup is empty")
            return
        while pids := self._tagged():
            for pid in pids:
                with contextlib.suppress(OSError):
                    pidfd = os.pidfd_open(pid)
                    if self.tag in _words(pid):
                        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                    os.close(pidfd)

    @property
    def cgroup(self) -> Cgroup:
        assert self._cgroup is not None
        return self._cgroup

    @property
    def own(self) -> Path | None:
        """Return the folder of the test's cgroup, None without one."""
        return None if self._cgroup is None else self._cgroup.path

    def tagged(self, script: str) -> str:
        """Return the script with every `sleep` tagged."""
        return re.sub(r"\bsleep (\d+)\b", rf"sleep \1{self.tag}", script)

    def within(self, argv: Sequence[str]) -> list[str]:
        """The words that run `argv` in here."""
        words = [self.tagged(word) for word in argv]
        if self._cgroup is None:
            return words
        join = f'echo $$ > {self._cgroup.path}/cgroup.procs && exec "$@"'
        return ["/bin/sh", "-c", join, "join", *words]

    def survivors(self) -> list[str]:
        """Return the living processes, without zombies, as `<pid> <words>`."""
        pids = self._tagged() if self._cgroup is None else self._cgroup.procs()
        found = []
        for pid in pids:
            stat = read_stat(pid)
            if stat is not None and stat.state not in "ZX":
                found.append(f"{pid} {_words(pid)}")
        return found

    def _tagged(self) -> list[int]:
        return [pid for pid in every_pid() if pid != os.getpid() and self.tag in _words(pid)]


def _words(pid: int) -> str:
    """Return a process's arguments, empty once the process is gone."""
    try:
        data = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ""
    return data.replace(b"\0", b" ").decode(errors="replace").strip()


def record_of(who: Identity, mark: ProcessTag, /, **changed: object) -> Record:
    """Return the record that a daemon would have written; `changed` forges fields."""
    facts: dict[str, object] = {
        "n": mark.n,
        "pid": who.pid,
        "ticks": who.ticks,
        "inode": who.inode,
        "boot": who.boot,
        "ns": who.ns,
        "sid": who.pid,
        "uid": os.getuid(),
        "mark": str(mark),
        "session": "default",
        "id": f"h{mark.n}",
        "tool": "run",
    }
    return Record(**{**facts, **changed})  # type: ignore[arg-type]


class Crowd:
    """Child processes of a test whose ends are seen; those left are killed at the exit."""

    def __init__(self) -> None:
        self._children: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_exception: object) -> None:
        for child in self._children:
            if child.poll() is None:
                child.kill()
            child.wait()
            if child.stdout is not None:
                child.stdout.close()

    def start(
        self,
        argv: Sequence[str],
        mark: ProcessTag | str | None = None,
        *,
        session: bool = True,
        ready: bool = False,
    ) -> subprocess.Popen[bytes]:
        """Start a process with only this tag; with `ready`, return once the process has written."""
        env = {"PATH": os.environ["PATH"]}
        if mark is not None:
            env["HAFT_HANDLE"] = str(mark)
        child = subprocess.Popen(
            argv,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if ready else subprocess.DEVNULL,
            start_new_session=session,
        )
        self._children.append(child)
        if ready:
            assert child.stdout is not None
            assert child.stdout.read(1)
        return child

    @staticmethod
    def identity(child: subprocess.Popen[bytes]) -> Identity:
        """The identity of a child, which is not reaped."""
        pidfd = os.pidfd_open(child.pid)
        try:
            return identify_child(child.pid, pidfd)
        finally:
            os.close(pidfd)


class Subject:
    """A daemon to be killed, in folders of its own below `base`, in a cgroup per cycle. `argv`
    starts the daemon; the stand-in prints a line when up, a real daemon serves `socket`."""

    def __init__(
        self, base: Path, argv: Sequence[str], env: Mapping[str, str] | None = None
    ) -> None:
        self.base = base
        self.argv = list(argv)
        self.runtime = base / "run"
        self.home = self.runtime / "haft"
        self.socket = self.home / "haftd.sock"
        self.env = {
            **{key: value for key, value in os.environ.items() if not key.startswith("HAFT_")},
            "XDG_RUNTIME_DIR": str(self.runtime),
            "XDG_STATE_HOME": str(base / "state"),
            "XDG_CONFIG_HOME": str(base / "config"),
            **(env or {}),
        }
        self.log = base / "log"
        self.process: Process | None = None
        self._tracer: subprocess.Popen[bytes] | None = None
        self._is_standin = False
        for folder in (self.runtime, base / "state", base / "config"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @classmethod
    def standin(cls, base: Path, *words: str) -> Subject:
        """The stand-in with these words."""
        one = cls(base, [sys.executable, str(STANDIN), str(base / "run" / "haft"), *words])
        one._is_standin = True
        return one

    @classmethod
    def haftd(cls, base: Path, *words: str) -> Subject:
        """A real daemon."""
        return cls(base, [sys.executable, "-m", "haftd", "--log-format", "json", *words])

    def start(self, ground: Ground | None = None, before: Sequence[str] = ()) -> None:
        """Start the daemon without waiting, forked unless with `before`: a command prefix."""
        words = ["--tag", ground.tag] if ground is not None and self._is_standin else []
        cgroup = None if ground is None else ground.own
        with self.log.open("ab") as log:
            if not before and can_fork(self.env):
                if self._is_standin:
                    words = [*self.argv[2:], *words]
                    self.process = fork_standin(
                        words, env=self.env, errors=log.fileno(), cgroup=cgroup
                    )
                else:
                    self.process = fork_haftd(
                        self.argv[3:], env=self.env, cwd="/", output=log.fileno(), cgroup=cgroup
                    )
                return
            argv = [*before, *self.argv, *words]
            self.process = subprocess.Popen(
                argv if ground is None else ground.within(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self.env,
                cwd="/",
                start_new_session=True,
            )

    def start_traced(self, options: Sequence[str], ground: Ground | None = None) -> None:
        """Start the stand-in under `strace` with these options, from behind its imports on."""
        assert self._is_standin
        self.argv.append("--stopped")
        self.start(ground)
        assert self.process is not None
        pid = self.process.pid
        until(lambda: (stat := read_stat(pid)) is None or stat.state == "T", "the stand-in stops")
        self._tracer = subprocess.Popen(["strace", "-qq", *options, "-p", str(pid)])
        traced = f"TracerPid:\t{self._tracer.pid}\n"
        until(lambda: traced in Path(f"/proc/{pid}/status").read_text(), "the stand-in is traced")
        os.kill(pid, signal.SIGCONT)

    def wait_line(self) -> str:
        """Return the next line of the stand-in; empty once ended."""
        assert isinstance(self.process, subprocess.Popen | ForkedProcess)
        assert self.process.stdout is not None
        line: bytes = self.process.stdout.readline()
        return line.decode().strip()

    def kill9(self) -> None:
        """Kill the daemon as a crash would."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.wait()

    def wait(self, timeout_s: float = 30.0) -> int:
        """Wait for the end of the daemon."""
        assert self.process is not None
        status = self.process.wait(timeout_s)
        assert isinstance(self.process, subprocess.Popen | ForkedProcess)
        if self.process.stdout is not None:
            self.process.stdout.close()
        if self._tracer is not None:
            self._tracer.wait(timeout_s)
        return status

    def close(self) -> None:
        """End the daemon in any state."""
        if self.process is not None:
            self.kill9()

    def log_text(self) -> str:
        """Return the daemon's log."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def __enter__(self) -> Subject:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()


@contextlib.contextmanager
def short_folder() -> Iterator[Path]:
    """A folder with a short path."""
    folder = Path(tempfile.mkdtemp(prefix="haft-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
