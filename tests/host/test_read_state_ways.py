"""Every way of waiting for input is recognised, also of an event loop or an inner terminal."""

from __future__ import annotations

import os
import signal
import socket
from functools import partial
from pathlib import Path

import pytest
import trio

from haftd.host.input_state.read_state import ReadState, read_terminal_state
from tests.host.readings import python, stage

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


async def test_an_orphan_is_seen_when_named() -> None:
    lines = (
        "import os, time",
        "if os.fork(): time.sleep(1000)",
        "elif os.fork(): os._exit(0)",
        "else: print('is', os.getpid(), flush=True); os.read(0, 1)",
    )
    async with stage(*python(*lines)) as on:
        await on.until(lambda now: True, r"is \d+\r\n")
        pid = int(on.printed.split()[1])
        await on.until(
            lambda _: read_terminal_state(on.master, on.slave, (on.it.pid, pid)).pids == (pid,)
        )
        os.kill(pid, signal.SIGKILL)


BOUNDED: dict[str, tuple[str, int]] = {
    "poll": ("p = select.poll(); p.register(0, 1); p.poll(123456)", 123_456),
    "select": ("select.select([0], [], [], 123.25)", 123_250),
    "epoll": ("e = select.epoll(); e.register(0, 1); e.poll(123)", 123_000),
    "sigtimed": ("signal.pthread_sigmask(0, {10}); select.select([0], [], [], 77)", 77_000),
}


@pytest.mark.parametrize("way", BOUNDED)
async def test_a_timed_wait_reports_its_end(way: str) -> None:
    line, bound = BOUNDED[way]
    async with stage(*python("import select, signal", line)) as on:
        now = await on.until()
        assert now.certain and now.within_ms == bound


async def test_a_timed_read_reports_its_end() -> None:
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


async def test_of_two_waits_the_endless_one_counts() -> None:
    lines = ("import os, select", "if os.fork(): os.read(0, 1)", "else: select.select([0],[],[],9)")
    async with stage(*python(*lines)) as on:
        now = await on.until(lambda now: len(now.pids) == 2 and now.state == "reads")
        assert now.within_ms is None


async def test_a_waiter_on_a_socket_may_relay_input() -> None:
    lines = (
        "import select, socket",
        "a, b = socket.socketpair()",
        "if not os.fork(): a.close(); b.recv(1)",
        "b.close(); select.select([0, a], [], [])",
    )
    async with stage(*python("import os", *lines)) as on:
        assert (await on.until()).relays


async def test_a_holder_of_both_socket_ends_relays_nothing() -> None:
    """With such a pair an event loop wakes itself."""
    lines = (
        "import select, socket",
        "a, b = socket.socketpair()",
        "e = select.epoll(); e.register(a, 1); e.register(0, 1); e.poll()",
    )
    async with stage(*python(*lines)) as on:
        assert not (await on.until()).relays


async def test_a_listener_relays_nothing_to_its_clients() -> None:
    """An editor has a control socket."""
    lines = (
        "import select, socket, sys",
        "a = socket.socket(getattr(socket, sys.argv[1]))",
        "a.bind('' if a.family == socket.AF_UNIX else ('127.0.0.1', 0)); a.listen()",
        "select.select([0, a], [], [])",
    )
    for where in ("AF_UNIX", "AF_INET"):
        async with stage(*python(*lines), where) as on:
            assert not (await on.until()).relays


async def test_a_listening_loop_is_not_working() -> None:
    """As nvim beside the thread that has its terminal; its loop has a timer, too."""
    lines = (
        "import os, select, socket, threading",
        "a = socket.socket(socket.AF_UNIX); a.bind(''); a.listen()",
        "b = select.epoll(); b.register(a, 1)",
        "threading.Thread(target=b.poll, args=(4,), daemon=True).start()",
        "e = select.epoll(); e.register(0, 1); e.register(os.eventfd(0), 1); e.poll()",
    )
    async with stage(*python(*lines)) as on:
        await on.until(lambda now: now.loops and not now.at_work and not now.relays)


