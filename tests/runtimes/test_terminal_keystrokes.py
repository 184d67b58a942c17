"""Typed input of a program on a terminal: each key is its own read, and no line is cut."""

from __future__ import annotations

import pytest
import trio

from haftd.runtimes.base import Input, InputRefused
from haftd.runtimes.terminal.library import load
from haftd.runtimes.terminal.screen import Screen
from tests.patience import PATIENCE_S
from tests.terminations import termination

from . import kit
from .test_terminal import RAW_READER, reader, reads, shell, started


async def test_a_line_ends_with_enter() -> None:
    async with trio.open_nursery() as nursery:
        performance = await started(nursery, shell("echo READY; read a; echo got:$a"), b"READY")
        performance.control.write(Input("line", "y"))
        await performance.finish()
    assert b"got:y\r\n" in performance.port.output
    async with trio.open_nursery() as nursery:
        call = shell("stty -icrnl; echo READY; read a; echo got:$a")
        performance = await started(nursery, call, b"READY")
        performance.control.write(Input("line", "y"))
        await performance.finish()
    assert b"got:y\r\n" in performance.port.output


async def test_RB_027_enter_is_a_read_of_its_own() -> None:
    async with trio.open_nursery() as nursery:
        performance = await started(nursery, reader(), b"READY\r\n")
        performance.control.write(Input("line", "hello"))
        performance.control.write(Input("keys", keys=("a", "Escape", "b", "Up")))
        performance.control.write(Input("text", "text and more"))
        performance.control.write(Input("keys", keys=("Enter",)))
        number = performance.control.write(Input("keys", keys=("q",)))
        await performance.finish()
        assert performance.port.number == number
    expected = [b"hello", b"\r", b"a", b"\x1b", b"b", b"\x1b[A", b"text and more", b"\r", b"q"]
    assert reads(performance.port) == expected


async def test_a_key_waits_for_a_busy_program_but_not_for_ever() -> None:
    script = RAW_READER.replace('b"READY\\r\\n")', 'b"READY\\r\\n"); import time; time.sleep(0.4)')
    async with trio.open_nursery() as nursery:
        call = kit.python(script, terminal=True)
        performance = await started(nursery, call, b"READY\r\n")
        performance.control.write(Input("line", "hello"))
        await performance.port.until(lambda: performance.port.number == 1)
        performance.control.write(Input("keys", keys=("q",)))
        await performance.finish()
    assert reads(performance.port) == [b"hello", b"\r", b"q"]
    script = "stty raw -echo; echo READY; sleep 60"
    async with trio.open_nursery() as nursery:
        performance = await started(nursery, shell(script), b"READY")
        with trio.fail_after(PATIENCE_S):
            performance.control.write(Input("line", "hello"))
            await performance.port.until(lambda: performance.port.number == 1)
        performance.scope.cancel()


async def test_a_key_without_bytes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    load()
    monkeypatch.setattr(Screen, "encode_key", lambda self, press: b"")
    async with trio.open_nursery() as nursery:
        performance = await started(nursery, reader(), b"READY\r\n")
        with pytest.raises(InputRefused, match="has no code for the key 'Up'"):
            performance.control.write(Input("keys", keys=("a", "Up")))
        performance.control.write(Input("keys", keys=("q",)))
        await performance.finish()
    assert reads(performance.port) == [b"q"]


async def test_only_an_unsendable_key_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load()
    script = RAW_READER.replace('b"READY\\r\\n")', 'b"READY\\r\\n"); import time; time.sleep(0.4)')
    async with trio.open_nursery() as nursery:
        performance = await started(nursery, kit.python(script, terminal=True), b"READY\r\n")
        performance.control.write(Input("text", "hello"))
        dropped = performance.control.write(Input("keys", keys=("a", "Up")))
        monkeypatch.setattr(Screen, "encode_key", lambda self, press: b"")
        await performance.port.until(lambda: performance.port.number == dropped)
        performance.control.write(Input("keys", keys=("q",)))
        await performance.finish()
    assert reads(performance.port) == [b"hello", b"q"]


async def test_text_is_text_and_never_a_key() -> None:
    lines = ["ls;", "Enter", "C-c", "\x16\x03", "\\n", "^D", "é ≤ 漢"]
    async with trio.open_nursery() as nursery:
        performance = await started(
            nursery, shell("stty -echo; echo READY; exec cat"), b"READY\r\n"
        )
        for line in lines:
            performance.control.write(Input("text", line + "\n"))
        performance.control.write(Input("eof"))
        await performance.finish()
    said = bytes(performance.port.output).decode().split("\r\n")[1:]
    assert said == [line.replace("\x16", "") for line in lines] + [""]


