"""A program's wait for input, as the kernel reports, of real programs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from haftd.host import pump
from haftd.host.input_state import read_state
from haftd.host.input_state.read_state import ReadState, read_terminal_state
from haftd.host.tty import pseudo_terminal
from tests.host.launch_helpers import status_of
from tests.host.readings import needs, python, stage, syscall_of

# -- real programs ----------------------------------------------------------------------------

WAITING: dict[str, tuple[tuple[str, ...], str, str]] = {
    "bash": (("bash", "--norc", "-i"), "key", r"\$ "),
    "dash": (("dash", "-i"), "line", r"\$ "),
    "python": ((sys.executable, "-q"), "key", ">>> "),
    "python without readline": (python('input("name? ")'), "line", r"name\? "),
    "cat": (("cat",), "line", ""),
    "less": (("less", "/etc/passwd"), "key", "root"),
    "vim": (("vim", "-u", "NONE", "-i", "NONE"), "key", "~"),
    "sqlite3": (("sqlite3", "-interactive"), "key", "sqlite> "),
    "gdb": (("gdb", "-q", "-nx"), "key", r"\(gdb\) "),
    "node": (("node",), "key", "> "),
    "bc": (("bc", "-q"), "key", ""),
    "ssh-keygen": (("ssh-keygen", "-t", "ed25519"), "line", r"\): "),
    "ssh-keygen's passphrase": (("ssh-keygen", "-t", "ed25519", "-f", "key"), "secret", r"\): "),
    "getpass": (python("import getpass", "getpass.getpass()"), "secret", "Password: "),
    "perl": (("perl", "-e", "$| = 1; print 'x: '; <STDIN>"), "line", "x: "),
    "read": (("bash", "-c", "read -p 'x: ' x"), "line", "x: "),
    "read -s": (("bash", "-c", "read -sp 'x: ' x"), "secret", "x: "),
    "read -n 1": (("bash", "-c", "read -n 1 -p 'x: ' x"), "key", "x: "),
    "read -t": (("bash", "-c", "read -t 1000 -p 'x: ' x"), "line", "x: "),
    "top": (("top",), "key", "PID"),
}


@pytest.mark.parametrize("name", WAITING)
async def test_a_waiting_program_reads(name: str, tmp_path: Path) -> None:
    argv, kind, says = WAITING[name]
    async with stage(*argv, cwd=tmp_path) as on:
        now = await on.until(says=says)
        assert (now.kind, now.certain, now.relays) == (kind, True, False)
        assert now.pids == (on.it.pid,)


BUSY: dict[str, tuple[tuple[str, ...], str]] = {
    "sleep": (("bash", "-c", "echo up; exec sleep 1000"), "up"),
    "a shell that waits for its child": (("bash", "-c", "echo 'go? '; sleep 1000; :"), "go"),
    "a question and a sleep": (
        python("import time", "print('Password: ', end='', flush=True)", "time.sleep(1000)"),
        "Password: ",
    ),
    "a question and a computation": (
        python("print('[y/n]? ', end='', flush=True)", "while True: pass"),
        r"\[y/n\]\? ",
    ),
    "a question and a wait for something else": (
        python("import os", "r, w = os.pipe()", "print('> ', flush=True)", "os.read(r, 1)"),
        "> ",
    ),
    "a poll for urgent data only": (
        python(
            "import select, os",
            "p = select.poll()",
            "p.register(0, select.POLLPRI)",
            "print('> ', flush=True)",
            "p.poll()",
        ),
        "> ",
    ),
    "an epoll for urgent data only": (
        python(
            "import select",
            "e = select.epoll()",
            "e.register(0, select.EPOLLPRI)",
            "print('> ', flush=True)",
            "e.poll()",
        ),
        "> ",
    ),
    "yes": (("bash", "-c", "echo '$ '; yes > /dev/null"), r"\$ "),
    "perl's sleep": (("perl", "-e", "$| = 1; print '? '; select(undef, undef, undef, 99)"), r"\? "),
}


@pytest.mark.parametrize("name", BUSY)
async def test_a_busy_program_is_busy_whatever_it_prints(name: str) -> None:
    argv, says = BUSY[name]
    async with stage(*argv) as on:
        await on.until(lambda now: now.state == "busy", says)
        await on.stays("busy")


async def test_git_add_patch_reads_at_its_prompt(tmp_path: Path) -> None:
    needs("git")
    env = {
        "GIT_PAGER": "cat",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "PATH": os.environ["PATH"],
    }
    (tmp_path / "file").write_text("one\n")
    for words in (("init", "-q"), ("add", "file")):
        subprocess.run(("git", *words), cwd=tmp_path, env=env, check=True)
    (tmp_path / "file").write_text("two\n")
    async with stage("git", "add", "--patch", cwd=tmp_path, env=env) as on:
        now = await on.until(says=r"Stage this hunk.*\? ")
        assert (now.kind, now.certain) == ("line", True)
        on.type("?\n")
        await on.until(says=r"help(.|\n)*Stage this hunk.*\? ")


async def test_a_shell_reads_again_after_its_job() -> None:
    async with stage("bash", "--norc", "-i") as on:
        await on.until()
        on.type("sleep 1000 && echo no\r")
        now = await on.until(lambda now: now.state == "busy" and bool(now.pids))
        while now.pids == (on.it.pid,):  # not started yet
            now = on.look()
            await trio.sleep(0.002)
        await on.stays("busy")
        on.type("\x03")
        assert (await on.until(says=r"\$ ")).pids == (on.it.pid,)


# -- earlier input ----------------------------------------------------------------------------


async def test_a_reading_program_has_consumed_earlier_input() -> None:
    """The law that a caller builds on: after an input, `reads` is a new wait."""
    async with stage("cat") as on:
        await on.until()
        for turn in range(300):
            on.type(f"line {turn}\n")
            while read_terminal_state(on.master, on.slave, (on.it.pid,)).state != "reads":
                await trio.lowlevel.checkpoint()
            on.look()
            assert on.printed == b"line %d\r\n" % turn * 2


async def test_a_reading_line_editor_has_executed_earlier_input() -> None:
    async with stage("bash", "--norc", "-i") as on:
        await on.until()
        for turn in range(40):
            on.type(f"echo $(({turn} + 1000))\r")
            while read_terminal_state(on.master, on.slave, (on.it.pid,)).state != "reads":
                await trio.lowlevel.checkpoint()
            on.look()
            assert b"%d\r\n" % (turn + 1000) in on.printed and on.printed.endswith(b"$ ")


async def test_with_unread_input_no_process_reads() -> None:
    lines = (
        "import select, os",
        "e = select.epoll()",
        "e.register(0, select.EPOLLIN | select.EPOLLET)",
        "while True: e.poll(); print('woken', flush=True)",
    )
    async with stage(*python(*lines)) as on:
        await on.until()
        on.type("never read\n")
        await on.until(lambda now: now.state == "busy", "woken")
        await on.stays("busy")


async def test_an_unterminated_line_changes_nothing() -> None:
    async with stage("cat") as on:
        await on.until()
        on.type("half a li")
        await on.stays("reads")
        on.type("ne\n")
        await on.until(says="ne\r\nhalf a line\r\n")


async def test_input_shorter_than_the_read_changes_nothing() -> None:
    lines = (
        "import os, termios",
        "a = termios.tcgetattr(0)",
        "a[3] &= ~termios.ICANON",
        "a[6][termios.VMIN] = 3",
        "termios.tcsetattr(0, termios.TCSANOW, a)",
        "print('up', flush=True)",
        "while True: print(os.read(0, 10), flush=True)",
    )
    async with stage(*python(*lines)) as on:
        assert (await on.until(says="up")).kind == "key"
        on.type("ab")
        await on.until()  # takes the bytes, and goes on waiting within the read
        await on.stays("reads")
        on.type("c")
        await on.until(says="b'abc'")


# -- uncounted processes ----------------------------------------------------------------------


async def test_a_stopped_process_does_not_read_and_a_continued_one_does() -> None:
    async with stage("cat") as on:
        await on.until()
        os.kill(on.it.pid, signal.SIGSTOP)
        await on.until(lambda now: now.state == "busy")
        await on.stays("busy")
        os.kill(on.it.pid, signal.SIGCONT)
        await on.until()


async def test_a_continued_poll_reads() -> None:
    """Its call is restart_syscall then, where the machine has poll."""
    line = "p = select.poll(); p.register(0, 1); p.poll(100000)"
    async with stage(*python("import select", line)) as on:
        await on.until()
        os.kill(on.it.pid, signal.SIGSTOP)
        await on.until(lambda now: now.state == "busy")
        os.kill(on.it.pid, signal.SIGCONT)
        await on.until()
        assert on.look().within_ms == 100_000


async def test_a_continued_sleep_is_busy() -> None:
    async with stage("bash", "-c", "echo up; exec sleep 1000") as on:
        await on.until(lambda now: now.state == "busy", "up")
        os.kill(on.it.pid, signal.SIGSTOP)
        os.kill(on.it.pid, signal.SIGCONT)
        await on.stays("busy")


async def test_a_continued_lock_wait_is_not_mistaken_for_a_poll() -> None:
    """It shows restart_syscall as well, and here its arguments would make a poll of the
    terminal."""
    lines = (
        "import ctypes",
        "lock = (ctypes.c_int * 256)(*[0, 1] * 128)",
        "until = (ctypes.c_long * 2)(1000, 0)",
        "print('up', flush=True)",
        "ctypes.CDLL(None).syscall(202, lock, 128, 0, until, None, 0)",
    )
    if os.uname().machine != "x86_64":
        pytest.skip("needs x86_64")
    async with stage(*python(*lines)) as on:
        await on.until(lambda now: now.state == "busy", "up")
        while syscall_of(on.it.pid)[:1] != ["202"]:
            await trio.sleep(0.002)
        os.kill(on.it.pid, signal.SIGSTOP)
        os.kill(on.it.pid, signal.SIGCONT)
        while syscall_of(on.it.pid)[:1] != ["219"]:
            await trio.sleep(0.002)
        await on.stays("busy")


async def test_a_process_that_leaves_its_wait_during_the_look_is_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with stage("bash", "-c", "read x; sleep 1000") as on:
        await on.until()
        seen, kind = syscall_of(on.it.pid), read_state._read_kind

        def late(master: int) -> tuple[read_state.Kind, int | None]:
            on.type("\n")
            while syscall_of(on.it.pid) in (seen, ["running"]):
                pass
            return kind(master)

        monkeypatch.setattr(read_state, "_read_kind", late)
        assert on.look().state == "busy"


async def test_a_process_that_returned_to_the_same_wait_during_the_look_is_busy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An event loop has done something in between, as when a child has ended and the next was
    started."""
    os.mkfifo(tmp_path / "fifo")
    lines = (
        "import os, select",
        "fifo = os.open('fifo', os.O_RDWR); loop = select.epoll()",
        "loop.register(0, 1); loop.register(fifo, 1)",
        "while True:",
        "  if loop.poll()[0][0] == fifo: os.read(fifo, 1); os.write(1, b'round')",
    )
    async with stage(*python(*lines), cwd=tmp_path) as on:
        await on.until()
        seen, kind = syscall_of(on.it.pid), read_state._read_kind

        def late(master: int) -> tuple[read_state.Kind, int | None]:
            (tmp_path / "fifo").write_bytes(b".")
            while not pump.is_readable(on.master) or syscall_of(on.it.pid) != seen:
                pass
            return kind(master)

        monkeypatch.setattr(read_state, "_read_kind", late)
        assert on.look().state == "busy"
        monkeypatch.setattr(read_state, "_read_kind", kind)
        await on.until(says="round")


