from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from haftd.runtimes.terminal.keyboard_owner import KeyboardOwner

OURS = os.getpgrp()


class Terminal:
    """A foreground moved by the test, and the owner by the output."""

    def __init__(self, foreground: int | None) -> None:
        self.foreground = foreground
        self.owner = KeyboardOwner(lambda: self.foreground)

    def printed(self, group: int | None, data: bytes) -> None:
        self.foreground = group
        self.owner.note_output(data)


@pytest.fixture
def gone() -> int:
    """A process group that has ended."""
    process = subprocess.Popen([sys.executable, "-S", "-c", ""], process_group=0)
    process.wait()
    return process.pid


@pytest.fixture
def lives() -> Iterator[int]:
    """A process group that lives."""
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE, process_group=0
    )
    with process:
        yield process.pid
        process.kill()


@pytest.mark.parametrize("request_", [b"\x1b[>1u", b"\x1b[>31u", b"\x1b[=5;1u", b"\x1b[>4;2m"])
@pytest.mark.parametrize("at", range(9))
def test_a_vanished_groups_protocol_is_left_over_in_any_form_of_request(
    gone: int, request_: bytes, at: int
) -> None:
    terminal = Terminal(OURS)
    terminal.printed(gone, b"text" + request_[:at])
    terminal.printed(gone, request_[at:] + b"more")
    assert not terminal.owner.is_left_over()
    terminal.foreground = OURS
    assert terminal.owner.is_left_over()


def test_a_living_groups_protocol_is_not_left_over(lives: int) -> None:
    terminal = Terminal(OURS)
    terminal.printed(lives, b"\x1b[>1u")
    terminal.foreground = OURS
    assert not terminal.owner.is_left_over()


def test_a_protocol_set_anew_by_the_foreground_is_its_own(gone: int) -> None:
    terminal = Terminal(OURS)
    terminal.printed(gone, b"\x1b[>1u")
    terminal.printed(OURS, b"\x1b[>5u")
    assert not terminal.owner.is_left_over()
    terminal.printed(OURS, b"\x1b[<u")
    assert terminal.owner.is_left_over()
    terminal.printed(OURS, b"\x1b[<1u")
    assert not terminal.owner.is_left_over()


def test_output_without_a_request_has_no_owner(gone: int) -> None:
    terminal = Terminal(OURS)
    terminal.printed(gone, b"\x1b[31m\x1b[>c\x1b[?1u\x1b[?2004h")
    terminal.foreground = OURS
    assert not terminal.owner.is_left_over()
