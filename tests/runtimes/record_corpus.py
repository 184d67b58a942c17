"""Record the corpus: the output of real programs on a terminal, and tmux's screen of the same bytes.

    python -m tests.runtimes.record_corpus [NAME …]         record again, and ask tmux
    python -m tests.runtimes.record_corpus --tmux [NAME …]  ask tmux only

A recording is made in an empty folder with a neutral name, as the user nobody, on a host called
demo, with its own environment: nothing of the machine appears. Root arranges that; other users
must check their recordings. NAME.bytes has the bytes from the master of the terminal. NAME.screen
is a line of facts (size, cursor, alternate screen, title), then the rows of `tmux capture-pane
-p`. index.json holds the sizes, and the byte of each change. Tests use only `ask_tmux`, where
tmux is installed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .corpus_sessions import SESSIONS, Resize, Session

FOLDER = Path(__file__).with_name("corpus")
TMUX = "tmux 3.3a"
"""What the captures were made with; another version draws some rows otherwise."""

_INDEX = FOLDER / "index.json"
_PLACE = Path("/tmp/demo")
_STILL_S = 0.35
_LONGEST_S = 15.0
_NOBODY = 65534


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recording; `resizes` are (byte, rows, cols)."""

    name: str
    rows: int
    cols: int
    data: bytes = field(repr=False)
    resizes: tuple[tuple[int, int, int], ...] = ()

    @property
    def screen(self) -> str:
        """Return the screen of tmux at the time of the recording."""
        return (FOLDER / f"{self.name}.screen").read_text()

    def parts(self) -> list[tuple[int, int, bytes]]:
        """The bytes of each size: rows, columns, bytes."""
        marks = [(0, self.rows, self.cols), *self.resizes]
        ends = [mark[0] for mark in marks[1:]] + [len(self.data)]
        return [
            (rows, cols, self.data[start:end])
            for (start, rows, cols), end in zip(marks, ends, strict=True)
        ]


def read_all() -> list[Recorded]:
    """Every recording, by name."""
    index = json.loads(_INDEX.read_text())
    return [
        Recorded(
            name,
            one["rows"],
            one["cols"],
            (FOLDER / f"{name}.bytes").read_bytes(),
            tuple((at, rows, cols) for at, rows, cols in one.get("resizes", [])),
        )
        for name, one in sorted(index.items())
    ]


def ask_tmux(recorded: Recorded) -> str:
    """Return the current tmux's screen, in the form of NAME.screen."""
    with tempfile.TemporaryDirectory() as folder, Tmux(Path(folder)) as tmux:
        last: tuple[int, int] = (recorded.rows, recorded.cols)
        for number, (rows, cols, part) in enumerate(recorded.parts()):
            (Path(folder) / f"part{number}").write_bytes(part)
            last = (rows, cols)
        parts = range(len(recorded.parts()))
        steps = [f"cat part{number}; touch done{number}; " for number in parts]
        waits = "until [ -e go ]; do sleep 0.01; done; rm go; ".join(steps)
        tmux(
            "new-session", "-d", "-x", str(recorded.cols), "-y", str(recorded.rows), "-c", folder,
            f"cd {folder}; stty raw -echo; {waits} sleep 1000",
        )  # fmt: skip
        for number, (rows, cols, _) in enumerate(recorded.parts()):
            if number:
                tmux("resize-window", "-x", str(cols), "-y", str(rows))
                (Path(folder) / "go").touch()
            _until((Path(folder) / f"done{number}").exists)
            tmux.settle()
        facts = tmux(
            "display-message", "-p", "#{cursor_y},#{cursor_x} #{alternate_on} #{pane_title}"
        ).rstrip("\n")
        cursor, alternate, title = facts.split(" ", 2)
        shown = tmux("capture-pane", "-p")
    # A title that no program has set is the name of the host.
    title = "" if title == os.uname().nodename else title
    rows, cols = last
    return f"{rows}x{cols} cursor={cursor} alt={alternate} title={title}\n{shown}"


class Tmux:
    """A private tmux server, whose only window is the recording's."""

    def __init__(self, folder: Path) -> None:
        self._socket = str(folder / "socket")
        self._config = folder / "config"
        self._config.write_text(
            "set -g status off\nset -g remain-on-exit on\nset -g history-limit 2000\n"
            "set -g default-terminal xterm-256color\n"
        )

    def __call__(self, *command: str) -> str:
        argv = ["tmux", "-u", "-S", self._socket, "-f", str(self._config), *command]
        env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": "/", "SHELL": "/bin/sh"}
        return subprocess.run(argv, check=True, capture_output=True, text=True, env=env).stdout

    def refuses(self, *command: str) -> bool:
        """Run a command that may be refused; return true if refused."""
        try:
            self(*command)
        except subprocess.CalledProcessError:
            return True
        return False

    def settle(self) -> None:
        """Wait until all output is drawn."""
        before = None
        for _ in range(100):
            shown = self("capture-pane", "-p"), self("display-message", "-p", "#{cursor_x}")
            if shown == before:
                return
            before = shown
            time.sleep(0.05)

    def __enter__(self) -> Tmux:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            self("kill-server")


