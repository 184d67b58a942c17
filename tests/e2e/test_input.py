"""`wait: input` answers when the kernel shows that the program reads, never because of silence."""

from __future__ import annotations

import ctypes
import itertools
import os
import pickle
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.running_daemon import RunningDaemon
from tests.wire import Refused, Wire

_sessions = itertools.count()
PYTHON = (sys.executable, "-I", "-S", "-u", "-c")

LOOKS_LIKE_A_PROMPT = """
import sys, time
for text in ("Continue? [y/N] ", "Password: ", ">>> ", "$ "):
    sys.stdout.write(text); sys.stdout.flush()
    time.sleep(0.7)                      # longer than any silence that one would wait for
    sys.stdout.write("no, still at work\\n"); sys.stdout.flush()
print("got", input("Name? "))
"""


class Terminal:
    """A handle of `run` on a terminal, in its own session."""

    def __init__(self, wire: Wire, *argv: str, terminal: bool = True) -> None:
        self.wire = wire
        self.session = f"input{next(_sessions)}"
        self.first = self.call(
            "spawn", tool="run", args={"argv": list(argv), "terminal": terminal}, wait="input",
            timeout_ms=20_000,
        )  # fmt: skip

    def call(self, method: str, **params: Any) -> Any:
        return self.wire.call(method, session=self.session, id="t", **params)

    def line(self, text: str, **more: Any) -> Any:
        return self.call("apply", input={"line": text}, **{"timeout_ms": 20_000} | more)


def test_prompt_like_output_is_no_prompt(shared_daemon: RunningDaemon) -> None:
    with shared_daemon.connect() as wire:
        terminal = Terminal(wire, sys.executable, "-S", "-c", LOOKS_LIKE_A_PROMPT)
        assert terminal.first["waited"] == "input"
        assert terminal.first["content"].count("still at work") == 4
        assert terminal.first["input_wanted"] == {"kind": "line", "prompt": "Name? "}
        last = terminal.line("Ada", wait="stopped")
        assert last["result"].rstrip().endswith("got Ada")


@pytest.mark.parametrize(
    "argv",
    [
        ["less", "/etc/passwd"],
        ["less", "-X", "/etc/passwd"],
        ["vim", "-u", "NONE", "-i", "NONE"],
        ["top"],
    ],
    ids=" ".join,
)
def test_raw_mode_without_line_editing_means_single_keys(
    shared_daemon: RunningDaemon, argv: list[str]
) -> None:
    """vim asks for bracketed paste, too."""
    if shutil.which(argv[0]) is None:
        pytest.skip(f"needs {argv[0]}")
    with shared_daemon.connect() as wire:
        terminal = Terminal(wire, *argv)
        assert terminal.first["waited"] == "input", terminal.first
        assert terminal.first["input_wanted"]["kind"] == "key"
        terminal.call("abort")


@pytest.mark.parametrize(
    ("argv", "kind", "prompt"),
    [
        (["sh", "-c", "printf 'line: '; read x"], "line", "line: "),
        (["bash", "-c", "read -rsp 'secret: ' x"], "secret", "secret: "),
        (["bash", "-c", "read -rn1 -p 'key: ' x"], "key", "key: "),
        ([sys.executable, "-c", "import getpass; getpass.getpass('pass: ')"], "secret", "pass: "),
        ([sys.executable, "-q"], "line", ">>> "),
        (["bash", "-c", "read -e -p 'name: ' x"], "line", "name: "),
        (["cat"], "line", ""),
    ],
)
def test_the_input_kind_follows_the_terminal_modes(
    shared_daemon: RunningDaemon, argv: list[str], kind: str, prompt: str
) -> None:
    with shared_daemon.connect() as wire:
        terminal = Terminal(wire, *argv)
        assert terminal.first["waited"] == "input", terminal.first
        assert terminal.first["input_wanted"] == {"kind": kind, "prompt": prompt}
        terminal.call("abort")


def test_apply_answers_when_the_program_asks_again(shared_daemon: RunningDaemon) -> None:
    with shared_daemon.connect() as wire:
        terminal = Terminal(wire, "bash", "--norc", "--noediting")
        for number in range(20):
            state = terminal.line(f"sleep 0.0{number % 3}; echo n{number}")
            assert state["waited"] == "input"
            assert f"n{number}" in state["content"].partition("\n")[2].splitlines()
            assert state["content"].endswith("$ ") or state["content"].endswith("# ")
        terminal.call("abort")


def test_a_busy_program_is_not_waiting(shared_daemon: RunningDaemon) -> None:
    with shared_daemon.connect() as wire:
        terminal = Terminal(wire, "bash", "--norc", "--noediting")
        terminal.line("sleep 60", wait="none")
        state = terminal.call("fetch", wait="input", timeout_ms=700)
        assert state["waited"] == "deadline" and state["input_wanted"] is None
        state = terminal.call("apply", input={"keys": ["C-c"]}, timeout_ms=20_000)
        assert state["waited"] == "input"
        terminal.call("abort")


