"""Who waits for input is told by the kernel, of real programs, and never guessed."""

from __future__ import annotations

import ctypes
import os
import pickle
import re
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from haftd.host import reads, tty, waits
from haftd.host.launch import Launched
from haftd.host.reads import Reading, reading, reading_pipe
from tests.host.launching import open_fds, plan, running, status_of

DEADLINE_S = 20
PYTHON = (sys.executable, "-I", "-S", "-c")


class Stage:
    """A program on a terminal, and what it has printed so far."""

    def __init__(self, it: Launched) -> None:
        assert it.master is not None
        self.it, self.master, self.slave = it, it.master, it.slave
        self.printed = b""

    def look(self) -> Reading:
        """Take what was printed, then look."""
        try:
            while part := os.read(self.master, 65_536):
                self.printed += part
        except OSError:
            pass  # there is no more
        return reading(self.master, self.slave, (self.it.pid,))

    def type(self, text: str) -> None:
        self.printed = b""
        assert os.write(self.master, text.encode()) == len(text.encode())

    async def until(
        self, wanted: Callable[[Reading], bool] = lambda now: now.state == "reads", says: str = ""
    ) -> Reading:
        """Look until what is seen is what is wanted, and `says` was printed."""
        now = Reading("unknown")
        with trio.move_on_after(DEADLINE_S):
            while True:
                now = self.look()
                if wanted(now) and re.search(says.encode(), self.printed):
                    return now
                await trio.sleep(0.002)
        raise AssertionError(f"{now} after {self.printed!r}")

    async def stays(self, state: str, looks: int = 20) -> None:
        """Look some times; whatever the program does between, the answer is the same."""
        for _ in range(looks):
            now = self.look()
            assert (now.state, now.certain) == (state, True), (now, self.printed)
            await trio.sleep(0.002)


@asynccontextmanager
async def stage(
    *argv: str, cwd: str | Path = "/", env: dict[str, str] | None = None
) -> AsyncIterator[Stage]:
    needs(argv[0])
    usual = {"TERM": "xterm", "HOME": str(cwd), "PS1": "$ ", "LC_ALL": "C.UTF-8"}
    what = plan(*argv, cwd=cwd, env={**usual, **(env or {})}, terminal=True)
    async with running(what) as (it, _):
        yield Stage(it)


def needs(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}")


def python(*lines: str) -> tuple[str, ...]:
    return (*PYTHON, "\n".join(lines))


def syscall_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/syscall").read_text().split()


# -- real programs -----------------------------------------------------------------------------

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
async def test_a_program_that_waits_reads(name: str, tmp_path: Path) -> None:
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
async def test_a_program_that_does_not_wait_is_busy_whatever_it_prints(name: str) -> None:
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


async def test_a_shell_reads_again_when_its_job_has_ended() -> None:
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


# -- what was typed ----------------------------------------------------------------------------


async def test_who_reads_has_answered_what_was_typed_before() -> None:
    """The law that a caller builds on: after an input, `reads` is a new wait."""
    async with stage("cat") as on:
        await on.until()
        for turn in range(300):
            on.type(f"line {turn}\n")
            while reading(on.master, on.slave, (on.it.pid,)).state != "reads":
                await trio.lowlevel.checkpoint()
            on.look()
            assert on.printed == b"line %d\r\n" % turn * 2


async def test_a_line_editor_that_reads_has_run_what_was_typed_before() -> None:
    async with stage("bash", "--norc", "-i") as on:
        await on.until()
        for turn in range(40):
            on.type(f"echo $(({turn} + 1000))\r")
            while reading(on.master, on.slave, (on.it.pid,)).state != "reads":
                await trio.lowlevel.checkpoint()
            on.look()
            assert b"%d\r\n" % (turn + 1000) in on.printed and on.printed.endswith(b"$ ")


async def test_while_something_typed_is_unread_nobody_reads() -> None:
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


async def test_a_line_without_an_end_changes_nothing() -> None:
    async with stage("cat") as on:
        await on.until()
        on.type("half a li")
        await on.stays("reads")
        on.type("ne\n")
        await on.until(says="ne\r\nhalf a line\r\n")


async def test_less_than_a_read_wants_changes_nothing() -> None:
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
        await on.until()  # it takes them, and goes on waiting within its read
        await on.stays("reads")
        on.type("c")
        await on.until(says="b'abc'")


