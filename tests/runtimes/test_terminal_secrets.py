"""Secrets are typed with the echo off, and appear nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from haftd.runtimes.base import Input, InputRefused
from tests.patience import PATIENCE_S

from . import kit
from .test_terminal import shell, started


async def test_RB_022_a_secret_is_typed_when_the_echo_is_off() -> None:
    script = (
        "import getpass, time\n"
        "print('WORKING', flush=True); time.sleep(0.2)\n"
        "print('LEN', len(getpass.getpass('Password: ')))\n"
    )
    async with trio.open_nursery() as nursery:
        call = kit.python(script, terminal=True)
        performance = await started(nursery, call, b"WORKING")
        number = performance.control.write(Input("line", "hunter2", secret=True))
        assert performance.port.number < number
        with pytest.raises(InputRefused, match="secret input waits"):
            performance.control.write(Input("line", "x"))
        await performance.finish()
        assert performance.port.number == number
    assert b"LEN 7" in performance.port.output
    assert b"hunter2" not in performance.port.output


async def test_a_secret_is_typed_however_late_the_echo_goes_off() -> None:
    script = "printf 'Password: '; sleep 0.6; stty -echo; read x; stty echo; echo; echo LEN ${#x}"
    async with trio.open_nursery() as nursery:
        performance = await started(nursery, shell(script), b"Password: ")
        number = performance.control.write(Input("line", "hunter2", secret=True))
        with trio.fail_after(PATIENCE_S):
            await performance.finish()
        assert performance.port.number == number
    assert b"LEN 7" in performance.port.output
    assert b"hunter2" not in performance.port.output


async def test_a_secret_for_an_open_prompt_is_typed_at_once() -> None:
    async with trio.open_nursery() as nursery:
        script = "import getpass; print('LEN', len(getpass.getpass('Password: ')))"
        call = kit.python(script, terminal=True)
        performance = await started(nursery, call, b"Password: ")
        number = performance.control.write(Input("line", "hunter2", secret=True))
        assert performance.port.number == number
        await performance.finish()
    assert b"LEN 7" in performance.port.output


async def test_a_raw_reader_gets_a_secret_only_when_reading(tmp_path: Path) -> None:
    """Its terminal never echoes: the program echoes itself, and before its children ask."""
    go = tmp_path / "go"
    script = (
        "import os, tty\n"
        "tty.setraw(0); os.write(1, b'READY')\n"
        f"while not os.path.exists({str(go)!r}): pass\n"
        "print('LEN', len(os.read(0, 100)))\n"
    )
    async with trio.open_nursery() as nursery:
        performance = await started(nursery, kit.python(script, terminal=True), b"READY")
        number = performance.control.write(Input("text", "hunter2", secret=True))
        assert performance.port.number < number
        go.touch()
        await performance.finish()
        assert performance.port.number == number
    assert b"LEN 7" in performance.port.output


async def test_an_interrupt_drops_a_pending_secret() -> None:
    async with trio.open_nursery() as nursery:
        script = "trap 'echo caught; read a; echo got:$a; exit' INT; echo READY; while :; do sleep 0.05; done"
        performance = await started(nursery, shell(script), b"READY\r\n")
        number = performance.control.write(Input("line", "hunter2", secret=True))
        performance.control.write(Input("signal", signal="INT"))
        await performance.port.until(lambda: b"caught" in performance.port.output)
        assert performance.port.number == number
        performance.control.write(Input("line", "plain"))
        await performance.finish()
    assert b"got:plain" in performance.port.output
    assert b"hunter2" not in performance.port.output


async def test_a_secret_has_no_repr() -> None:
    assert "hunter2" not in repr(Input("line", "hunter2", secret=True))