async def test_a_process_stopped_during_the_look_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage("cat") as on:
        await on.until()
        kind = read_state._read_kind

        def late(master: int) -> tuple[read_state.Kind, int | None]:
            os.kill(on.it.pid, signal.SIGSTOP)
            while status_of(on.it.pid)["State"][0] != "T":
                pass
            return kind(master)

        monkeypatch.setattr(read_state, "_read_kind", late)
        assert on.look().state == "busy"


async def test_the_leader_of_the_foreground_need_not_be_named() -> None:
    async with stage("cat") as on:
        now = await on.until()
        assert read_terminal_state(on.master, on.slave, ()) == now


async def test_a_background_process_does_not_count() -> None:
    """A background process may poll the terminal, which would be seen."""
    lines = (
        "import os, select, time",
        "if not os.fork():",
        "  os.setpgid(0, 0); print('up', flush=True); select.select([0], [], [])",
        "time.sleep(1000)",
    )
    async with stage(*python(*lines)) as on:
        await on.until(lambda now: now.state == "busy", "up")
        await on.stays("busy")


async def test_a_sleeper_with_the_terminal_in_raw_mode_is_uncertain() -> None:
    """It may look at the keyboard in between: no such wait shows."""
    lines = ("import time, tty", "tty.setcbreak(0)", "print('up', flush=True)", "time.sleep(1000)")
    async with stage(*python(*lines)) as on:
        now = await on.until(lambda now: now.state == "busy" and not now.certain, "up")
        assert now.kind is None