async def test_a_oneshot_registration_counts_as_current() -> None:
    """EPOLLONESHOT: after each report the program has to register again."""
    lines = (
        "import os, select, sys, threading, time",
        "threading.Thread(target=time.sleep, args=(99,), daemon=True).start()",
        "e = select.epoll(); e.register(os.eventfd(0), 1)",
        "e.register(0, 1 | (select.EPOLLONESHOT if sys.argv[1] == 'once' else 0))",
        "e.poll()",
    )
    for how, loops in ("once", False), ("ever", True):
        async with stage(*python(*lines), how) as on:
            assert (await on.until()).loops is loops


def _loops(now: ReadState, at_work: bool) -> bool:
    return now.state == "reads" and now.loops and now.at_work is at_work


async def test_a_long_futex_wait_is_idle() -> None:
    """Go's runtime housekeeping sleeps in long naps; time is kept elsewhere."""
    lines = (
        "import ctypes, os, select, struct, sys, threading",
        "lock, time = ctypes.c_int(0), ctypes.create_string_buffer(struct.pack('qq', int(sys.argv[1]), 0))",
        "call = ctypes.CDLL(None).syscall",
        "threading.Thread(target=lambda: call(FUTEX, ctypes.byref(lock), 128, 0, time),",
        "                 daemon=True).start()",
        "e = select.epoll(); e.register(0, 1); e.register(os.eventfd(0), 1); e.poll()",
    )
    number = {"x86_64": "202", "aarch64": "98"}.get(os.uname().machine)
    if number is None:
        pytest.skip("needs x86_64")
    argv = python(*(line.replace("FUTEX", number) for line in lines))
    for seconds, works in ("60", False), ("2", False), ("1", True):
        async with stage(*argv, seconds) as on:
            await on.until(partial(_loops, at_work=works))


WORKS = ("sleeps", "computes", "has started", "hears of others")


async def test_an_event_loop_is_recognised_and_its_busy_threads_show(tmp_path: Path) -> None:
    """libuv leaves a terminal in its epoll that it has stopped to read."""
    lines = (
        "import os, select, socket, sys, threading, time",
        "beside, way, path = sys.argv[1:]",
        "outside = socket.socket(socket.AF_UNIX); outside.connect(path)",
        "ours, theirs = socket.socketpair(); r, w = os.pipe()",
        "def loop(*fds):",
        "  e = select.epoll()",
        "  for fd in fds: e.register(fd, 1)",
        "  while True: e.poll(0.5)",
        "def compute():",
        "  while True: pass",
        "def start():",
        "  if not os.fork(): time.sleep(99)",
        "lock = threading.Lock(); lock.acquire()",
        "beside = {'sleeps': lambda: time.sleep(99), 'computes': compute, 'has started': start,",
        "          'locked': lock.acquire, 'hears of others': lambda: loop(outside.fileno()),",
        "          'keeps house': lambda: loop(os.eventfd(0), ours.fileno(), r), 'none': int}[beside]",
        "threading.Thread(target=beside, daemon=True).start()",
        "e = select.epoll(); e.register(0, 1)",
        "if way == 'loop': e.register(os.eventfd(0), 1)",
        "e.poll()",
    )

    async def seen(beside: str, way: str) -> None:
        expected, lasts = ("reads", way == "loop", beside in WORKS), 0

        def is_lasting(now: ReadState) -> bool:
            """A thread that starts is at work: only what lasts is the state of its wait."""
            nonlocal lasts
            lasts = lasts + 1 if (now.state, now.loops, now.at_work) == expected else 0
            return lasts == 20

        async with stage(*python(*lines), beside, way, path) as on:
            await on.until(is_lasting)

    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(16)
        for beside in (*WORKS, "locked", "keeps house", "none"):
            await seen(beside, "loop")
        await seen("none", "alone")