# -- ways of waiting ---------------------------------------------------------------------------

WAYS: dict[str, tuple[str, ...]] = {
    "read": ("os.read(0, 1)",),
    "readv": ("os.readv(0, [bytearray(1)])",),
    "another descriptor": ("d = os.dup(0); os.close(0); os.read(d, 1)",),
    "/dev/tty": ("d = os.open('/dev/tty', os.O_RDWR); os.close(0); os.read(d, 1)",),
    "an open of its own": ("d = os.open(os.ttyname(0), os.O_RDWR); os.read(d, 1)",),
    "splice": ("r, w = os.pipe(); os.splice(0, w, 1)",),
    "poll": ("p = select.poll(); p.register(1, 2); p.register(0, 1); p.modify(1, 0); p.poll()",),
    "poll of many": (
        "d = [os.dup(1) for _ in range(200)]; p = select.poll()",
        "for f in d: p.register(f, select.POLLPRI)",
        "p.register(0, 1); p.poll()",
    ),
    "select": ("r, w = os.pipe(); select.select([r, 0], [], [])",),
    "a select of high numbers": ("os.dup2(0, 900); os.close(0); select.select([900], [], [])",),
    "epoll": ("e = select.epoll(); e.register(0, 1); e.poll()",),
    "epoll in epoll in poll": (
        "e, f, p = select.epoll(), select.epoll(), select.poll()",
        "e.register(0, 1); f.register(e, 1); p.register(f, 1); p.poll()",
    ),
    "epoll of many": (
        "e = select.epoll(); e.register(0, 1); d = [os.pipe()[0] for _ in range(200)]",
        "for f in d: e.register(f, 1)",
        "e.poll()",
    ),
    "a thread beside one that computes": (
        "def f():",
        "  while True: pass",
        "threading.Thread(target=f, daemon=True).start(); os.read(0, 1)",
    ),
    "a thread that is not the first": (
        "threading.Thread(target=lambda: os.read(0, 1)).start(); time.sleep(1000)",
    ),
    "a child of its group": ("if os.fork(): os.wait()", "else: os.read(0, 1)"),
}


@pytest.mark.parametrize("way", WAYS)
async def test_every_way_of_waiting_is_known(way: str) -> None:
    start = ("import os, select, threading, time",)
    async with stage(*python(*start, *WAYS[way])) as on:
        now = await on.until()
        assert (now.kind, now.certain) == ("line", True)
        assert now.within_ms is None and not now.relays
        assert (now.pids == (on.it.pid,)) is ("child" not in way)


async def test_what_has_lost_its_parent_is_seen_when_it_is_named() -> None:
    lines = (
        "import os, time",
        "if os.fork(): time.sleep(1000)",
        "elif os.fork(): os._exit(0)",
        "else: print('is', os.getpid(), flush=True); os.read(0, 1)",
    )
    async with stage(*python(*lines)) as on:
        await on.until(lambda now: True, r"is \d+\r\n")
        pid = int(on.printed.split()[1])
        await on.until(lambda _: reading(on.master, on.slave, (on.it.pid, pid)).pids == (pid,))
        os.kill(pid, signal.SIGKILL)


BOUNDED: dict[str, tuple[str, int]] = {
    "poll": ("p = select.poll(); p.register(0, 1); p.poll(123456)", 123_456),
    "select": ("select.select([0], [], [], 123.25)", 123_250),
    "epoll": ("e = select.epoll(); e.register(0, 1); e.poll(123)", 123_000),
    "sigtimed": ("signal.pthread_sigmask(0, {10}); select.select([0], [], [], 77)", 77_000),
}


@pytest.mark.parametrize("way", BOUNDED)
async def test_a_wait_that_ends_by_itself_says_when(way: str) -> None:
    line, bound = BOUNDED[way]
    async with stage(*python("import select, signal", line)) as on:
        now = await on.until()
        assert now.certain and now.within_ms == bound


async def test_a_read_that_gives_up_says_when() -> None:
    lines = (
        "import os, termios",
        "a = termios.tcgetattr(0)",
        "a[3] &= ~termios.ICANON",
        "a[6][termios.VMIN], a[6][termios.VTIME] = 0, 200",
        "termios.tcsetattr(0, termios.TCSANOW, a)",
        "os.read(0, 1)",
    )
    async with stage(*python(*lines)) as on:
        assert (await on.until()).within_ms == 20_000


