"""Terminal queries: answered at once, exactly, to the program alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import trio

from haftd.runtimes.base import Input
from tests.patience import PATIENCE_S
from tests.terminations import termination

from . import kit
from .drawn import new
from .test_terminal import run, started

ST = b"\x1b\\"

ANSWERS: list[tuple[str, bytes, bytes]] = [
    ("operating status", b"\x1b[5n", b"\x1b[0n"),
    ("cursor position", b"\x1b[6n", b"\x1b[1;1R"),
    ("cursor position, moved", b"\x1b[7;9H\x1b[6n\x1b[H", b"\x1b[7;9R"),
    ("primary attributes", b"\x1b[c", b"\x1b[?62;22c"),
    ("primary attributes, as of old", b"\x1bZ", b"\x1b[?62;22c"),
    ("secondary attributes", b"\x1b[>c", b"\x1b[>1;0;0c"),
    ("tertiary attributes", b"\x1b[=c", b"\x1bP!|00000000" + ST),
    ("a mode that is set", b"\x1b[?25$p", b"\x1b[?25;1$y"),
    ("a mode that is not set", b"\x1b[?2004$p", b"\x1b[?2004;2$y"),
    ("a mode that was set", b"\x1b[?1h\x1b[?1$p\x1b[?1l", b"\x1b[?1;1$y"),
    ("a mode that nobody knows", b"\x1b[?9999$p", b"\x1b[?9999;0$y"),
    ("a mode of ANSI", b"\x1b[4$p", b"\x1b[4;2$y"),
    ("synchronized output", b"\x1b[?2026$p", b"\x1b[?2026;2$y"),
    ("grapheme clusters", b"\x1b[?2027$p", b"\x1b[?2027;2$y"),
    ("the style", b"\x1bP$qm" + ST, b"\x1bP1$r0m" + ST),
    ("the style, red", b"\x1b[31m\x1bP$qm" + ST + b"\x1b[m", b"\x1bP1$r0;31m" + ST),
    ("the scrolling region", b"\x1bP$qr" + ST, b"\x1bP1$r1;24r" + ST),
    ("the shape of the cursor", b"\x1bP$q q" + ST, b"\x1bP1$r2 q" + ST),
    ("a setting that nobody knows", b"\x1bP$qx" + ST, b"\x1bP0$r" + ST),
    ("name and version", b"\x1b[>q", b"\x1bP>|libghostty" + ST),
    ("the size in characters", b"\x1b[18t", b"\x1b[8;24;80t"),
    ("the size in pixels", b"\x1b[14t", b"\x1b[4;384;640t"),
    ("the size of a cell", b"\x1b[16t", b"\x1b[6;16;8t"),
    ("the colour of text", b"\x1b]10;?" + ST, b"\x1b]10;rgb:e5e5/e5e5/e5e5" + ST),
    ("the background", b"\x1b]11;?" + ST, b"\x1b]11;rgb:0000/0000/0000" + ST),
    ("the background, with BEL", b"\x1b]11;?\a", b"\x1b]11;rgb:0000/0000/0000\a"),
    ("the colour of the cursor", b"\x1b]12;?\a", b"\x1b]12;rgb:e5e5/e5e5/e5e5\a"),
    ("a colour of the palette", b"\x1b]4;9;?\a", b"\x1b]4;9;rgb:d5d5/4e4e/5353\a"),
    ("a colour that was set", b"\x1b]4;9;#102030\a\x1b]4;9;?\a", b"\x1b]4;9;rgb:1010/2020/3030\a"),
    ("dark or light", b"\x1b[?996n", b"\x1b[?997;1n"),
    ("the keyboard protocol", b"\x1b[?u", b"\x1b[?0u"),
    ("the keyboard protocol, set", b"\x1b[>5u\x1b[?u\x1b[<u", b"\x1b[?5u"),
    ("a capability", b"\x1bP+q436f" + ST, b"\x1bP1+r436F=323536" + ST),
    ("size reports in band", b"\x1b[?2048h\x1b[?2048l", b"\x1b[48;24;80;384;640t"),
]
"""Of a terminal of 24 rows and 80 columns, its cells 8 by 16 pixels, after a reset."""

SILENT: list[tuple[str, bytes]] = [
    ("the title, typed back", b"\x1b]0;rm -rf x\r\a\x1b[21t"),
    ("the icon's title", b"\x1b]1;rm -rf x\r\a\x1b[20t"),
    ("the clipboard", b"\x1b]52;c;?\a"),
    ("a file as a picture", b"\x1b_Gi=1,t=f,f=24,s=1,v=1,a=q;L2V0Yy9wYXNzd2Q=" + ST),
    ("the answerback", b"\x05"),
    ("a checksum of what is shown", b"\x1b[1;1;1;1;24;80*y"),
    ("where the window is", b"\x1b[13t"),
]
"""What reaches beyond the screen, or would let what was printed be typed."""

ASKER = """
import os, select, sys, termios, tty
old = termios.tcgetattr(0)
tty.setraw(0)
for line in [bytes.fromhex(one) for one in sys.argv[1:]]:
    os.write(1, line + b"\\x1b[5n")
    got = b""
    while not got.endswith(b"\\x1b[0n") or (line.startswith(b"\\x1b[5n") and got.count(b"n") < 2):
        ready, _, _ = select.select([0], [], [], 10)
        if not ready:
            got += b"NOTHING"
            break
        got += os.read(0, 4096)
    os.write(1, b"\\x1b[H\\x1b[2K" + got.removesuffix(b"\\x1b[0n").hex().encode() + b"\\x1b[H\\x1b[2K")
