"""Execution control of a program on a terminal, by its parts."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from haftd.host.input_state.read_state import ReadState
from haftd.runtimes.terminal import library
from haftd.runtimes.terminal.runtime import TerminalControl
from haftd.runtimes.terminal.screen import Screen


class Stage:
    """The parts of an execution control, which record their calls."""

    def __init__(self, *, group: int | None = 7, signalled: bool = True) -> None:
        self.done: list[tuple[Any, ...]] = []
        self.group, self.signalled = group, signalled
        self.master = -1
        self._input = SimpleNamespace(drop_secrets=lambda: self.done.append(("dropped",)))
        self._screen = SimpleNamespace(
            frame=None,
            is_behind=False,
            end_string=lambda: False,
            resize=lambda *size: self.done.append(("screen", *size)),
        )
        self._transcript = SimpleNamespace(
            resize=lambda *size: self.done.append(("transcript", *size))
        )
        tree = SimpleNamespace(signal_group=self._group, signal=self._all)
        launched = SimpleNamespace(slave="", began_s=0.0)
        self.child = SimpleNamespace(tree=tree, ended=False, pid=1, launched=launched)

    def _group(self, number: int, group: int) -> bool:
        self.done.append(("group", group))
        return self.signalled

    def _all(self, number: int) -> None:
        self.done.append(("all",))


def signalled(name: str, monkeypatch: pytest.MonkeyPatch, **of: Any) -> list[tuple[Any, ...]]:
    stage: Any = Stage(**of)
    monkeypatch.setattr(
        "haftd.runtimes.terminal.runtime.pseudo_terminal.foreground", lambda master: stage.group
    )
    TerminalControl._signal(stage, name)
    done: list[tuple[Any, ...]] = stage.done
    return done


@pytest.mark.parametrize("name", ["INT", "QUIT", "TERM", "KILL", "HUP"])
def test_an_interrupt_drops_pending_secrets(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert signalled(name, monkeypatch) == [("dropped",), ("group", 7)]


@pytest.mark.parametrize("name", ["WINCH", "USR1", "CONT", "TSTP"])
def test_other_signals_drop_nothing(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert signalled(name, monkeypatch) == [("group", 7)]


def test_without_a_foreground_job_all_processes_are_signalled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert signalled("USR1", monkeypatch, group=None) == [("all",)]
    assert signalled("USR1", monkeypatch, signalled=False) == [("group", 7), ("all",)]


def test_screen_and_text_have_the_size_of_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage: Any = Stage()
    monkeypatch.setattr(
        "haftd.runtimes.terminal.runtime.pseudo_terminal.set_size", lambda *size: None
    )
    TerminalControl._resize(stage, 30, 90)
    assert stage.done == [("screen", 30, 90), ("transcript", 30, 90)]


@pytest.mark.parametrize(
    ("printed", "state"),
    [((False, False), "reads"), ((True, False), "busy"), ((False, True), "busy")],
)
def test_a_program_with_unprocessed_output_is_busy(
    monkeypatch: pytest.MonkeyPatch, printed: tuple[bool, bool], state: str
) -> None:
    """Printed before or during the look: the output belongs before the answer."""
    answers = iter(printed)
    monkeypatch.setattr(
        "haftd.runtimes.terminal.runtime.pump.is_readable", lambda master: next(answers)
    )
    monkeypatch.setattr(
        "haftd.runtimes.terminal.runtime.read_state.read_terminal_state",
        lambda *of: ReadState("reads", "line", True),
    )
    stage: Any = Stage()
    assert TerminalControl._kernel_state(stage).state == state


def test_the_age_of_a_program_is_that_since_its_gate_was_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("haftd.runtimes.terminal.runtime.pump.is_readable", lambda master: False)
    times: list[float] = []

    def note(master: int, slave: str, pids: tuple[int, ...], began_s: float) -> ReadState:
        times.append(began_s)
        return ReadState("unknown")

    monkeypatch.setattr("haftd.runtimes.terminal.runtime.read_state.read_terminal_state", note)
    stage: Any = Stage()
    stage.child.launched.began_s = 7.0
    TerminalControl._kernel_state(stage)
    assert times == [7.0]


def test_a_program_with_undrawn_output_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The output may be a query whose answer the program awaits."""
    monkeypatch.setattr("haftd.runtimes.terminal.runtime.pump.is_readable", lambda master: False)
    monkeypatch.setattr(
        "haftd.runtimes.terminal.runtime.read_state.read_terminal_state",
        lambda *of: ReadState("reads", "key", True),
    )
    stage: Any = Stage()
    stage._screen.is_behind = True
    assert TerminalControl._kernel_state(stage).state == "busy"