async def test_of_two_waits_the_one_without_an_end_counts() -> None:
    lines = ("import os, select", "if os.fork(): os.read(0, 1)", "else: select.select([0],[],[],9)")
    async with stage(*python(*lines)) as on:
        now = await on.until(lambda now: len(now.pids) == 2 and now.state == "reads")
        assert now.within_ms is None


async def test_who_waits_for_a_socket_too_may_pass_on_what_is_typed() -> None:
    lines = (
        "import select, socket",
        "a, b = socket.socketpair()",
        "if not os.fork(): a.close(); b.recv(1)",
        "b.close(); select.select([0, a], [], [])",
    )
    async with stage(*python("import os", *lines)) as on:
        assert (await on.until()).relays


async def test_who_has_both_ends_of_a_socket_passes_nothing_on() -> None:
    """With such a pair an event loop wakes itself."""
    lines = (
        "import select, socket",
        "a, b = socket.socketpair()",
        "e = select.epoll(); e.register(a, 1); e.register(0, 1); e.poll()",
    )
    async with stage(*python(*lines)) as on:
        assert not (await on.until()).relays


WORKS = ("sleeps", "computes", "has started")


async def test_an_event_loop_is_one_and_who_works_beside_it_shows() -> None:
    """libuv leaves a terminal in its epoll that it has stopped to read."""
    lines = (
        "import os, select, sys, threading, time",
        "def compute():",
        "  while True: pass",
        "def start():",
        "  if not os.fork(): time.sleep(99)",
        "lock = threading.Lock(); lock.acquire()",
        "beside = {'sleeps': lambda: time.sleep(99), 'computes': compute, 'has started': start,",
        "          'locked': lock.acquire, 'none': int}[sys.argv[1]]",
        "threading.Thread(target=beside, daemon=True).start()",
        "e = select.epoll(); e.register(0, 1)",
        "if sys.argv[2] == 'loop': e.register(os.eventfd(0), 1)",
        "e.poll()",
    )

    async def seen(beside: str, way: str) -> None:
        async with stage(*python(*lines), beside, way) as on:
            await on.until(
                lambda now: (
                    now.state == "reads"
                    and now.loops is (way == "loop")
                    and now.at_work is (beside in WORKS)
                )
            )

    for beside in (*WORKS, "locked", "none"):
        await seen(beside, "loop")
    await seen("none", "alone")


async def test_who_waits_for_another_s_pipe_too_may_wait_for_its_work() -> None:
    """The writer has to be of the foreground; who only reads it says nothing."""
    lines = (
        "import os, select, sys, time",
        "r, w = os.pipe(); parent = os.getpid()",
        "if not os.fork():",
        "  if 'background' in sys.argv: os.setpgid(0, 0)",
        "  if 'reader' in sys.argv: os.close(w)",
        "  while os.getppid() == parent: time.sleep(0.2)",
        "  os._exit(0)",
        "if sys.argv[1] not in ('own', 'reader'): os.close(w)",
        "p = select.poll(); p.register(0, 1); p.register(r, 1)",
        "p.poll()",
    )

    async def seen(how: str, relays: bool) -> None:
        async with stage(*python(*lines), how) as on:
            await on.until(lambda now: now.state == "reads" and now.relays is relays)

    for how, relays in (("", True), ("own", True), ("background", False), ("reader", False)):
        await seen(how, relays)


def script(command: str) -> tuple[str, ...]:
    return ("script", "-q", "-c", command, "/dev/null")


async def test_a_terminal_within_the_terminal_is_looked_into() -> None:
    for command, kind in (
        ("cat", "line"),
        ("read -rsp : x", "secret"),
        ("bash --norc", "key"),
        ("script -q -c cat /dev/null", "line"),
    ):
        async with stage(*script(command), env={"SHELL": "/bin/bash"}) as on:
            # Until it has started, nobody knows what is in there.
            now = await on.until(lambda now: now.state == "reads" and not now.relays)
            assert (now.kind, now.certain) == (kind, True) and now.pids != (on.it.pid,)


async def test_who_works_in_a_terminal_within_the_terminal_is_busy() -> None:
    async with stage(*script("echo up; sleep 1000")) as on:
        await on.until(lambda now: now.state == "busy" and now.certain, "up")
        await on.stays("busy")


