"""Counts that do not depend on the machine: imported modules, opened files, system calls."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tests.running_daemon import RunningDaemon

from . import wires
from .report import Section

_SETTLED_S = 1.0
"""Time for what follows the starts: the second look for leftovers, and the end of a child at its gate."""
_TIMES = 50
_ROW = re.compile(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$")
_SHOWN = 5


def commands(daemon: RunningDaemon, folder: Path) -> Section:
    """Count the work of starting each of some programs, under `strace` and with `-X importtime`."""
    haft = [sys.executable, str(Path(sys.executable).with_name("haft"))]
    programs = {
        "`python -c pass`": [sys.executable, "-c", "pass"],
        "`python -c 'import re'`, as in the script that pip writes": [
            sys.executable,
            "-c",
            "import re",
        ],
        "`haft ps`": [*haft, "ps"],
        "`haft fetch`": [*haft, "fetch", "counted"],
        "`haft status`": [*haft, "status"],
    }
    section = Section(
        "Counts of a command",
        "Modules by `-X importtime`, the others by `strace -f -c`.",
        ["", "modules", "opened files", "system calls"],
    )
    with daemon.connect() as wire:
        wire.call("spawn", tool="run", id="counted", args={"argv": ["cat"]}, wait="none")
        for name, argv in programs.items():
            calls = _traced(argv, daemon.env)
            shown = subprocess.run(
                [argv[0], "-X", "importtime", *argv[1:]],
                env=daemon.env,
                check=True,
                capture_output=True,
                text=True,
            ).stderr
            modules = shown.count("import time:") - 1
            row = [name, str(modules), str(calls.get("openat", 0)), str(sum(calls.values()))]
            section.rows.append(row)
        wire.call("abort", id="counted")
    section.rows.append(
        ["`haftd`, before its first answer", str(_modules_of_a_start(folder)), "", ""]
    )
    return section


def _modules_of_a_start(folder: Path) -> int:
    """Return the number of imports of both programs of a start."""
    fresh = RunningDaemon(folder / "counted", env={"PYTHONPROFILEIMPORTTIME": "1"}).start()
    try:
        with fresh.connect() as wire:
            wire.call("ping")
        return fresh.log_text().count("import time:") - 2
    finally:
        fresh.close()


def operations(daemon: RunningDaemon, folder: Path) -> Section:
    """Count the daemon's system calls for one operation, by `strace -c` on the running daemon."""
    section = Section(
        "System calls of the daemon for one operation",
        f"By `strace -c` on its main thread, over {_TIMES} of each, one after the other; in the order of their number.",
        ["", "system calls", "the most frequent"],
    )
    with ExitStack() as stack, daemon.connect() as wire:
        wire.call("spawn", tool="run", id="pipe", args={"argv": ["cat"]}, wait="none")
        tty = {"argv": ["sh", "-c", "stty -echo; exec cat"], "terminal": True}
        wire.call("spawn", tool="run", id="tty", args=tty, wait="none")
        bash = {"argv": ["env", "PS1=$ ", "bash", "--norc", "--noediting"], "terminal": True}
        wire.call("spawn", tool="run", id="bash", args=bash, wait="input")
        wire.call("fetch", id="bash", view="screen")  # the library of terminals is loaded
        text = folder / "counted.txt"
        text.write_bytes(b"the quick brown fox jumps over the lazy dog 0123456789\n" * 18_182)
        lines = stack.enter_context(wires.lines(daemon.socket))
        burst = stack.enter_context(socket.socket(socket.AF_UNIX))
        burst.connect(str(daemon.socket))
        many = (wires.message("ping") + b"\n") * 64
        number = iter(range(10**6))

        def apply(handle: str) -> None:
            wire.call("apply", id=handle, input={"line": "x"}, wait="output")

        def command(line: str) -> None:
            wire.call("apply", id="bash", input={"line": line}, view="tail", max_bytes=100)

        def spawn(terminal: bool) -> None:
            args = {"argv": ["true"], "terminal": terminal}
            wire.call("spawn", tool="run", id=f"t{next(number)}", args=args, wait="stopped")

        def pipelined() -> None:
            burst.sendall(many)
            missing = 64
            while missing > 0:
                missing -= burst.recv(1 << 20).count(b"\n")

        cases: dict[str, Callable[[], object]] = {
            "`ping`": lambda: lines(wires.message("ping")),
            "64 × `ping` at once": pipelined,
            "`fetch` of a small handle": lambda: lines(wires.message("fetch", id="pipe")),
            "`apply` of a line to `cat` on a pipe": lambda: apply("pipe"),
            "`apply` of a line to `cat` on a terminal": lambda: apply("tty"),
            "`apply` of a command to `bash`, until it reads again": lambda: command("echo hi"),
            "the same, of a command that prints 1 MB": lambda: command(f"cat {text}"),
            "`spawn` of `true` on a pipe, until stopped": lambda: spawn(False),
            "`spawn` of `true` on a terminal, until stopped": lambda: spawn(True),
        }
        time.sleep(_SETTLED_S)
        for name, step in cases.items():
            step()
            calls = _attached(daemon.pid, step)
            most = sorted(calls.items(), key=lambda item: -item[1])[:_SHOWN]
            shown = ", ".join(f"{call} {count / _TIMES:.2g}" for call, count in most)
            section.rows.append([name, f"{sum(calls.values()) / _TIMES:.1f}", shown])
        for id in ("pipe", "tty", "bash"):
            wire.call("abort", id=id)
    return section


def _traced(argv: list[str], env: dict[str, str]) -> dict[str, int]:
    """Return the number of each system call of a program."""
    with tempfile.NamedTemporaryFile() as log:
        subprocess.run(
            ["strace", "-f", "-c", "-o", log.name, *argv],
            env=env,
            check=True,
            capture_output=True,
        )
        return _parsed(Path(log.name).read_text())


def _attached(pid: int, step: Callable[[], object]) -> dict[str, int]:
    """Return the number of each system call of a running process during some steps."""
    with tempfile.NamedTemporaryFile() as log:
        tracer = subprocess.Popen(
            ["strace", "-c", "-p", str(pid), "-o", log.name], stderr=subprocess.PIPE
        )
        assert tracer.stderr is not None
        tracer.stderr.readline()  # "Process … attached"
        for _ in range(_TIMES):
            step()
        tracer.send_signal(signal.SIGINT)
        tracer.communicate()
        return _parsed(Path(log.name).read_text())


def _parsed(summary: str) -> dict[str, int]:
    rows = (_ROW.match(line) for line in summary.splitlines())
    return {row[2]: int(row[1]) for row in rows if row is not None and row[2] != "total"}
