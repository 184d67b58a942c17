"""A program on a terminal: every byte, every key, and the kernel's report of reads."""

from __future__ import annotations

import sys
import threading
import time

import pytest
import trio

from haft_protocol.states import Exit
from haftd.runtimes.base import Call, Input, InputRefused
from haftd.runtimes.terminal import library
from haftd.runtimes.terminal.runtime import TerminalRuntime
from haftd.testing import Performance, Recorder, perform
from tests.patience import PATIENCE_S
from tests.terminations import termination

from . import kit

pty = TerminalRuntime()

RAW_READER = """
import os, sys, tty, termios
old = termios.tcgetattr(0)
tty.setraw(0)
if "--paste" in sys.argv:
    os.write(1, b"\\x1b[?2004h")
if "--app" in sys.argv:
    os.write(1, b"\\x1b[?1h")
os.write(1, b"READY\\r\\n")
got = []
while not got or b"q" not in got[-1]:
    got.append(os.read(0, 4096))
termios.tcsetattr(0, termios.TCSADRAIN, old)
print("GOT", got)
"""


async def run(call: Call) -> Recorder:
    """Run `call` to its end."""
    port = Recorder()
    with trio.fail_after(PATIENCE_S):
        await pty.run(call, port)
    return port


async def started(nursery: trio.Nursery, call: Call, ready: bytes) -> Performance:
    """Start `call` and wait for `ready`."""
    performance = await perform(nursery, pty, call)
    await performance.port.until(lambda: ready in performance.port.output)
    return performance


def shell(script: str, **fields: object) -> Call:
    return kit.shell(script, terminal=True, **fields)


def reader(*flags: str) -> Call:
    """Return a program that reads single characters and reports its reads."""
    return kit.call(sys.executable, "-I", "-c", RAW_READER, *flags, terminal=True)


def reads(port: Recorder) -> list[bytes]:
    """Return the reads that the raw reader reports."""
    line = port.output.decode().split("GOT ", 1)[1].strip()
    found = eval(line)
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("rounds", [5, pytest.param(25, marks=pytest.mark.soak)])
async def test_RB_005_nothing_is_lost_at_the_end(rounds: int) -> None:
    script = "import sys; sys.stdout.write('hello' * 4096)"
    for _ in range(rounds):
        port = await run(kit.python(script, terminal=True))
        assert port.output == b"hello" * 4096
        assert port.end == termination(code=0)
    expected = "".join(f"{n}\r\n" for n in range(1, 10_001)).encode()
    for _ in range(rounds):
        port = await run(kit.call("seq", "10000", terminal=True))
        assert port.output == expected


@pytest.mark.soak
async def test_RB_005_nothing_is_lost_at_the_end_of_many_at_once() -> None:
    expected = "".join(f"{n}\r\n" for n in range(1, 10_001)).encode()

    async def one() -> None:
        port = await run(kit.call("seq", "10000", terminal=True))
        assert port.output == expected

    for _ in range(100):
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(one)


async def test_RB_001_a_child_that_holds_the_terminal_does_not_delay_the_end() -> None:
    began = time.monotonic()
    port = await run(shell("sleep 60 & exit 1"))
    assert time.monotonic() - began < 10
    assert port.end is not None and port.end.exit == Exit(code=1)


async def test_a_signal_is_distinguished_from_an_exit_code() -> None:
    assert (await run(shell("kill -SEGV $$"))).end == termination(signal="SEGV")
    assert (await run(shell("exit 7"))).end == termination(code=7)


async def test_RB_041_the_size_is_set_from_the_start_and_follows_resizes() -> None:
    port = await run(shell("stty size; tput cols", rows=40, cols=200))
    assert port.output == b"40 200\r\n200\r\n"
    assert (await run(shell("stty size"))).output == b"24 80\r\n"
    script = "trap 'stty size; exit' WINCH; echo READY; while :; do sleep 0.05; done"
    async with trio.open_nursery() as nursery:
        performance = await started(nursery, shell(script), b"READY")
        performance.control.write(Input("resize", rows=33, cols=101))
        await performance.finish()
        shot = performance.control.screen()
        assert shot is not None and (shot.rows, shot.cols, len(shot.lines)) == (33, 101, 33)
        with pytest.raises(InputRefused, match="ended"):
            performance.control.write(Input("resize", rows=1, cols=1))
    assert b"33 101" in performance.port.output


async def test_signals_go_to_the_foreground() -> None:
    async with trio.open_nursery() as nursery:
        call = kit.call("bash", "--norc", "-i", terminal=True, env={"PS1": "$ "})
        performance = await started(nursery, call, b"$ ")
        performance.control.write(Input("line", "sh -c 'echo U''P; exec sleep 1000'"))
        await performance.port.until(lambda: b"UP" in performance.port.output)
        performance.control.write(Input("signal", signal="INT"))
        performance.control.write(Input("line", "echo alive"))
        await performance.port.until(lambda: b"\ralive" in performance.port.output)
        performance.control.write(Input("line", "exit 4"))
        await performance.finish()
    assert performance.port.end == termination(code=4)


