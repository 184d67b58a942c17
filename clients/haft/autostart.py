"""Start haftd where none answers: concurrent clients get one daemon.

The daemon is detached, without descriptors of the client and with a service's environment (no
secret of a shell). A descendant of a daemon starts none: a second daemon would not know the first
one's handles. The start's output goes to `haftd.log` in the state folder, 0600.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from haft_protocol.ellipsis import shorten
from haft_protocol.paths import PathError, state_folder

from .daemon_socket import Socket, announced_socket, find_socket, is_chosen, open_daemon
from .errors import HaftError, NotRunning, StartFailed

T = TypeVar("T")

_STEP_S = 0.02
_ANOTHER_HOLDS_IT = 75
_TAG = "HAFT_HANDLE"
_TAG_BIT = 62
"""Mark of a daemon's descendants in the soft limit of real-time CPU time, without effect there."""
_LOG_BYTES = 4 << 20

_KEPT = frozenset(
    [
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "PATH",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TMPDIR",
        "LD_LIBRARY_PATH",
        "PYTHONPATH",
        "PYTHONHOME",
        "XDG_RUNTIME_DIR",
        "XDG_CONFIG_HOME",
        "XDG_STATE_HOME",
        "XDG_DATA_HOME",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_DIRS",
        "XDG_DATA_DIRS",
        "HAFT_SOCKET",
    ]
)

# The shell reports the daemon's exit status during the wait; when killed, it leaves the daemon to
# init. A foreground command of a shell ignores no signal.
_SHELL = '"$@" >&2; echo $?'


def start_and_connect(chosen: str | None, *, timeout: float = 5.0) -> Socket:
    """Start a daemon, unless another client does, and connect within `timeout` seconds; raise
    `StartFailed`."""
    if is_in_handle():
        raise StartFailed(
            f"haftd is not running: no daemon listens at {find_socket(chosen)}. A program that haftd runs "
            "does not start another one; run `haft` in your own terminal"
        )
    deadline = time.monotonic() + timeout
    with _log() as log:

        def attempt() -> Socket | None:
            is_first = _take_start_lock(log)
            # The previous holder of the lock may have started a daemon.
            connected = _try(chosen, deadline)
            return _start(chosen, deadline, log) if is_first and connected is None else connected

        connected = _repeat(attempt, deadline)
    if connected is None:
        raise StartFailed(
            f"haftd is being started but does not answer at {find_socket(chosen)}; see {log_file()}"
        )
    return connected


def is_in_handle() -> bool:
    """Return True below a daemon; the limit stays when a process clears its environment."""
    limit, _ = resource.getrlimit(resource.RLIMIT_RTTIME)
    return _TAG in os.environ or limit >> _TAG_BIT == 1


@contextmanager
def starts_barred(timeout: float = 10.0) -> Iterator[None]:
    """Keep clients from starting a daemon within the block: they wait, or connect to a running
    daemon.

    Raises `StartFailed` while another client starts one.
    """
    with _log() as log:
        if not _repeat(lambda: _take_start_lock(log), time.monotonic() + timeout):
            raise StartFailed("a client is just starting haftd; try again in a moment")
        yield


def log_file() -> str:
    try:
        return f"{state_folder(os.environ)}/haftd.log"
    except PathError as fault:
        raise HaftError(str(fault)) from fault


def daemon_command(path: str) -> list[str]:
    if sys.executable:
        # The haftd of the client's installation, not the one in PATH; -P: no module from the folder /.
        return [sys.executable, "-P", "-m", "haftd", "--socket", path]
    import shutil

    program = shutil.which("haftd")
    if program is None:
        raise StartFailed(
            "haftd is not running and there is no command `haftd` in PATH to start it"
        )
    return [program, "--socket", path]


def daemon_environment(env: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in env.items() if k in _KEPT or k.startswith("LC_")}


def _start(chosen: str | None, deadline: float, log: int) -> Socket:
    path = find_socket(chosen)
    if os.fstat(log).st_size > _LOG_BYTES:
        os.ftruncate(log, 0)
    begin = os.fstat(log).st_size
    # Opened again, as a duplicate would carry the lock.
    with open(log_file(), "ab") as output:
        shell = subprocess.Popen(
            ["/bin/sh", "-c", _SHELL, "haftd", *daemon_command(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=output,
            cwd="/",
            env=daemon_environment(os.environ),
            start_new_session=True,
        )
    shell_output = shell.stdout
    assert shell_output is not None
    is_held = False

    def watch() -> None:
        nonlocal is_held
        if is_held:
            _check_chosen(chosen, path)
            _sleep()
        elif select.select([shell_output], [], [], _STEP_S)[0]:
            status = shell_output.read().strip()
            if status != b"%d" % _ANOTHER_HOLDS_IT:
                raise StartFailed(_failure_text(log, begin, status.decode(errors="replace")))
            is_held = True

    try:
        connected = _repeat(lambda: _try(chosen, deadline), deadline, watch)
    finally:
        shell.kill()
        shell.wait()
        shell_output.close()
    if connected is not None:
        return connected
    held = " (another haftd holds the lock but does not answer)" if is_held else ""
    raise StartFailed(f"haftd was started but does not answer at {path}{held}; see {log_file()}")


def _sleep() -> None:
    time.sleep(_STEP_S)


def _repeat(
    attempt: Callable[[], T], deadline: float, pause: Callable[[], None] = _sleep
) -> T | None:
    """Call `attempt` until it returns a true value; None at the deadline, of the monotonic clock.

    Neither a daemon that begins to listen nor a lock that is given back sends an event.
    """
    while not (value := attempt()):
        if time.monotonic() >= deadline:
            return None
        pause()
    return value


def _try(chosen: str | None, deadline: float) -> Socket | None:
    try:
        return open_daemon(chosen, max(_STEP_S, deadline - time.monotonic()))
    except NotRunning:
        return None


def _check_chosen(chosen: str | None, path: str) -> None:
    """Raise `StartFailed` if the state folder's daemon serves another socket."""
    serves = announced_socket()
    if is_chosen(chosen) and serves is not None and serves != path:
        raise StartFailed(
            f"haftd already serves the state folder {state_folder(os.environ)} at {serves}, so none was "
            f"started at {path}; leave out --socket and HAFT_SOCKET, or set XDG_STATE_HOME as well"
        )


def _take_start_lock(log: int) -> bool:
    """Take the lock on starting a daemon, until the log is closed or the process ends."""
    try:
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _log() -> Iterator[int]:
    path = Path(log_file())
    try:
        path.parent.parent.mkdir(parents=True, exist_ok=True)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        log = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as fault:
        raise StartFailed(
            f"haftd is not running and cannot be started: its log {path} cannot be written: "
            f"{os.strerror(fault.errno or 0)}"
        ) from fault
    try:
        yield log
    finally:
        os.close(log)


def _failure_text(log: int, begin: int, status: str) -> str:
    tail = os.pread(log, 65_536, max(begin, os.fstat(log).st_size - 65_536))
    lines = [line.strip() for line in tail.decode(errors="replace").splitlines() if line.strip()]
    full = os.fstatvfs(log).f_bavail == 0
    words = _event(lines[-1]) if lines else f"nothing{', and its log has no room left' * full}"
    words = shorten("".join(c if c.isprintable() else " " for c in words), 300)
    return f"haftd could not be started (exit {status or 'unknown'}); its last message: {words}"


def _event(line: str) -> str:
    try:
        match json.loads(line):
            case {"event": str(event), "reason": str(reason)}:
                return f"{event}: {reason}"
            case {"event": str(event)}:
                return event
    except ValueError:
        pass
    return line