async def test_who_reads_in_a_terminal_within_has_answered_what_was_typed_before() -> None:
    async with stage(*script("cat")) as on:
        await on.until(lambda now: now.state == "reads" and not now.relays)
        for turn in range(100):
            on.type(f"line {turn}\n")
            while (now := reading(on.master, on.slave, (on.it.pid,))).state != "reads":
                await trio.lowlevel.checkpoint()
            on.look()
            assert not now.relays and on.printed == b"line %d\r\n" % turn * 2


async def test_of_several_terminals_within_the_terminal_nothing_is_known() -> None:
    """Whose the keyboard is just now, as in a multiplexer, nobody can tell."""
    lines = (
        "import os, pty, select",
        "pair = [pty.fork(), pty.fork()]",
        "if (0, -1) in [(pid, -1) for pid, _ in pair]: os.execvp('cat', ['cat'])",
        "select.select([0, *(fd for _, fd in pair)], [], [])",
    )
    async with stage(*python(*lines)) as on:
        assert (await on.until()).relays


# -- who does not count ------------------------------------------------------------------------


async def test_what_is_stopped_does_not_read_and_what_goes_on_does() -> None:
    async with stage("cat") as on:
        await on.until()
        os.kill(on.it.pid, signal.SIGSTOP)
        await on.until(lambda now: now.state == "busy")
        await on.stays("busy")
        os.kill(on.it.pid, signal.SIGCONT)
        await on.until()


async def test_a_poll_that_goes_on_after_a_stop_reads() -> None:
    """Its call is restart_syscall then, where the machine has poll."""
    line = "p = select.poll(); p.register(0, 1); p.poll(100000)"
    async with stage(*python("import select", line)) as on:
        await on.until()
        os.kill(on.it.pid, signal.SIGSTOP)
        await on.until(lambda now: now.state == "busy")
        os.kill(on.it.pid, signal.SIGCONT)
        await on.until()
        assert on.look().within_ms == 100_000


async def test_a_sleep_that_goes_on_after_a_stop_is_busy() -> None:
    async with stage("bash", "-c", "echo up; exec sleep 1000") as on:
        await on.until(lambda now: now.state == "busy", "up")
        os.kill(on.it.pid, signal.SIGSTOP)
        os.kill(on.it.pid, signal.SIGCONT)
        await on.stays("busy")


async def test_a_wait_for_a_lock_that_goes_on_after_a_stop_is_not_taken_for_a_poll() -> None:
    """It shows restart_syscall as well, and here its arguments would make a poll of the terminal."""
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


async def test_who_leaves_its_wait_during_the_look_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage("bash", "-c", "read x; sleep 1000") as on:
        await on.until()
        seen, kind = syscall_of(on.it.pid), reads._kind

        def late(master: int) -> tuple[reads.Kind, int | None]:
            on.type("\n")
            while syscall_of(on.it.pid) in (seen, ["running"]):
                pass
            return kind(master)

        monkeypatch.setattr(reads, "_kind", late)
        assert on.look().state == "busy"


async def test_who_is_stopped_during_the_look_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage("cat") as on:
        await on.until()
        kind = reads._kind

        def late(master: int) -> tuple[reads.Kind, int | None]:
            os.kill(on.it.pid, signal.SIGSTOP)
            while status_of(on.it.pid)["State"][0] != "T":
                pass
            return kind(master)

        monkeypatch.setattr(reads, "_kind", late)
        assert on.look().state == "busy"


async def test_the_leader_of_the_foreground_need_not_be_named() -> None:
    async with stage("cat") as on:
        now = await on.until()
        assert reading(on.master, on.slave, ()) == now


async def test_what_is_in_the_background_does_not_count() -> None:
    """A poll of the terminal is allowed there, and would be seen."""
    lines = (
        "import os, select, time",
        "if not os.fork():",
        "  os.setpgid(0, 0); print('up', flush=True); select.select([0], [], [])",
        "time.sleep(1000)",
    )
    async with stage(*python(*lines)) as on:
        await on.until(lambda now: now.state == "busy", "up")
        await on.stays("busy")


async def test_who_sleeps_by_the_clock_with_the_keyboard_taken_over_is_not_sure_to_be_busy() -> (
    None
):
    """It may look at the keyboard in between: no wait of it shows."""
    lines = ("import time, tty", "tty.setcbreak(0)", "print('up', flush=True)", "time.sleep(1000)")
    async with stage(*python(*lines)) as on:
        now = await on.until(lambda now: now.state == "busy" and not now.certain, "up")
        assert now.kind is None