async def test_RB_020_the_end_of_a_shell_is_reported_at_once() -> None:
    async with trio.open_nursery() as nursery:
        call = kit.call("bash", "--norc", terminal=True, env={"PS1": "$ "})
        performance = await started(nursery, call, b"$ ")
        performance.control.write(Input("line", "set -euo pipefail; false"))
        await performance.finish()
        assert performance.port.end == termination(code=1)
        with pytest.raises(InputRefused, match="has ended"):
            performance.control.write(Input("line", "echo hi"))


# -- the screen


async def test_queries_are_answered_to_the_program_and_not_shown() -> None:
    script = (
        "import os, tty, termios\n"
        "old = termios.tcgetattr(0); tty.setraw(0)\n"
        "os.write(1, b'ab\\x1b[6n'); got = os.read(0, 100)\n"
        "termios.tcsetattr(0, termios.TCSADRAIN, old)\n"
        "print('GOT', repr(got))\n"
    )
    port = await run(kit.python(script, terminal=True))
    assert port.output == b"ab\x1b[6nGOT b'\\x1b[1;3R'\r\n"


async def test_an_answer_that_would_be_echoed_is_not_given() -> None:
    async with trio.open_nursery() as nursery:
        script = "printf '\\033[6n'; echo READY; read a; echo got:$a"
        performance = await started(nursery, shell(script), b"READY\r\n")
        assert performance.control.screen() is not None
        performance.control.write(Input("line", "mine"))
        await performance.finish()
    assert performance.port.output == b"\x1b[6nREADY\r\nmine\r\ngot:mine\r\n"


async def test_the_screen_stays_readable_after_the_end() -> None:
    async with trio.open_nursery() as nursery:
        script = "printf 'one\\n\\033[31mtwo\\033[0m'; read a; printf 'three'"
        performance = await started(nursery, shell(script, rows=5, cols=20), b"two\x1b[0m")
        shot = performance.control.screen()
        assert shot is not None
        assert shot.lines == ("one", "two", "", "", "")
        assert shot.cursor == (1, 3)
        performance.control.write(Input("resize", rows=6, cols=30))
        other = performance.control.screen()
        assert other is not None
        assert (other.rows, other.cols, len(other.lines)) == (6, 30, 6)
        performance.control.write(Input("line", ""))
        await performance.finish()
        last = performance.control.screen()
        assert last is not None
        assert last.lines[2] == "three"
        assert last.revision > other.revision > shot.revision


async def test_the_first_terminal_loads_the_library_in_a_thread_for_its_last_screen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_the_loop = []

    def watched() -> None:
        in_the_loop.append(threading.current_thread() is threading.main_thread())

    monkeypatch.setattr(library, "_core", None)
    monkeypatch.setattr(library, "_has_begun", False)
    monkeypatch.setattr(library, "_is_warm", False)
    monkeypatch.setattr(library, "_first_uses", [*library._first_uses, watched])
    for _ in range(2):
        async with trio.open_nursery() as nursery:
            performance = await perform(nursery, pty, shell("printf last"))
            await performance.finish()
        shot = performance.control.screen()
        assert shot is not None
        assert shot.lines[0] == "last"
    assert in_the_loop == [False]


async def test_a_terminal_without_output_loads_nothing_for_its_last_screen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(library, "is_loaded", lambda: False)
    monkeypatch.setattr(library, "is_loading", lambda: True)
    monkeypatch.setattr(library, "load", lambda: pytest.fail("loaded for nothing"))
    async with trio.open_nursery() as nursery:
        performance = await perform(nursery, pty, shell("exit 3"))
        await performance.finish()
    assert performance.control.screen() is None


async def test_a_full_screen_program_is_drawn() -> None:
    async with trio.open_nursery() as nursery:
        call = kit.call("sh", "-c", "seq 100 | less; echo over", terminal=True, env={"LESS": ""})
        performance = await started(nursery, call, b"\x1b[?1049h")
        await performance.port.until(lambda: b"23" in performance.port.output)
        await performance.port.until(lambda: performance.port.output.rstrip().endswith(b"K"))
        shot = performance.control.screen()
        assert shot is not None
        assert shot.alt
        assert shot.lines[:3] == ("1", "2", "3")
        performance.control.write(Input("keys", keys=("NPage",)))
        await performance.port.until(lambda: performance.control.screen().lines[0] == "24")  # type: ignore[union-attr]
        performance.control.write(Input("keys", keys=("q",)))
        await performance.finish()
    assert b"over" in performance.port.output


async def test_terminals_leave_nothing_open() -> None:
    await run(shell("true"))
    before = kit.fds()
    calls = [shell("true") for _ in range(60)]
    async with trio.open_nursery() as nursery:
        for call in calls:
            nursery.start_soon(run, call)
    # The first terminal that is seen hung up makes the loop's epoll.
    assert kit.fds() <= before + 1


async def test_an_abort_ends_a_shell_with_all_its_jobs() -> None:
    async with trio.open_nursery() as nursery:
        call = kit.call("bash", "--norc", "-i", terminal=True, env={"PS1": "$ "})
        performance = await started(nursery, call, b"$ ")
        for line in (
            "sleep 1000 &",
            "(trap '' TERM HUP; sleep 1001) &",
            "setsid sleep 1002 &",
            "echo go",
        ):
            performance.control.write(Input("line", line))
        await performance.port.until(lambda: b"\rgo" in performance.port.output)
        performance.port.grace_s = 0.3
        performance.scope.cancel()
        await performance.finish()
    assert kit.lives(performance.call) == []