termios.tcsetattr(0, termios.TCSADRAIN, old)
"""
"""Asks each question, and behind it for the status: that answer closes the one before it."""


async def test_every_query_gets_its_answer_unseen_by_readers() -> None:
    questions = [query for _, query, _ in ANSWERS] + [query for _, query in SILENT]
    expected = [answer.hex().encode() for _, _, answer in ANSWERS] + [b""] * len(SILENT)
    call = kit.call(
        sys.executable,
        "-I",
        "-c",
        ASKER,
        *(question.hex() for question in questions),
        terminal=True,
    )
    port = await run(call)
    assert port.end == termination(code=0)
    printed = b"".join(
        query + b"\x1b[5n\x1b[H\x1b[2K" + answer + b"\x1b[H\x1b[2K"
        for query, answer in zip(questions, expected, strict=True)
    )
    for (name, *_), query, answer in zip([*ANSWERS, *SILENT], questions, expected, strict=True):
        part = query + b"\x1b[5n\x1b[H\x1b[2K" + answer + b"\x1b[H\x1b[2K"
        assert part in port.output, name
    assert port.output == printed


@pytest.mark.parametrize(("name", "query", "answer"), ANSWERS, ids=[row[0] for row in ANSWERS])
def test_an_answer_comes_with_the_last_byte_of_the_query(
    name: str, query: bytes, answer: bytes
) -> None:
    replies: list[bytes] = []
    screen = new(replies, rows=24, cols=80)
    for place in range(len(query)):
        screen.feed(query[place : place + 1])
        screen.catch_up()
    assert b"".join(replies) == answer
    assert screen.snapshot().lines == ("",) * 24


async def test_a_program_that_disables_the_echo_after_its_query_gets_the_answer() -> None:
    """As `printf '\\033[6n'; read -s` does."""
    script = r"""
printf 'ab\033[6n'; sleep 0.1; stty -echo -icanon; echo READY
IFS= read -r -d R -n 20 got; stty echo icanon; printf '%s' "$got" | od -An -c
"""
    async with trio.open_nursery() as nursery:
        call = kit.call("bash", "-c", script, terminal=True)
        performance = await started(nursery, call, b"READY")
        with trio.fail_after(PATIENCE_S):
            await performance.finish()
    assert b"033   [   1   ;   3" in performance.port.output
    assert b"^[" not in performance.port.output


async def test_an_answer_is_not_typed_to_another_program(tmp_path: Path) -> None:
    """As a shell that reads when the querying program has ended. The querying program is the
    foreground when the query is drawn."""
    script = r"""
sh -c "printf '\033[6n\033[c'; while [ ! -e GO ]; do sleep 0.02; done"
stty -echo -icanon min 0 time 5; echo READY; dd bs=100 count=1 2>/dev/null | od -An -c; stty sane
"""
    async with trio.open_nursery() as nursery:
        go = tmp_path / "go"
        script = script.replace("GO", str(go))
        call = kit.call("bash", "-ic", "set -m\n" + script, terminal=True)
        performance = await started(nursery, call, b"\x1b[c")
        with trio.fail_after(PATIENCE_S):
            while not performance.control._input._answers:  # type: ignore[attr-defined]
                await trio.sleep(0.005)  # the library is loaded and the question drawn
        go.touch()
        await performance.finish()
    assert b"033" not in performance.port.output.split(b"READY")[1]


async def test_an_untaken_answer_is_dropped_in_the_end() -> None:
    async with trio.open_nursery() as nursery:
        script = "printf '\\033[6n\\033[5n'; echo READY; read a; stty -echo; read b; echo got:$a:$b"
        performance = await started(nursery, kit.shell(script, terminal=True), b"READY")
        with trio.fail_after(PATIENCE_S):
            while performance.control._input._answers:  # type: ignore[attr-defined]
                await trio.sleep(0.02)  # no event marks the end of the wait
        performance.control.write(Input("line", "one"))
        performance.control.write(Input("line", "two"))
        await performance.finish()
    assert performance.port.output.endswith(b"got:one:two\r\n")


async def test_pending_answers_are_bounded() -> None:
    async with trio.open_nursery() as nursery:
        script = (
            "i=0; while [ $i -lt 300 ]; do printf '\\033[6n'; i=$((i+1)); done; echo READY; read a"
        )
        performance = await started(nursery, kit.shell(script, terminal=True), b"READY")
        assert len(performance.control._input._answers) <= 64  # type: ignore[attr-defined]
        performance.control.write(Input("line", ""))
        await performance.finish()