async def test_who_has_the_keyboard_and_waits_for_another_may_have_handed_it_over() -> None:
    """As tmux gives the terminal to its server; without the keyboard it is a download, say."""
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


async def test_who_computes_with_the_keyboard_taken_over_is_busy() -> None:
    lines = ("import tty", "tty.setcbreak(0)", "print('up', flush=True)", "while True: pass")
    async with stage(*python(*lines)) as on:
        await on.until(lambda now: now.state == "busy", "up")
        await on.stays("busy")


async def test_when_all_has_ended_nothing_is_known() -> None:
    async with stage("true") as on:
        await on.it.wait_exit()
        assert on.look() == Reading("unknown")


def test_of_a_terminal_of_nobody_nothing_is_known() -> None:
    master, slave = tty.open_terminal(24, 80)
    assert reading(master, slave, (os.getpid(),)) == Reading("unknown")
    os.close(master)


def test_what_is_no_terminal_is_an_error_or_nobody_s() -> None:
    with open("/dev/null", "rb") as file:
        assert reading(file.fileno(), "/dev/null", ()) == Reading("unknown")
    with pytest.raises(OSError, match="descriptor"):
        reading(-1 & 0xFFFF, "/dev/null", ())


# -- what cannot be told -----------------------------------------------------------------------


def as_nobody(look: Callable[[], Reading], *, hidepid: bool = False) -> Reading:
    """What somebody without rights sees, on demand where /proc shows one's own processes only."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if hidepid and tuple(map(int, os.uname().release.split(".")[:2])) < (5, 8):
        pytest.skip("needs Linux 5.8")  # before, it is hidden for all
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if hidepid:
                hide_processes()
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            os.write(theirs, pickle.dumps(look()))
        finally:
            os._exit(0)
    os.close(theirs)
    with open(ours, "rb") as file:
        said = file.read()
    os.waitpid(child, 0)
    if hidepid and not said:
        pytest.skip("needs the right to mount")
    now = pickle.loads(said)
    assert isinstance(now, Reading)
    return now


def hide_processes() -> None:
    libc = ctypes.CDLL(None)
    new_mounts, private = 0x20000, 0x40000 | 0x4000
    for failed in (
        libc.unshare(new_mounts),
        libc.mount(b"none", b"/", None, private, None),
        libc.mount(b"proc", b"/proc", b"proc", 0, b"hidepid=2"),
    ):
        if failed:
            os._exit(1)


async def test_of_a_program_that_is_not_even_shown_it_is_unknown() -> None:
    async with stage("cat") as on:
        await on.until()
        assert as_nobody(on.look, hidepid=True) == Reading("unknown", "line", pids=(on.it.pid,))


async def test_of_another_user_s_program_it_is_unknown_but_what_it_would_read() -> None:
    async with stage("bash", "-c", "read -sp 'password: ' x") as on:
        await on.until(says="password")
        now = as_nobody(on.look)
        assert now == Reading("unknown", "secret", pids=(on.it.pid,))


async def test_that_another_user_s_program_runs_shows() -> None:
    async with stage(*python("print('up', flush=True)", "while True: pass")) as on:
        await on.until(lambda now: now.state == "busy", "up")
        now = as_nobody(on.look)
        assert (now.state, now.certain) == ("busy", True)


async def test_who_reads_is_known_though_others_are_not() -> None:
    """One process may be looked at, another not: that somebody reads is certain all the same."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    lines = (
        "import os",
        "if os.fork(): print('up', flush=True); os.wait()",
        "os.setgroups([])",
        "for become in os.setresgid, os.setresuid: become(65534, 65534, 65534)",
        "os.execv('/bin/cat', ['cat'])",
    )
    async with stage(*python(*lines)) as on:
        now = await on.until(says="up")
        assert as_nobody(on.look) == now and now.pids != (on.it.pid,)


RING = (
    "import ctypes, select",
    "c = ctypes.CDLL(None)",
    "ring = c.syscall(425, 4, ctypes.create_string_buffer(120))",
    "print('ring', 'is' if ring >= 0 else 'not', flush=True)",
)


async def has_ring(on: Stage) -> None:
    await on.until(lambda _: True, "ring (is|not)")
    if b"not" in on.printed:
        pytest.skip("needs io_uring")