def test_a_program_within_a_frame_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("haftd.runtimes.terminal.runtime.pump.is_readable", lambda master: False)
    monkeypatch.setattr(
        "haftd.runtimes.terminal.runtime.read_state.read_terminal_state",
        lambda *of: ReadState("reads", "key", True),
    )
    stage: Any = Stage()
    stage._screen.frame = 0
    assert TerminalControl._kernel_state(stage).state == "busy"


async def test_the_end_of_a_program_does_not_wait_for_the_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, release, loaded = threading.Event(), threading.Event(), threading.Event()

    def load() -> None:
        begun.set()
        release.wait(5)
        loaded.set()

    library = "haftd.runtimes.terminal.runtime.library"
    monkeypatch.setattr(f"{library}.load", load)
    monkeypatch.setattr(f"{library}.is_loading", lambda: False)
    stage: Any = SimpleNamespace()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(TerminalControl.load, stage)
        await trio.to_thread.run_sync(begun.wait)
        nursery.cancel_scope.cancel()
    assert not loaded.is_set()
    release.set()


async def test_the_last_screen_is_kept_although_the_execution_is_cancelled() -> None:
    draws = iter([True, False])
    screen = SimpleNamespace(
        end_frame=lambda: None,
        has_backlog=True,
        waits_for_library=False,
        draw=lambda: next(draws),
        close=lambda: "last",
    )
    stage: Any = SimpleNamespace(_screen=screen, _last=None)
    with trio.CancelScope() as scope:
        scope.cancel()
        await TerminalControl.finish(stage)
    assert stage._last == "last"


@pytest.mark.parametrize(
    ("echo", "loaded", "alone", "alternate", "edits"),
    [
        (True, True, True, False, False),
        (True, False, True, False, False),
        (False, False, True, False, True),
        (False, False, False, False, False),
        (False, True, False, False, True),
        (False, True, False, True, False),
    ],
)
def test_a_program_without_echo_outside_the_alternate_screen_edits_a_line(
    monkeypatch: pytest.MonkeyPatch,
    echo: bool,
    loaded: bool,
    alone: bool,
    alternate: bool,
    edits: bool,
) -> None:
    runtime = "haftd.runtimes.terminal.runtime"
    modes = SimpleNamespace(echo=echo, gives_enter_alone=alone)
    monkeypatch.setattr(f"{runtime}.pseudo_terminal.modes", lambda master: modes)
    monkeypatch.setattr(f"{runtime}.library.is_loaded", lambda: loaded)
    stage: Any = SimpleNamespace(
        master=-1,
        _screen=SimpleNamespace(is_alternate=alternate),
        _input=SimpleNamespace(edits_line=lambda modes: True),
    )
    assert TerminalControl._edits_line(stage) == edits


def ended_with(printed: bytes) -> Any:
    library.load()
    screen = Screen(4, 10, lambda reply: None)
    screen.queue(printed)
    return SimpleNamespace(_screen=screen)


async def test_an_end_without_undrawn_output_takes_no_pass_of_the_loop() -> None:
    stage = ended_with(b"drawn")
    while stage._screen.draw():
        pass
    with trio.testing.assert_no_checkpoints():
        await TerminalControl.finish(stage)
    assert stage._is_finished and stage._last.lines[0] == "drawn"


async def test_an_end_draws_the_rest_in_turns() -> None:
    stage = ended_with(b"rest")
    with trio.testing.assert_checkpoints():
        await TerminalControl.finish(stage)
    assert stage._is_finished and stage._last.lines[0] == "rest"
