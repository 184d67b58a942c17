"""Public reports, group F: characters in pieces, and invalid bytes."""

from __future__ import annotations

import base64
import sys

from tests.cases.conftest import FIXTURES, Desk, text


def test_RB_031_a_character_in_pieces_stays_whole(desk: Desk) -> None:
    for on_terminal in (False, True):
        handle = desk.spawn(sys.executable, "-S", str(FIXTURES / "drip.py"), pty=on_terminal)
        parts = []
        while True:
            state = desk.fetch(handle, wait="output", timeout_ms=5000)
            parts.append(text(state))
            if state["state"] == "stopped":
                break
        assert "".join(parts) == "a≤z\n"


def test_RB_031_a_limit_never_cuts_a_character(desk: Desk) -> None:
    handle = desk.spawn(sh=r"printf 'AAAA\342\202\254BBBB'", wait="stopped")
    for more in ({"max_bytes": 5}, {"max_bytes": 6, "cursor": 0}, {"max_bytes": 6, "view": "tail"}):
        state = desk.fetch(handle, **more)
        assert "\ufffd" not in text(state)
        assert state["omitted"] > 0
    assert text(desk.fetch(handle, view="all")) == "AAAA€BBBB"


def test_RB_031_an_unfinished_character_at_the_end_is_shown_once(desk: Desk) -> None:
    assert text(desk.done(desk.spawn(sh=r"printf 'A\342\202'"))) == "A\ufffd"


def test_RB_032_invalid_utf8_is_replaced(desk: Desk) -> None:
    state = desk.done(desk.spawn(sh=r"printf '\377\376\000\001ok\n'"))
    assert state["exit"] == {"code": 0}
    assert text(state) == "\ufffd\ufffd\x00\x01ok\n"
    state = desk.done(desk.spawn(sh="head -c 65536 /dev/urandom"))
    assert state["cursor"] == 65536 and "\ufffd" in text(state)
    assert desk.wire.call("ping") == {"pong": True}


def test_RB_032_the_raw_bytes_are_available(desk: Desk) -> None:
    every = "import os, sys; os.write(1, bytes(range(256)) * 256)"
    handle = desk.spawn(sys.executable, "-S", "-c", every, wait="stopped")
    state = desk.fetch(handle, view="raw", cursor=0, max_bytes=1 << 20)
    assert base64.b64decode(state["content"]) == bytes(range(256)) * 256