def test_a_program_that_reads_its_pipe_is_waiting(shared_daemon: RunningDaemon) -> None:
    with shared_daemon.connect() as wire:
        terminal = Terminal(wire, "cat", terminal=False)
        assert terminal.first["waited"] == "input"
        assert terminal.first["input_wanted"] == {"kind": "line", "prompt": ""}
        state = terminal.line("there and back", wait="input")
        assert (state["content"], state["waited"]) == ("there and back\n", "input")
        terminal.call("abort")


PIPED: dict[str, tuple[list[str], list[tuple[str, str]]]] = {
    "sh": (["sh"], [("echo o''ne", "one\n"), ("sleep 0.05; echo two", "two\n"), ("x=3", "")]),
    "bash": (["bash"], [("echo o''ne", "one\n"), ("(sleep 0.05; echo two) | cat", "two\n")]),
    "python": (
        [*PYTHON, "while True: print(input('? ').upper())"],
        [("a", "A\n? "), ("b", "B\n? ")],
    ),
    "python's select": (
        [*PYTHON, "import select, sys\nwhile select.select([0], [], []): print(input())"],
        [("a", "a\n"), ("b", "b\n")],
    ),
    "a pipeline": (["sh", "-c", "cat | sed -u s/^/x/"], [("a", "")]),
    "a wrapper": (["sh", "-c", "env cat; exit 3"], [("a", "a\n"), ("b", "b\n")]),
}


@pytest.mark.parametrize("name", PIPED)
def test_any_reader_of_the_pipe_counts_as_waiting(shared_daemon: RunningDaemon, name: str) -> None:
    argv, dialogue = PIPED[name]
    with shared_daemon.connect() as wire:
        terminal = Terminal(wire, *argv, terminal=False)
        assert terminal.first["waited"] == "input"
        for said, shown in dialogue:
            state = terminal.line(said, wait="input")
            assert state["waited"] == "input" and state["input_wanted"]["kind"] == "line"
            assert state["content"].startswith(shown)
        terminal.call("abort")


WORKS_ON_A_PIPE = {
    "sleep": "time.sleep(0.7)",
    "another pipe": "r, w = os.pipe(); threading.Timer(0.7, os.write, (w, b'.')).start(); os.read(r, 1)",
    "a child": "subprocess.run(['sh', '-c', 'sleep 0.7; cat'], stdin=subprocess.DEVNULL)",
    "a loop that has it": (
        "p = subprocess.Popen(['sleep', '0.7'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE);"
        "e = select.epoll(); e.register(0, 1); e.register(p.stdout, 1); e.poll(); p.communicate()"
    ),
}


@pytest.mark.parametrize("way", WORKS_ON_A_PIPE)
def test_a_busy_program_on_a_pipe_is_not_waiting(shared_daemon: RunningDaemon, way: str) -> None:
    lines = (
        "import os, select, subprocess, sys, threading, time",
        "print('Continue? [y/N] ', end='', flush=True)",
        WORKS_ON_A_PIPE[way],
        "print('still at work', flush=True); sys.stdin.readline()",
    )
    with shared_daemon.connect() as wire:
        terminal = Terminal(wire, *PYTHON, "\n".join(lines), terminal=False)
        state, shown = terminal.first, terminal.first["content"]
        while state["waited"] == "quiet":  # unknown: not reported as waiting
            state = terminal.call("fetch", wait="input", quiet_ms=2000, timeout_ms=20_000)
            shown += state["content"]
        assert state["waited"] == "input" and shown.endswith("still at work\n")
        terminal.call("abort")


HIDDEN = (
    "import ctypes, getpass, sys, time",
    "ctypes.CDLL(None).prctl(4, 0)",  # PR_SET_DUMPABLE hides the process's state
    "ask = getpass.getpass if sys.stdin.isatty() else input",
    "for n in 'one', 'two': print('got', ask(n + '? '), flush=True)",
)


@pytest.fixture(scope="module")
def unseen() -> dict[bool, list[dict[str, Any]]]:
    """The replies of dialogues on a terminal and on pipes with a program that the daemon has no
    right to look into, as one of another user such as sudo."""

    def dialogues() -> dict[bool, list[dict[str, Any]]]:
        with tempfile.TemporaryDirectory(prefix="haft-") as folder:
            daemon = RunningDaemon(Path(folder)).start(as_child=True)
            try:
                return {terminal: dialogue(daemon, terminal) for terminal in (True, False)}
            finally:
                daemon.close()

    def dialogue(daemon: RunningDaemon, terminal: bool) -> list[dict[str, Any]]:
        with daemon.connect() as wire:
            one = Terminal(wire, *PYTHON, "\n".join(HIDDEN), terminal=terminal)
            return [one.first, one.line("x", wait="input")]

    replies: dict[bool, list[dict[str, Any]]] = without_the_right_to_look(dialogues)
    return replies


