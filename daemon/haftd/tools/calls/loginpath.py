"""PATH of the user's login shell, for a daemon with a minimal one.

The shell gets no terminal, no input, and only the environment that the caller passes.
"""

from __future__ import annotations

import os
import pwd
import select
import signal
import subprocess
import time
from collections.abc import Mapping

_BARE = frozenset(
    [
        "/usr/local/sbin",
        "/usr/local/bin",
        "/usr/sbin",
        "/usr/bin",
        "/sbin",
        "/bin",
        "/usr/games",
        "/usr/local/games",
        "/snap/bin",
        "/var/lib/snapd/snap/bin",
        "/usr/lib/wsl/lib",
    ]
)
_BEGIN, _END = "haft-path-begins:", ":haft-path-ends"
# Every login shell passes single-quoted text to sh unchanged.
_ASK = f"""exec /bin/sh -c 'echo "{_BEGIN}$PATH{_END}"'"""
_NO_SHELLS = ("nologin", "false", "true", "sync", "git-shell")
_MAX_BYTES = 256 * 1024
"""Of the shell's output, as start-up files may print."""


def is_bare(path: str | None) -> bool:
    """True if all folders are the system's defaults, and for an empty PATH."""
    return all(folder in _BARE for folder in (path or "").split(":") if folder)


def merge_paths(learnt: str, own: str | None) -> str:
    folders = [*learnt.split(":"), *(own or "").split(":")]
    return ":".join(dict.fromkeys(folder for folder in folders if folder.startswith("/")))


def find_login_shell(env: Mapping[str, str], uid: int) -> str:
    """Return the shell of SHELL, else of passwd(5), else /bin/sh."""
    if env.get("SHELL", "").startswith("/"):
        return env["SHELL"]
    try:
        return pwd.getpwuid(uid).pw_shell or "/bin/sh"
    except KeyError:
        return "/bin/sh"


def learn(env: Mapping[str, str], shell: str, timeout_s: float = 3.0) -> str | None:
    """Return the login shell's PATH with the PATH of `env` appended, or None if the shell prints none. Runs
    the shell, blocks up to `timeout_s`, and kills the processes of its group."""
    if not shell.startswith("/") or shell.rpartition("/")[2] in _NO_SHELLS:
        return None
    try:
        process = subprocess.Popen(
            [shell, "-l", "-c", _ASK],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(env),
            cwd="/",
            start_new_session=True,
        )
    except OSError:
        return None
    if process.stdout is None:
        raise AssertionError("the shell was started without a pipe for its output")
    try:
        text = _read(process.stdout.fileno(), time.monotonic() + timeout_s)
    finally:
        # The unreaped shell's pid is valid; start-up files may have left processes.
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        process.stdout.close()
        process.wait()
    begin, end = text.rfind(_BEGIN), text.rfind(_END)
    if begin < 0 or end < begin:
        return None
    return merge_paths(text[begin + len(_BEGIN) : end], env.get("PATH")) or None


def _read(fd: int, deadline: float) -> str:
    """Read up to the end mark or the deadline: processes of start-up files may hold the pipe open."""
    data = bytearray()
    while (left := deadline - time.monotonic()) > 0 and len(data) < _MAX_BYTES:
        if not select.select([fd], [], [], left)[0]:
            break
        chunk = os.read(fd, 65536)
        data += chunk
        if not chunk or _END.encode() in data[-len(chunk) - len(_END) :]:
            break
    return data.decode(errors="replace")
