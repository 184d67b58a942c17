"""Round trips: a request and its reply over each transport; a line to `cat` and back."""

from __future__ import annotations

import os
import pty
import subprocess
import tty
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.running_daemon import RunningDaemon

from . import wires
from .echo import server
from .interleaved_timer import Case, interleave
from .report import Section, timings

_LINE = b"six times seven makes forty-two\n"


def calls(daemon: RunningDaemon, folder: Path, seconds: float) -> Section:
    """`ping` and `fetch`, against loops that only echo."""
    with ExitStack() as stack, daemon.connect() as wire:
        raw_pid = stack.enter_context(server("raw", folder / "raw"))
        plain_pid = stack.enter_context(server("msgspec", folder / "msgspec"))
        wire.call("spawn", tool="run", id="small", args={"argv": ["cat"]}, wait="none")
        status = wire.call("daemon/status")
        web = wires.websocket(
            status["websocket"]["host"],
            status["websocket"]["port"],
            daemon.socket.with_name("token").read_text().strip(),
        )
        raw, plain = wires.raw(folder / "raw"), wires.lines(folder / "msgspec")
        lines, headers = wires.lines(daemon.socket), wires.headers(daemon.socket)
        for connected in (web, raw, plain, lines, headers):
            stack.enter_context(connected)
        ping, fetch = wires.message("ping"), wires.message("fetch", id="small")
        both = wires.message("ping")[:-1] + b"}"
        batch = b"[%b]" % b",".join([both] * 10)
        pid = daemon.pid
        baseline = _case("Python loop, lines, msgspec", plain, ping, plain_pid)
        cases = [
            _case("Python loop, raw bytes: the floor", raw, ping, raw_pid),
            baseline,
            _case("`ping`, lines", lines, ping, pid),
            _case("`ping`, headers", headers, ping, pid),
            _case("`ping`, WebSocket", web, ping, pid),
            _case("`fetch` of a small handle, lines", lines, fetch, pid),
            _case("`fetch`, headers", headers, fetch, pid),
            _case("`fetch`, WebSocket", web, fetch, pid),
            _case("a batch of ten `ping`, lines", lines, batch, pid),
        ]
        interleave(cases, rounds=40, seconds=seconds)
        wire.call("abort", id="small")
    return timings(
        "Round trips",
        "One blocking client. Baseline: a blocking Python loop on a Unix socket that decodes a typed "
        "envelope with msgspec and answers it. *processor*: what the server itself ran for one call.",
        cases,
        baseline,
    )


def _case(name: str, exchange: wires.Exchange, request: bytes, pid: int) -> Case:
    return Case(name, lambda: exchange(request), pid, per_round=100)


def lines_to_cat(daemon: RunningDaemon, folder: Path, seconds: float) -> Section:
    """A line to `cat` and back: `apply` that waits for output."""
    line = _LINE.decode().rstrip()
    with ExitStack() as stack, daemon.connect() as wire:
        piped, terminal = stack.enter_context(_piped_cat()), stack.enter_context(_terminal_cat())
        stack.enter_context(server("relay", folder / "relay"))
        relay = stack.enter_context(wires.raw(folder / "relay"))
        wire.call("spawn", tool="run", id="pipe", args={"argv": ["cat"]}, wait="none")
        silent = ["sh", "-c", "stty -echo && echo ready && exec cat"]
        wire.call(
            "spawn",
            tool="run",
            id="terminal",
            args={"argv": silent, "terminal": True},
            wait="pattern",
            pattern="ready",
        )
        shell = {"argv": ["sh"], "terminal": True}
        wire.call("spawn", tool="run", id="shell", args=shell, wait="input")
        exchange = stack.enter_context(wires.lines(daemon.socket))
        input_ = {"line": line}
        to_pipe = wires.message("apply", id="pipe", input=input_, wait="output")
        to_terminal = wires.message("apply", id="terminal", input=input_, wait="output")
        to_shell = wires.message(
            "apply", id="shell", input={"line": "echo $((6 * 7))"}, wait="input"
        )
        assert b"42" in exchange(to_shell)
        for request in (to_pipe, to_terminal):
            assert line.encode() in exchange(request)
        baseline = Case("Python loop that relays to a `cat`", lambda: relay(_LINE), per_round=40)
        cases = [
            Case("no server: a pipe to an own `cat`", piped, per_round=40),
            Case("no server: a pty to an own `cat`", terminal, per_round=40),
            baseline,
            Case("`apply` to a pipe", lambda: exchange(to_pipe), daemon.pid, 40),
            Case("`apply` to a terminal", lambda: exchange(to_terminal), daemon.pid, 40),
            Case(
                "a command to `sh`, until it reads again", lambda: exchange(to_shell), daemon.pid, 8
            ),
        ]
        interleave(cases, rounds=40, seconds=seconds)
        for name in ("pipe", "terminal", "shell"):
            wire.call("abort", id=name)
    return timings(
        "A line to `cat` and back",
        "`apply` with `wait` = `output`, echo off; the last with `wait` = `input`. Baseline: a blocking Python loop that takes bytes from a "
        "Unix socket, gives them to a `cat` and sends back what it says.",
        cases,
        baseline,
    )


@contextmanager
def _piped_cat() -> Iterator[Callable[[], None]]:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        yield _back_and_forth(process.stdin.fileno(), process.stdout.fileno())
        process.kill()


@contextmanager
def _terminal_cat() -> Iterator[Callable[[], None]]:
    master, slave = pty.openpty()
    tty.setcbreak(slave)  # no echo
    process = subprocess.Popen(["cat"], stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    try:
        yield _back_and_forth(master, master)
    finally:
        process.kill()
        process.wait()
        os.close(master)


def _back_and_forth(into: int, out: int) -> Callable[[], None]:
    def step() -> None:
        os.write(into, _LINE)
        size = 0
        while size < len(_LINE):
            size += len(os.read(out, 4096))

    return step