@pytest.mark.parametrize("terminal", [True, False])
def test_without_ptrace_rights_silence_decides_and_is_reported(
    unseen: dict[bool, list[dict[str, Any]]], terminal: bool
) -> None:
    first, second = unseen[terminal]
    assert (first["waited"], second["waited"]) == ("quiet", "quiet")
    assert "got x\n" in second["content"].replace("\r\n", "\n")
    if terminal:
        assert first["input_wanted"] == {"kind": "secret", "prompt": "one? ", "certain": False}
        assert second["input_wanted"] == {"kind": "secret", "prompt": "two? ", "certain": False}


def test_for_a_reader_behind_a_socket_silence_decides(
    shared_daemon: RunningDaemon, short_tmp: Path
) -> None:
    if shutil.which("tmux") is None:
        pytest.skip("needs tmux")
    argv = ("tmux", "-S", str(short_tmp / "socket"), "-f", "/dev/null", "new", "bash --norc")
    with shared_daemon.connect() as wire:
        terminal = Terminal(wire, *argv)
        assert terminal.first["waited"] == "quiet"
        state = terminal.line("echo o''ne", view="screen")
        assert state["waited"] == "quiet" and "one" in state["screen"]["lines"]
        terminal.call("abort")


def without_the_right_to_look(do: Callable[[], Any]) -> Any:
    """Run a function in a process whose children may not inspect undumpable processes; return
    its result. Only root can inspect them, with the capability."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            dropped = ctypes.CDLL(None).prctl(24, 19)  # PR_CAPBSET_DROP, CAP_SYS_PTRACE
            assert dropped == 0 or os.geteuid() != 0
            os.write(theirs, pickle.dumps(do()))
        except BaseException:
            os.write(theirs, pickle.dumps(traceback.format_exc()))
        finally:
            os._exit(0)
    os.close(theirs)
    with open(ours, "rb") as file:
        outcome = pickle.load(file)
    os.waitpid(child, 0)
    assert not isinstance(outcome, str), outcome
    return outcome


SECRET = "canary-typed-ahead"


@pytest.mark.parametrize("turn", range(5))
def test_an_early_secret_is_never_shown(shared_daemon: RunningDaemon, turn: int) -> None:
    with shared_daemon.connect() as wire:
        terminal = Terminal(wire, "bash", "--norc")
        asks = "sleep 0.2; read -rs X; echo got ${#X}"
        terminal.call("apply", input={"line": asks}, wait="none", view="tail", max_bytes=0)
        terminal.line(SECRET, wait="none", view="tail", max_bytes=0)  # not secret: may be shown
        terminal.call("abort")
    with shared_daemon.connect() as wire:
        terminal = Terminal(wire, "bash", "--norc")
        terminal.call("apply", input={"line": asks}, wait="none", view="tail", max_bytes=0)
        secret = {"line": SECRET, "secret": True}
        terminal.call("apply", input=secret, pattern="got [0-9]+", timeout_ms=20_000)
        shown = terminal.call("fetch", view="all")["content"]
        assert f"got {len(SECRET)}" in shown and SECRET not in shown


def test_an_unrequested_secret_is_held_and_the_actual_read_reported(
    shared_daemon: RunningDaemon,
) -> None:
    with shared_daemon.connect() as wire:
        terminal = Terminal(wire, "bash", "-c", "read -p 'name: ' n; echo got $n")
        held = terminal.call("apply", input={"line": SECRET, "secret": True}, timeout_ms=300)
        assert (held["state"], held["waited"], held["content"]) == ("running", "deadline", "")
        assert held["input_wanted"] == {"kind": "line", "prompt": "name: "}
        assert terminal.call("fetch")["input_wanted"] == {"kind": "line", "prompt": "name: "}


def test_a_refused_secret_is_not_repeated(shared_daemon: RunningDaemon) -> None:
    with shared_daemon.connect() as wire:
        terminal = Terminal(wire, "cat")
        for kind in ("keys", "line", "text", "paste"):
            value = [SECRET] if kind == "keys" else [SECRET, SECRET]
            with pytest.raises(Refused) as refused:
                terminal.call("apply", input={kind: value, "secret": True})
            assert refused.value.code == -32602
            assert SECRET not in f"{refused.value} {refused.value.data}"


def test_a_secret_goes_to_a_program_that_reads_keys_without_echo(
    shared_daemon: RunningDaemon,
) -> None:
    program = (
        "import os, sys, tty; tty.setraw(0); os.write(1, b'PIN '); data = b''\n"
        "while not data.endswith(b'\\r'): data += os.read(0, 1)\n"
        "os.write(1, b'%d\\r\\n' % len(data))"
    )
    with shared_daemon.connect() as wire:
        terminal = Terminal(wire, sys.executable, "-S", "-c", program)
        secret = {"line": SECRET, "secret": True}
        last = terminal.call("apply", input=secret, wait="stopped", timeout_ms=20_000)
        assert last["result"].split()[-1] == str(len(SECRET) + 1)
