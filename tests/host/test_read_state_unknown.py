"""Undecidable waits are reported as unknown, and a look leaves no trace."""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from haftd.host.input_state import read_state, thread_wait, wait_snapshot
from haftd.host.input_state.read_state import ReadState
from tests.host.launch_helpers import open_fds
from tests.host.readings import PYTHON, Stage, python, stage

# -- unknown ------------------------------------------------------------------------------------


def as_nobody(look: Callable[[], ReadState], *, hidepid: bool = False) -> ReadState:
    """Run as an unprivileged user, on demand where /proc shows one's own processes only."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if hidepid and tuple(map(int, os.uname().release.split(".")[:2])) < (5, 8):
        pytest.skip("needs Linux 5.8")  # before, /proc hides everything
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
    assert isinstance(now, ReadState)
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


async def test_an_invisible_program_is_unknown() -> None:
    async with stage("cat") as on:
        await on.until()
        assert as_nobody(on.look, hidepid=True) == ReadState("unknown", "line", pids=(on.it.pid,))


async def test_another_users_program_is_unknown_except_for_its_input_mode() -> None:
    async with stage("bash", "-c", "read -sp 'password: ' x") as on:
        await on.until(says="password")
        now = as_nobody(on.look)
        assert now == ReadState("unknown", "secret", pids=(on.it.pid,))


async def test_another_users_running_program_is_busy() -> None:
    async with stage(*python("print('up', flush=True)", "while True: pass")) as on:
        await on.until(lambda now: now.state == "busy", "up")
        now = as_nobody(on.look)
        assert (now.state, now.certain) == ("busy", True)


async def test_a_visible_reader_is_known_beside_hidden_processes() -> None:
    """One process may be inspected, another not: a reader is certain all the same."""
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
    """No system call shows the reads of io_uring."""
    async with stage(*python(*RING, "c.syscall(426, ring, 0, 1, 1, None, 0)")) as on:
        await has_ring(on)
        now = await on.until(lambda now: now.state == "unknown")
        assert (now.kind, now.certain, now.pids) == ("line", False, (on.it.pid,))


async def test_a_watched_ring_is_unknown_unless_the_terminal_is_watched() -> None:
    lines = ("e = select.epoll(); e.register(ring, 1)", "e.poll(0.3)", "e.register(0, 1); e.poll()")
    async with stage(*python(*RING, *lines)) as on:
        await has_ring(on)
        await on.until(lambda now: now.state == "unknown")
        await on.until()


async def test_an_epoll_of_a_file_without_its_descriptor_is_unknown() -> None:
    lines = (
        "import os, select",
        "d = os.dup(0); e = select.epoll(); e.register(d, 1); os.close(d)",
        "print('up', flush=True); e.poll()",
    )
    async with stage(*python(*lines)) as on:
        await on.until(lambda now: now.state == "unknown", "up")


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="needs x86_64")
async def test_a_32_bit_program_is_unknown(tmp_path: Path) -> None:
    """Its system call numbers differ: its read is our close."""
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


async def test_an_unknown_architecture_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with stage("cat") as on:
        await on.until()
        monkeypatch.setattr(thread_wait, "_CALLS", {})
        assert on.look() == ReadState("unknown", "line", pids=(on.it.pid,))


@pytest.mark.parametrize("bound", ["_MAX_PROCESSES", "_MAX_THREADS"])
async def test_too_large_a_process_tree_is_unknown(
    monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    many = {
        "_MAX_PROCESSES": "for _ in range(3): os.fork()",
        "_MAX_THREADS": "for _ in range(7): threading.Thread(target=time.sleep, args=(99,)).start()",
    }
    lines = ("import os, threading, time", many[bound], "print('up', flush=True)", "time.sleep(99)")
    async with stage(*python(*lines)) as on:
        await on.until(lambda now: now.state == "busy", "(up(.|\n)*){8}" if "P" in bound else "up")
        monkeypatch.setattr(wait_snapshot, bound, 4)
        assert on.look().state == "unknown"


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


async def test_without_a_foreground_job_the_state_is_busy() -> None:
    """A job has ended and its shell has not taken the terminal back yet."""
    async with stage(*PYTHON, "\n".join(FOREGROUND) % (0, 0)) as on:
        await on.until(lambda now: now.state == "busy" and not now.pids, "up")
        await on.stays("busy")


async def test_an_unfindable_foreground_job_is_unknown() -> None:
    """It has lost its parent, and is not named."""
    async with stage(*PYTHON, "\n".join(FOREGROUND) % (1, 1)) as on:
        now = await on.until(lambda now: now.state == "unknown", "up")
        assert now == ReadState("unknown", "line")


JOBS = (
    "import os, signal",
    "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})",
    "signal.signal(signal.SIGTTOU, signal.SIG_IGN)",
    "for n in range(3):",
    "  job = os.fork()",
    "  if not job: os.setpgid(0, 0); os.tcsetpgrp(0, os.getpid()); os._exit(0)",
    "  os.waitid(os.P_PID, job, os.WEXITED | os.WNOWAIT)",
    "  print(f'job {n}', flush=True); signal.sigwait({signal.SIGUSR1})",
    "  os.waitpid(job, 0)",
)


async def test_an_unreaped_job_is_unknown_and_each_job_shows() -> None:
    """Its shell is about to take the terminal back."""
    async with stage(*python(*JOBS)) as on:
        seen = []
        for n in range(2):
            now = await on.until(says=f"job {n}", wanted=lambda now: now.state == "unknown")
            assert (now.kind, now.pids, now.is_stable) == ("line", (), False)
            assert on.look().processes == now.processes
            seen.append(now.processes)
            os.kill(on.it.pid, signal.SIGUSR1)
        assert seen[0] != seen[1]


async def test_an_unknown_inner_terminal_is_not_settled_by_its_carrier(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(read_state, "_STABLE_S", 0.0)
    carrier = f"import pty; pty.spawn({python(*JOBS)!r})"
    async with stage(*python(carrier)) as on:
        now = await on.until(says="job 0")
        assert now.relays and not now.is_stable
    async with stage(*python("import pty; pty.spawn(['cat'])")) as on:
        await on.until(lambda now: now.state == "reads" and not now.relays)


async def test_a_program_that_ran_for_a_while_is_stable(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage(*python(*RING, "c.syscall(426, ring, 0, 1, 1, None, 0)")) as on:
        await has_ring(on)
        monkeypatch.setattr(read_state, "_STABLE_S", 1e6)
        assert not (await on.until(lambda now: now.state == "unknown")).is_stable
        monkeypatch.setattr(read_state, "_STABLE_S", 0.2)
        await on.until(lambda now: now.state == "unknown" and now.is_stable)
        # A program may have begun long after its process, as in a child that has waited at its gate.
        on.it.began_s += 1e6
        assert not (await on.until(lambda now: now.state == "unknown")).is_stable


# -- traces and changes -------------------------------------------------------------------------


async def test_a_look_leaves_no_trace_and_takes_no_terminal() -> None:
    async with stage("bash", "--norc", "-i") as on:
        await on.until()
        before, own = open_fds(), Path("/proc/self/stat").read_text().split()[6]
        for _ in range(50):
            on.look()
        assert open_fds() == before
        assert Path("/proc/self/stat").read_text().split()[6] == own


# -- changes during the look --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("groups", "told"),
    [
        ([1, 1], ReadState("busy", None, True, (1,))),
        ([1, 2, 2], ReadState("busy", None, True, (2,))),
        ([1, 2, 3, 3], ReadState("busy", None, True, (3,))),
        ([1, 2, 3, 4], ReadState("unknown")),
        ([1, None], ReadState("unknown")),
        ([None], ReadState("unknown")),
    ],
)
def test_the_foreground_is_reported_before_and_after_the_look(
    monkeypatch: pytest.MonkeyPatch, groups: list[int | None], told: ReadState
) -> None:
    """A shell takes the terminal back, or gives it to the next job, at any moment."""
    monkeypatch.setattr(
        read_state,
        "_read_foreground",
        lambda terminal, pids, group, depth: ReadState("busy", None, True, (group,)),
    )
    fronts = iter(groups)
    terminal = read_state._Terminal(lambda: next(fronts), lambda: -1, None)
    assert read_state._read_terminal(terminal, ()) == told
    assert list(fronts) == []


async def test_an_unopenable_terminal_still_has_its_input_mode(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A program may have exclusive use (TIOCEXCL), and there may be no descriptor left."""

    def refuse(master: int, slave: str) -> int:
        raise OSError

    async with stage("bash", "-c", "read -sp 'password: ' x") as on:
        await on.until(says="password")
        monkeypatch.setattr(read_state, "_open_peer", refuse)
        assert on.look() == ReadState("unknown", "secret")
