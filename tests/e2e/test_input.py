"""`wait: input` answers when the kernel says that the program reads, never because it is silent."""

from __future__ import annotations

import itertools
import sys
from typing import Any

import pytest

from tests.running import RunningDaemon
from tests.wire import Wire

_sessions = itertools.count()

LOOKS_LIKE_A_PROMPT = """
import sys, time
for text in ("Continue? [y/N] ", "Password: ", ">>> ", "$ "):
    sys.stdout.write(text); sys.stdout.flush()
    time.sleep(0.7)                      # longer than any silence that one would wait for
    sys.stdout.write("no, still at work\\n"); sys.stdout.flush()
print("got", input("Name? "))
"""


class Terminal:
    """A handle of `run` in a terminal, in a session of its own."""

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


def test_what_looks_like_a_prompt_is_none(shared_daemon: RunningDaemon) -> None:
    with shared_daemon.connect() as wire:
        one = Terminal(wire, sys.executable, "-S", "-c", LOOKS_LIKE_A_PROMPT)
        assert one.first["waited"] == "input"
        assert one.first["content"].count("still at work") == 4
        assert one.first["input_wanted"] == {"kind": "line", "prompt": "Name? "}
        last = one.line("Ada", wait="stopped")
        assert last["result"].rstrip().endswith("got Ada")


@pytest.mark.parametrize(
    ("argv", "kind", "prompt"),
    [
        (["sh", "-c", "printf 'line: '; read x"], "line", "line: "),
        (["bash", "-c", "read -rsp 'secret: ' x"], "secret", "secret: "),
        (["bash", "-c", "read -rn1 -p 'key: ' x"], "key", "key: "),
        ([sys.executable, "-c", "import getpass; getpass.getpass('pass: ')"], "secret", "pass: "),
        ([sys.executable, "-q"], "key", ">>> "),
        (["cat"], "line", ""),
    ],
)
def test_the_kind_of_input_is_the_terminals_own_word(
    shared_daemon: RunningDaemon, argv: list[str], kind: str, prompt: str
) -> None:
    with shared_daemon.connect() as wire:
        one = Terminal(wire, *argv)
        assert one.first["waited"] == "input", one.first
        assert one.first["input_wanted"] == {"kind": kind, "prompt": prompt}
        one.call("abort")


def test_apply_answers_when_the_program_asks_again(shared_daemon: RunningDaemon) -> None:
    with shared_daemon.connect() as wire:
        one = Terminal(wire, "bash", "--norc", "--noediting")
        for number in range(20):
            state = one.line(f"sleep 0.0{number % 3}; echo n{number}")
            assert state["waited"] == "input"
            assert f"n{number}" in state["content"].partition("\n")[2].splitlines()
            assert state["content"].endswith("$ ") or state["content"].endswith("# ")
        one.call("abort")


def test_a_busy_program_wants_nothing(shared_daemon: RunningDaemon) -> None:
    with shared_daemon.connect() as wire:
        one = Terminal(wire, "bash", "--norc", "--noediting")
        one.line("sleep 60", wait="none")
        state = one.call("fetch", wait="input", timeout_ms=700)
        assert state["waited"] == "deadline" and state["input_wanted"] is None
        state = one.call("apply", input={"keys": ["C-c"]}, timeout_ms=20_000)
        assert state["waited"] == "input"
        one.call("abort")


def test_a_program_that_reads_its_pipe(shared_daemon: RunningDaemon) -> None:
    with shared_daemon.connect() as wire:
        one = Terminal(wire, "cat", terminal=False)
        assert one.first["waited"] == "input"
        assert one.first["input_wanted"] == {"kind": "line", "prompt": ""}
        state = one.line("there and back", wait="input")
        assert (state["content"], state["waited"]) == ("there and back\n", "input")
        one.call("abort")