async def test_a_waiter_for_another_process_in_raw_mode_is_uncertain() -> None:
    """As tmux gives the terminal to its server; without raw mode it is a download, say."""
    lines = (
        "import os, socket, sys, tty",
        "a, b = socket.socketpair()",
        "if not os.fork(): a.close(); b.recv(1)",
        "b.close()",
        "if sys.argv[1] == 'keys': tty.setcbreak(0)",
        "print('up', flush=True); a.recv(1)",
    )
    async with stage(*python(*lines), "keys") as on:
        await on.until(lambda now: now.state == "busy" and not now.certain, "up")
    async with stage(*python(*lines), "lines") as on:
        await on.until(lambda now: now.state == "busy" and now.certain, "up")
        await on.stays("busy")


async def test_a_computing_process_in_raw_mode_is_busy() -> None:
    lines = ("import tty", "tty.setcbreak(0)", "print('up', flush=True)", "while True: pass")
    async with stage(*python(*lines)) as on:
        await on.until(lambda now: now.state == "busy", "up")
        await on.stays("busy")


async def test_without_processes_the_state_is_unknown() -> None:
    async with stage("true") as on:
        await on.it.wait_exit()
        assert on.look() == ReadState("unknown")


def test_a_terminal_without_a_session_is_unknown() -> None:
    master, slave = pseudo_terminal.open_terminal(24, 80)
    assert read_terminal_state(master, slave, (os.getpid(),)) == ReadState("unknown")
    os.close(master)


def test_a_non_terminal_is_an_error_or_without_owner() -> None:
    with open("/dev/null", "rb") as file:
        assert read_terminal_state(file.fileno(), "/dev/null", ()) == ReadState("unknown")
    with pytest.raises(OSError, match="descriptor"):
        read_terminal_state(-1 & 0xFFFF, "/dev/null", ())


def test_without_the_call_for_a_master_the_terminal_is_opened_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with a kernel before 4.13."""
    master, slave = os.openpty()
    try:
        monkeypatch.setattr(read_state, "_TIOCGPTPEER", 0xFFFF)
        opened = read_state._open_peer(master, os.ttyname(slave))
        assert os.path.samestat(os.fstat(opened), os.fstat(slave))
        os.close(opened)
    finally:
        os.close(master)
        os.close(slave)