async def test_RB_018_end_of_input_also_ends_an_unfinished_line() -> None:
    for text in ("foo\n", "foo", ""):
        async with trio.open_nursery() as nursery:
            performance = await started(nursery, shell("echo READY; exec cat"), b"READY\r\n")
            if text:
                performance.control.write(Input("text", text))
            with trio.fail_after(PATIENCE_S):
                performance.control.write(Input("eof"))
                await performance.finish()
        assert performance.port.end == termination(code=0)
        assert performance.port.output.count(b"foo") == (2 if text else 0)


async def test_end_of_input_ends_one_reader_only() -> None:
    async with trio.open_nursery() as nursery:
        script = "echo READY; cat; echo between; cat; echo after"
        performance = await started(nursery, shell(script), b"READY\r\n")
        performance.control.write(Input("line", "one"))
        performance.control.write(Input("eof"))
        await performance.port.until(lambda: b"between" in performance.port.output)
        performance.control.write(Input("text", "two"))
        performance.control.write(Input("eof"))
        await performance.finish()
    assert b"after" in performance.port.output
    assert performance.port.output.count(b"two") == 2


async def test_RB_028_a_paste_is_bracketed_only_on_request() -> None:
    async with trio.open_nursery() as nursery:
        performance = await started(nursery, reader("--paste"), b"READY\r\n")
        performance.control.write(Input("paste", "a\nb\x1b[201~c"))
        performance.control.write(Input("keys", keys=("q",)))
        await performance.finish()
    assert b"".join(reads(performance.port)) == b"\x1b[200~a\nbc\x1b[201~q"
    async with trio.open_nursery() as nursery:
        performance = await started(nursery, reader(), b"READY\r\n")
        performance.control.write(Input("paste", "a\nb"))
        performance.control.write(Input("keys", keys=("q",)))
        await performance.finish()
    assert b"".join(reads(performance.port)) == b"a\rbq"


async def test_the_application_cursor_mode_reaches_the_keys() -> None:
    async with trio.open_nursery() as nursery:
        performance = await started(nursery, reader("--app"), b"READY\r\n")
        performance.control.write(Input("keys", keys=("Up", "Home", "F5", "C-c", "q")))
        await performance.finish()
    assert reads(performance.port) == [b"\x1bOA", b"\x1bOH", b"\x1b[15~", b"\x03", b"q"]


async def test_a_line_too_long_for_the_terminal_is_refused_with_the_alternative() -> None:
    async with trio.open_nursery() as nursery:
        script = "stty -echo; echo READY; wc -c"
        performance = await started(nursery, shell(script), b"READY\r\n")
        control = performance.control
        for item in (
            Input("line", "x" * 4096),
            Input("text", "a\n" + "x" * 5000),
            Input("paste", "é" * 2100),
        ):
            with pytest.raises(InputRefused, match="too long for a terminal"):
                control.write(item)
        assert control.write(Input("text", "x" * 2000)) == 1
        with pytest.raises(InputRefused, match="4,096 bytes"):
            control.write(Input("line", "x" * 2096))
        assert control.write(Input("line", "x" * 2095)) == 2
        assert control.write(Input("text", ("y" * 4000 + "\n") * 50)) == 3
        control.write(Input("eof"))
        await performance.finish()
    assert performance.port.output == b"READY\r\n%d\r\n" % (4096 + 50 * 4001)


async def test_a_raw_program_takes_lines_of_any_length() -> None:
    async with trio.open_nursery() as nursery:
        performance = await started(nursery, reader(), b"READY\r\n")
        performance.control.write(Input("text", "x" * 300_000))
        performance.control.write(Input("keys", keys=("q",)))
        await performance.finish()
    assert b"".join(reads(performance.port)) == b"x" * 300_000 + b"q"


async def test_unread_input_is_bounded() -> None:
    async with trio.open_nursery() as nursery:
        script = "stty raw -echo; echo READY; sleep 60"
        performance = await started(nursery, shell(script), b"READY")
        with pytest.raises(InputRefused, match="does not read"):
            for _ in range(100):
                performance.control.write(Input("text", "x" * 100_000))
        performance.scope.cancel()