async def test_a_wait_on_a_ring_is_unknown() -> None:
    """What io_uring reads is shown by no call."""
    async with stage(*python(*RING, "c.syscall(426, ring, 0, 1, 1, None, 0)")) as on:
        await has_ring(on)
        now = await on.until(lambda now: now.state == "unknown")
        assert (now.kind, now.certain, now.pids) == ("line", False, (on.it.pid,))


async def test_a_ring_that_is_watched_is_unknown_unless_the_terminal_is_watched_too() -> None:
    lines = ("e = select.epoll(); e.register(ring, 1)", "e.poll(0.3)", "e.register(0, 1); e.poll()")
    async with stage(*python(*RING, *lines)) as on:
        await has_ring(on)
        await on.until(lambda now: now.state == "unknown")
        await on.until()


async def test_an_epoll_of_a_file_that_has_lost_its_number_is_unknown() -> None:
    lines = (
        "import os, select",
        "d = os.dup(0); e = select.epoll(); e.register(d, 1); os.close(d)",
        "print('up', flush=True); e.poll()",
    )
    async with stage(*python(*lines)) as on:
        await on.until(lambda now: now.state == "unknown", "up")


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="needs x86_64")
async def test_a_32_bit_program_is_unknown(tmp_path: Path) -> None:
    """Its numbers of system calls are others: its read is our close."""
    code = bytes.fromhex(
        "b803000000"  # mov eax, 3  (read)
        "31db"  # xor ebx, ebx
        "89e1"  # mov ecx, esp
        "ba01000000"  # mov edx, 1
        "cd80"  # int 0x80
        "ebee"  # jmp to the start
    )
    start, head = 0x0804_8000, 52 + 32
    elf = struct.pack("<4sBBB9xHHIIIIIHHHHHH", b"\x7fELF", 1, 1, 1, 2, 3, 1, start + head,
                      52, 0, 0, 52, 32, 1, 40, 0, 0)  # fmt: skip
    size = head + len(code)
    elf += struct.pack("<IIIIIIII", 1, 0, start, start, size, size, 5, 4096)
    program = tmp_path / "read32"
    program.write_bytes(elf + code)
    program.chmod(0o700)
    try:
        subprocess.run([program], stdin=subprocess.PIPE, timeout=0.01, check=False)
    except subprocess.TimeoutExpired:
        pass
    except OSError:
        pytest.skip("needs a kernel that runs 32-bit programs")
    async with stage(str(program)) as on:
        now = await on.until(lambda now: now.state == "unknown")
        assert not now.certain


async def test_on_a_machine_whose_numbers_are_not_known_it_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with stage("cat") as on:
        await on.until()
        monkeypatch.setattr(waits, "_OURS", {})
        assert on.look() == Reading("unknown", "line", pids=(on.it.pid,))


