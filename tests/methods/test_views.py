from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest

from haftd.runtimes.terminal.screen import Screen
from tests.methods.conftest import Room
from tests.wire import Refused

COLOURED = r"printf '\033[31mred\033[0m \377\n'"


def on_terminal(room: Room, id: str, sh: str, **more: Any) -> Any:
    args = {"argv": ["sh", "-c", sh], "terminal": True}
    return room.call("spawn", tool="run", id=id, args=args, **({"timeout_ms": 20_000} | more))


def raw_of(room: Room, id: str, **more: Any) -> tuple[bytes, Any]:
    state = room.call("fetch", id=id, view="raw", **more)
    return b64decode(state["content"]), state


def test_raw_returns_every_byte_and_marks_nothing_as_read(room: Room) -> None:
    room.spawn("one", f"{COLOURED}; exec cat")
    room.call("fetch", id="one", wait="output", view="tail", max_bytes=0)
    data, state = raw_of(room, "one")
    assert data == b"\x1b[31mred\x1b[0m \xff\n" and state["cursor"] == len(data)
    assert room.call("fetch", id="one")["content"] == "red \ufffd\n"
    assert raw_of(room, "one")[0] == b""
    assert raw_of(room, "one", cursor=5)[0] == data[5:]


def test_a_raw_reader_continues_by_cursor_until_the_end(room: Room) -> None:
    room.spawn("one", "seq 1 20000", wait="stopped")
    parts, cursor = [], 0
    while True:
        data, state = raw_of(room, "one", cursor=cursor, max_bytes=10_000)
        assert state["cursor"] == cursor + len(data) and "omitted" not in state
        if not data:
            break
        parts.append(data)
        cursor = state["cursor"]
    assert b"".join(parts) == b"".join(b"%d\n" % n for n in range(1, 20_001))
    # Beside the bytes the result is present as for any reader.
    assert state["state"] == "stopped" and state["result"].startswith("1\n2\n")


def test_a_failed_run_has_its_error_and_its_bytes(room: Room) -> None:
    room.spawn("one", f"{COLOURED}; exit 3", wait="stopped")
    data, state = raw_of(room, "one")
    assert data == b"\x1b[31mred\x1b[0m \xff\n"
    assert state["exit"] == {"code": 3} and "3" in state["error"]["message"]


def test_paint_draws_the_screen_and_raw_goes_on_behind_it(room: Room) -> None:
    state = on_terminal(
        room, "one", r"printf '\033[1mbold\033[0m\r\n\033]0;t\007> '; read x; echo $x"
    )
    assert state["waited"] == "input" and state["content"] == "bold\n> "
    painted = room.call("fetch", id="one", view="paint")
    copy = Screen(24, 80, lambda reply: None)
    copy.feed(b64decode(painted["content"]))
    room.call("apply", id="one", input={"line": "typed"}, wait="stopped", view="tail", max_bytes=0)
    copy.feed(raw_of(room, "one", cursor=painted["cursor"])[0])
    shown = room.call("fetch", id="one", view="screen")["screen"]
    assert list(copy.snapshot().lines) == shown["lines"]
    assert shown["title"] == copy.snapshot().title == "t"
    assert b64decode(room.call("fetch", id="one", view="paint")["content"])


@pytest.mark.parametrize("view", ["screen", "paint"])
def test_terminal_views_are_refused_for_a_pipe(room: Room, view: str) -> None:
    room.spawn("one", "exec cat")
    with pytest.raises(Refused, match="no terminal") as caught:
        room.call("fetch", id="one", view=view)
    assert caught.value.code == -32602


def test_a_screen_wait_is_answered_at_a_change_and_not_before(room: Room) -> None:
    on_terminal(room, "one", "echo first; read x; echo second; read y", view="tail", max_bytes=0)
    seen = room.call("fetch", id="one", view="screen", wait="output", timeout_ms=20_000)
    assert seen["waited"] == "output"
    again = room.call("fetch", id="one", view="screen", wait="output", timeout_ms=0)
    assert again["waited"] == "deadline"
    watching = room.start("fetch", id="one", view="screen", wait="output", timeout_ms=20_000)
    room.pause()
    assert not room.answered(watching)
    room.call("apply", id="one", input={"line": ""}, view="tail", max_bytes=0)
    state = room.wire.finish(watching)
    assert state["waited"] == "output"
    # A reader of text has lost nothing by the wait.
    assert room.call("fetch", id="one")["content"].split() == ["first", "second"]


def test_a_wait_with_an_old_revision_is_answered_at_once(room: Room) -> None:
    on_terminal(room, "one", "echo first; read x; echo second; read y")
    old = room.call("fetch", id="one", view="screen")["screen"]["revision"]
    room.call("apply", id="one", input={"line": ""}, view="screen", timeout_ms=20_000)
    late = room.call(
        "fetch", id="one", view="screen", since_revision=old, wait="output", timeout_ms=20_000
    )
    assert late["waited"] == "output" and "second" in late["screen"]["changed"].values()


@pytest.mark.parametrize("terminal", [False, True])
def test_a_pattern_is_matched_against_the_text(room: Room, terminal: bool) -> None:
    script = r"printf '\033[32mser\033[1mver\033[0m: ready\r\n'; exec sleep 60"
    args = {"argv": ["sh", "-c", script], "terminal": terminal}
    state = room.call(
        "spawn", tool="run", id="one", args=args, pattern="^server: ready", timeout_ms=20_000
    )
    assert state["waited"] == "matched"
    (line,) = room.call("output/search", pattern="^server")["matches"]
    assert line["line"] == "server: ready" and line["cursor"] == 0


def test_a_pattern_matches_across_a_split_sequence(room: Room) -> None:
    room.spawn("one", r"printf 'rea\033['; read x; printf '32mdy\n'; exec cat")
    waiting = room.start("fetch", id="one", wait="pattern", pattern="ready", timeout_ms=20_000)
    room.pause()
    assert not room.answered(waiting)
    room.call("apply", id="one", input={"line": ""}, wait="none", view="tail", max_bytes=0)
    state = room.wire.finish(waiting)
    assert state["waited"] == "matched" and state["content"] == "ready\n"


@pytest.mark.parametrize("argv", [["bash", "--norc"], ["sh"]])
def test_a_pattern_waits_for_the_answer_and_not_for_the_echo(room: Room, argv: list[str]) -> None:
    args = {"argv": argv, "terminal": True}
    room.call("spawn", tool="run", id="one", args=args, timeout_ms=20_000)
    go = room.daemon.base / f"go-{room.session}"
    command = {"line": f"while [ ! -e {go} ]; do sleep 0.01; done; echo READY now"}
    waiting = room.start(
        "apply", id="one", input=command, pattern="READY now", timeout_ms=20_000, view="all"
    )
    other = room.daemon.connect()
    seen = ""
    while "READY" not in seen:
        seen = other.call("fetch", session=room.session, id="one", view="all")["content"]
    room.pause()
    assert not room.answered(waiting)
    go.touch()
    assert room.wire.finish(waiting)["waited"] == "matched"
    # Input ahead of a prompt has the prompt in front of its answer.
    assert room.call("fetch", id="one", wait="input", timeout_ms=20_000)["waited"] == "input"
    again = room.call(
        "apply", id="one", input={"line": "echo READY now"}, pattern="^READY", timeout_ms=20_000
    )
    assert again["waited"] == "matched"
    other.close()