def _until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + _LONGEST_S
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError("tmux does not show it")
        time.sleep(0.01)


def _record(session: Session) -> Recorded:
    """Run a session in a fresh folder."""
    shutil.rmtree(_PLACE, ignore_errors=True)
    _PLACE.mkdir()
    env = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(_PLACE),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "PS1": "$ ",
        "PAGER": "less",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
        "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
        "LINES": "",
        "COLUMNS": "",
    }
    env = {key: value for key, value in env.items() if value}
    setup = ["bash", "-euc", session.setup]
    subprocess.run(setup, check=True, cwd=_PLACE, env=env, capture_output=True)
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(_PLACE)
        _set_size(0, session.rows, session.cols)
        os.execvpe(session.argv[0], list(session.argv), env)
    _set_size(master, session.rows, session.cols)
    data = bytearray()
    resizes: list[tuple[int, int, int]] = []
    try:
        _read(master, data)
        for step in session.steps:
            if isinstance(step, Resize):
                resizes.append((len(data), step.rows, step.cols))
                _set_size(master, step.rows, step.cols)
            else:
                os.write(master, step.encode())
            _read(master, data)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.close(master)
        os.waitpid(pid, 0)
    return Recorded(session.name, session.rows, session.cols, bytes(data), tuple(resizes))


def _set_size(fd: int, rows: int, cols: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


def _read(master: int, data: bytearray) -> None:
    """Read until the program has been still for a while, as a user would."""
    end = time.monotonic() + _LONGEST_S
    while time.monotonic() < end:
        ready, _, _ = select.select([master], [], [], _STILL_S)
        if not ready:
            return
        try:
            read = os.read(master, 65536)
        except OSError:
            return
        if not read:
            return
        data += read


def _neutral(argv: list[str]) -> None:
    """As root: run again as the user nobody, on a host with another name."""
    if os.geteuid() != 0 or "HAFT_NEUTRAL" in os.environ:
        return
    os.environ["HAFT_NEUTRAL"] = "1"
    me = f"{sys.executable} -m tests.runtimes.record_corpus --bytes-to"
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, _NOBODY, _NOBODY)
        drop = f"setpriv --reuid {_NOBODY} --regid {_NOBODY} --clear-groups"
        script = f"hostname demo; exec {drop} {me} {folder} {' '.join(argv)}"
        subprocess.run(["unshare", "--uts", "sh", "-c", script], check=True)
        for file in Path(folder).iterdir():
            shutil.copyfile(file, FOLDER / file.name)


def _main(argv: list[str]) -> None:
    to = FOLDER
    if argv[:1] == ["--bytes-to"]:
        to = Path(argv[1])
        argv = argv[2:]
    ask_only = argv[:1] == ["--tmux"]
    names = set(argv[1:] if ask_only else argv) or {session.name for session in SESSIONS}
    if not ask_only and to is FOLDER and os.geteuid() == 0:
        _neutral(argv)
    elif not ask_only:
        for session in SESSIONS:
            if session.name in names:
                recorded = _record(session)
                (to / f"{session.name}.bytes").write_bytes(recorded.data)
                one: dict[str, Any] = {"rows": recorded.rows, "cols": recorded.cols}
                if recorded.resizes:
                    one["resizes"] = [list(resize) for resize in recorded.resizes]
                (to / f"{session.name}.json").write_text(json.dumps(one))
                print(session.name, len(recorded.data), file=sys.stderr)
    if to is not FOLDER:
        return
    index = json.loads(_INDEX.read_text()) if _INDEX.exists() else {}
    for path in FOLDER.glob("*.json"):
        if path != _INDEX:
            index[path.stem] = json.loads(path.read_text())
            path.unlink()
    rows = (f'  "{name}": {json.dumps(one)}' for name, one in sorted(index.items()))
    _INDEX.write_text("{\n" + ",\n".join(rows) + "\n}\n")
    for recorded in read_all():
        if recorded.name in names:
            (FOLDER / f"{recorded.name}.screen").write_text(ask_tmux(recorded))


if __name__ == "__main__":
    _main(sys.argv[1:])
