"""Mouse reports in the requested form, and none without a request."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from haft_protocol.inputs import Mouse
from haftd.runtimes.base import Input, InputRefused
from haftd.runtimes.process.runtime import ProcessRuntime
from haftd.testing import perform

from . import kit
from .drawn import new
from .test_terminal import RAW_READER, reads, shell, started


def mouse(action: str = "click", row: int = 2, col: int = 4, **more: Any) -> Mouse:
    return Mouse(row=row, col=col, action=action, **more)  # type: ignore[arg-type]


SGR = b"\x1b[?1006h"
NORMAL, BUTTON, ANY = b"\x1b[?1000h", b"\x1b[?1002h", b"\x1b[?1003h"


@pytest.mark.parametrize(
    ("modes", "used", "sent"),
    [
        (NORMAL, mouse(), [b"\x1b[M %#", b"\x1b[M#%#"]),
        (b"\x1b[?9h", mouse(), [b"\x1b[M %#"]),
        (NORMAL + SGR, mouse(), [b"\x1b[<0;5;3M", b"\x1b[<0;5;3m"]),
        (NORMAL + SGR, mouse("press"), [b"\x1b[<0;5;3M"]),
        (NORMAL + SGR, mouse("release"), [b"\x1b[<0;5;3m"]),
        (NORMAL + SGR, mouse(button="middle"), [b"\x1b[<1;5;3M", b"\x1b[<1;5;3m"]),
        (NORMAL + SGR, mouse(button="right"), [b"\x1b[<2;5;3M", b"\x1b[<2;5;3m"]),
        (NORMAL + SGR, mouse("press", mods=("shift",)), [b"\x1b[<4;5;3M"]),
        (NORMAL + SGR, mouse("press", mods=("meta",)), [b"\x1b[<8;5;3M"]),
        (NORMAL + SGR, mouse("press", mods=("ctrl", "shift")), [b"\x1b[<20;5;3M"]),
        (NORMAL + SGR, mouse("scroll_up"), [b"\x1b[<64;5;3M"]),
        (NORMAL + SGR, mouse("scroll_down"), [b"\x1b[<65;5;3M"]),
        (BUTTON + SGR, mouse("move", button="left"), [b"\x1b[<32;5;3M"]),
        (ANY + SGR, mouse("move"), [b"\x1b[<35;5;3M"]),
        (ANY + SGR, mouse("press", row=0, col=0), [b"\x1b[<0;1;1M"]),
        (ANY + SGR, mouse("press", row=7, col=29), [b"\x1b[<0;30;8M"]),
        (NORMAL + b"\x1b[?1015h", mouse("press"), [b"\x1b[32;5;3M"]),
        (NORMAL + b"\x1b[?1005h", mouse("press"), [b"\x1b[M %#"]),
        (NORMAL + b"\x1b[?1016h", mouse("press"), [b"\x1b[<0;36;40M"]),
    ],
)
def test_a_mouse_action_is_encoded_as_by_xterm(
    modes: bytes, used: Mouse, sent: list[bytes]
) -> None:
    screen = new()
    screen.feed(modes)
    assert list(screen.encode_mouse(used)) == sent


def test_an_action_leaves_nothing_behind_for_the_next() -> None:
    """The library's event is one for all actions of a terminal."""
    actions = [
        *(mouse("press", button=button, mods=("ctrl",)) for button in ("left", "middle", "right")),
        *(mouse(action) for action in ("press", "release", "move", "scroll_up", "scroll_down")),
        mouse("move", row=0, col=0),
    ]

    def sent(*used: Mouse) -> tuple[bytes, ...]:
        screen = new()
        screen.feed(ANY + SGR)
        return [screen.encode_mouse(one) for one in used][-1]

    for used in actions:
        assert {sent(before, used) for before in actions} == {sent(used)}


@pytest.mark.parametrize(
    ("modes", "used", "why"),
    [
        (b"", mouse(), "does not read the mouse"),
        (b"\x1b[?1000h\x1b[?1000l", mouse(), "does not read the mouse"),
        (SGR, mouse(), "does not read the mouse"),
        (NORMAL + SGR, mouse("move"), "not for this move"),
        (b"\x1b[?9h", mouse("release"), "not for this release"),
        (NORMAL, mouse(row=8), "no row 8, column 4"),
        (NORMAL, mouse(col=30), "no row 2, column 30"),
    ],
)
def test_an_unrequested_action_is_refused_with_a_reason(
    modes: bytes, used: Mouse, why: str
) -> None:
    screen = new()
    screen.feed(modes)
    with pytest.raises(InputRefused, match=why) as refused:
        screen.encode_mouse(used)
    assert not refused.value.malformed


def test_an_action_beyond_an_old_encoding_is_refused() -> None:
    screen = new(rows=300, cols=300)
    screen.feed(NORMAL)
    with pytest.raises(InputRefused, match="not for this press there"):
        screen.encode_mouse(mouse("press", row=250, col=250))


@given(
    st.lists(st.sampled_from([9, 1000, 1002, 1003, 1005, 1006, 1015, 1016]), max_size=3),
    st.sampled_from(["click", "press", "release", "move", "scroll_up", "scroll_down"]),
    st.sampled_from([None, "left", "middle", "right"]),
    st.tuples(st.integers(0, 40), st.integers(0, 300)),
)
def test_any_action_is_encoded_or_refused(
    modes: list[int], action: str, button: str | None, place: tuple[int, int]
) -> None:
    screen = new(rows=40, cols=300)
    screen.feed(b"".join(b"\x1b[?%dh" % mode for mode in modes))
    used = mouse(action, *place, button=None if "scroll" in action else button)
    try:
        parts = screen.encode_mouse(used)
    except InputRefused as refused:
        assert str(refused).endswith(".")
    else:
        assert all(part.startswith(b"\x1b[") for part in parts)
    finally:
        screen.close()


async def test_a_program_gets_its_requested_reports_each_as_its_own_read() -> None:
    script = RAW_READER.replace('b"READY', 'b"\\x1b[?1000h\\x1b[?1006hREADY')
    async with trio.open_nursery() as nursery:
        call = kit.call(sys.executable, "-I", "-c", script, terminal=True)
        performance = await started(nursery, call, b"READY\r\n")
        performance.control.write(Input("mouse", mouse=mouse()))
        performance.control.write(Input("mouse", mouse=mouse("scroll_down")))
        with pytest.raises(InputRefused, match="no row 24"):
            performance.control.write(Input("mouse", mouse=mouse(row=24)))
        performance.control.write(Input("keys", keys=("q",)))
        await performance.finish()
    expected = [b"\x1b[<0;5;3M", b"\x1b[<0;5;3m", b"\x1b[<65;5;3M", b"q"]
    assert reads(performance.port) == expected


async def test_a_program_without_a_request_gets_nothing() -> None:
    async with trio.open_nursery() as nursery:
        performance = await started(nursery, shell("echo READY; read a; echo got:$a"), b"READY")
        with pytest.raises(InputRefused, match="does not read the mouse"):
            performance.control.write(Input("mouse", mouse=mouse()))
        performance.control.write(Input("line", "x"))
        await performance.finish()
    assert performance.port.output.endswith(b"got:x\r\n")


async def test_a_handle_on_a_pipe_has_no_mouse() -> None:
    async with trio.open_nursery() as nursery:
        call = kit.shell("read a", stdin="pipe")
        performance = await perform(nursery, ProcessRuntime(), call)
        with pytest.raises(InputRefused, match="no terminal"):
            performance.control.write(Input("mouse", mouse=mouse()))
        performance.control.write(Input("line", ""))
        await performance.finish()