@pytest.mark.parametrize("bound", ["_MOST_PROCESSES", "_MOST_THREADS"])
async def test_what_is_too_much_to_look_at_is_unknown(
    monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    many = {
        "_MOST_PROCESSES": "for _ in range(3): os.fork()",
        "_MOST_THREADS": "for _ in range(7): threading.Thread(target=time.sleep, args=(99,)).start()",
    }
    lines = ("import os, threading, time", many[bound], "print('up', flush=True)", "time.sleep(99)")
    async with stage(*python(*lines)) as on:
        await on.until(lambda now: now.state == "busy", "(up(.|\n)*){8}" if "P" in bound else "up")
        monkeypatch.setattr(reads, bound, 4)
        assert on.look().state == "unknown"


def test_a_worker_of_a_ring_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has neither a stack nor a place in the program, and no call of its own."""
    told = b"0 0x0 0x0 0x0 0x0 0x0 0x0 0x0 0x0"
    program = b"\x7fELF\x02"
    monkeypatch.setattr(
        waits, "_read", lambda path, size=0: program if path.endswith("exe") else told
    )
    me = os.getpid()
    assert waits.blocked(me, me, lambda what: True).state == "hidden"


FOREGROUND = (
    "import os, signal, time",
    "signal.signal(signal.SIGTTOU, signal.SIG_IGN)",
    "r, w = os.pipe()",
    "job = os.fork()",
    "if not job:",
    "  os.setpgid(0, 0); os.tcsetpgrp(0, os.getpid())",
    "  if %d and not os.fork(): os.write(w, b'.'); time.sleep(1000)",
    "  os._exit(0)",
    "os.waitpid(job, 0); os.read(r, %d); print('up', flush=True); time.sleep(1000)",
)


async def test_while_nobody_is_in_the_foreground_it_is_busy() -> None:
    """A job has ended and its shell has not taken the terminal back yet."""
    async with stage(*PYTHON, "\n".join(FOREGROUND) % (0, 0)) as on:
        await on.until(lambda now: now.state == "busy" and not now.pids, "up")
        await on.stays("busy")


async def test_who_is_in_the_foreground_and_is_not_found_is_unknown() -> None:
    """It has lost its parent, and nobody names it."""
    async with stage(*PYTHON, "\n".join(FOREGROUND) % (1, 1)) as on:
        now = await on.until(lambda now: now.state == "unknown", "up")
        assert now == Reading("unknown", "line")


# -- it leaves nothing, and changes nothing ----------------------------------------------------


async def test_a_look_leaves_nothing_and_takes_no_terminal() -> None:
    async with stage("bash", "--norc", "-i") as on:
        await on.until()
        before, own = open_fds(), Path("/proc/self/stat").read_text().split()[6]
        for _ in range(50):
            on.look()
        assert open_fds() == before
        assert Path("/proc/self/stat").read_text().split()[6] == own


def test_the_numbers_are_those_of_the_kernel_s_headers() -> None:
    files = {
        "x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
        "aarch64": "/usr/include/asm-generic/unistd.h",
    }
    source = Path(waits.__file__).read_text()
    for machine, path in files.items():
        if not os.path.exists(path):
            pytest.skip("needs the kernel's headers")
        defined = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)$", Path(path).read_text(), re.M)
        numbers = {name: int(number) for name, number in defined}
        table = source.split(f'"{machine}": {{')[1].split("\n    }")[0]
        named = re.findall(r"^\s+(\d+): .*# (\w+)$", table, re.M)
        assert len(named) == len(waits._CALLS[machine])
        assert {name: numbers[name] for _, name in named} == {n: int(i) for i, n in named}


# -- pipes -------------------------------------------------------------------------------------


@asynccontextmanager
async def piped(*argv: str) -> AsyncIterator[tuple[Launched, Callable[[], Reading]]]:
    async with running(plan(*argv, stdin="pipe")) as (it, _):
        assert it.stdin is not None
        inode = os.fstat(it.stdin).st_ino
        yield it, lambda: reading_pipe((it.pid,), inode)


async def until(look: Callable[[], Reading], *states: str) -> Reading:
    now = Reading("unknown")
    with trio.move_on_after(DEADLINE_S):
        while (now := look()).state not in states:
            await trio.sleep(0.002)
        return now
    raise AssertionError(f"{now}, not {states}")


@pytest.mark.parametrize("way", ["cat", "poll", "child"])
async def test_who_waits_at_the_end_of_the_pipe_reads(way: str) -> None:
    argv = {
        "cat": ("cat",),
        "poll": python("import select", "select.select([0], [], [], 50)"),
        "child": ("sh", "-c", "cat; :"),
    }[way]
    async with piped(*argv) as (it, look):
        now = await until(look, "reads")
        assert (now.kind, now.certain, now.within_ms is not None) == ("line", True, way == "poll")
        assert (now.pids == (it.pid,)) is (way != "child")


async def test_who_does_something_else_does_not_read_its_pipe() -> None:
    lines = ("import os", "r, w = os.pipe()", "print('> ', flush=True)", "os.read(r, 1)")
    for argv in (python(*lines), ("sleep", "1000")):
        async with piped(*argv) as (_, look):
            for _ in range(20):
                now = await until(look, "busy", "reads")
                assert (now.state, now.certain) == ("busy", True)
                await trio.sleep(0.002)


async def test_who_reads_a_pipe_has_answered_what_was_written_before() -> None:
    async with piped("cat") as (it, look):
        await until(look, "reads")
        assert it.stdin is not None and it.stdout is not None
        for turn in range(300):
            os.write(it.stdin, b"line %d\n" % turn)
            while look().state != "reads":
                await trio.lowlevel.checkpoint()
            assert os.read(it.stdout, 100) == b"line %d\n" % turn


async def test_of_a_pipe_without_a_program_nothing_is_known() -> None:
    assert reading_pipe((), 1).state == "unknown"
    async with piped("true") as (it, look):
        await it.wait_exit()
        assert look().state == "unknown"