async def test_a_reader_outside_the_session_reads() -> None:
    """As the child of `su -c`: in no foreground, and free to read."""
    lines = (
        "import os, sys",
        "r, w = os.pipe()",
        "if os.fork(): os.wait()",
        "else: os.close(w); os.setsid(); print('asks? ', end='', flush=True); os.read(0, 9)",
    )
    async with stage(*python(*lines)) as on:
        assert (await on.until(says="asks")).kind == "line"
    # Its pipe ends with its parent, and so does the process.
    other = lines[3].replace("os.read(0, 9)", "os.read(r, 1)")
    async with stage(*python(*lines[:3], other)) as on:
        await on.until(lambda now: now.state == "busy", "asks")
        await on.stays("busy", 5)


async def test_a_waiter_on_anothers_pipe_may_wait_for_its_work() -> None:
    """The writer has to be of the foreground; a mere reader proves nothing."""
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


async def test_an_inner_terminal_is_inspected() -> None:
    for command, kind in (
        ("cat", "line"),
        ("read -rsp : x", "secret"),
        ("bash --norc", "key"),
        ("script -q -c cat /dev/null", "line"),
    ):
        async with stage(*script(command), env={"SHELL": "/bin/bash"}) as on:
            # Until its start, the content is unknown.
            now = await on.until(lambda now: now.state == "reads" and not now.relays)
            assert (now.kind, now.certain) == (kind, True) and now.pids != (on.it.pid,)


async def test_a_worker_in_an_inner_terminal_is_busy() -> None:
    async with stage(*script("echo up; sleep 1000")) as on:
        await on.until(lambda now: now.state == "busy" and now.certain, "up")
        await on.stays("busy")


async def test_a_reader_in_an_inner_terminal_has_consumed_earlier_input() -> None:
    async with stage(*script("cat")) as on:
        await on.until(lambda now: now.state == "reads" and not now.relays)
        for turn in range(100):
            on.type(f"line {turn}\n")
            while (now := read_terminal_state(on.master, on.slave, (on.it.pid,))).state != "reads":
                await trio.lowlevel.checkpoint()
            on.look()
            assert not now.relays and on.printed == b"line %d\r\n" % turn * 2


@pytest.mark.parametrize("too", ["", "beyond", "fed", "two"])
async def test_a_process_with_other_waits_is_not_only_a_terminal_carrier(
    too: str,
) -> None:
    """Input may be for the other one: the inner terminal proves nothing."""
    lines = (
        "import os, pty, select, socket, sys, time, tty",
        "def cat():",
        "  pid, master = pty.fork()",
        "  if pid == 0: os.execvp('cat', ['cat'])",
        "  while open(f'/proc/{pid}/stat').read().split()[1:3] != ['(cat)', 'S']: pass",
        "  return master",
        "tty.setraw(0); parent = os.getpid()",
        "beyond = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); beyond.bind(('127.0.0.1', 0))",
        "r, w = os.pipe()",
        "if sys.argv[1] == 'fed' and not os.fork():",
        "  while os.getppid() == parent: time.sleep(0.2)",
        "  os._exit(0)",
        "os.close(w)",
        "p = select.poll(); p.register(0, 1); p.register(cat(), 1); p.register(r, 1)",
        "if sys.argv[1] == 'beyond': p.register(beyond, 1)",
        "if sys.argv[1] == 'two': p.register(cat(), 1)",
        "if sys.argv[1] != 'fed': p.unregister(r)",
        "p.poll()",
    )
    async with stage(*python(*lines), too) as on:
        now = await on.until(lambda now: now.state == "reads")
        assert (now.kind, now.relays) == (("key", True) if too else ("line", False))


async def test_several_inner_terminals_are_unknown() -> None:
    """As in a multiplexer: the owner of the keyboard cannot be determined."""
    lines = (
        "import os, pty, select",
        "pair = [pty.fork(), pty.fork()]",
        "if (0, -1) in [(pid, -1) for pid, _ in pair]: os.execvp('cat', ['cat'])",
        "select.select([0, *(fd for _, fd in pair)], [], [])",
    )
    async with stage(*python(*lines)) as on:
        assert (await on.until()).relays
