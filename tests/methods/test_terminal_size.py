"""A terminal that several clients show has the size of the latest to resize it or type."""

from __future__ import annotations

from typing import Any

import pytest

from tests.methods.conftest import Room
from tests.wire import Refused, Wire

SIZES: dict[str, Any] = {"argv": ["sh", "-c", "while read x; do stty size; done"], "terminal": True}


def resize(wire: Wire, room: Room, rows: int, cols: int) -> None:
    size = {"rows": rows, "cols": cols}
    wire.call("apply", session=room.session, id="t", input={"resize": size}, wait="none")


def reported(wire: Wire, room: Room) -> str:
    """Type a line and return the size that the program reads."""
    line = {"session": room.session, "id": "t", "input": {"line": ""}, "wait": "input"}
    lines: list[str] = wire.call("apply", view="answer", **line)["content"].split("\n")
    return lines[0].strip()


def size(wire: Wire, room: Room) -> dict[str, Any] | None:
    rows = wire.call("handles/list", session=room.session)["handles"]
    found: dict[str, Any] | None = rows[0].get("size")
    return found


def test_a_client_that_types_gets_its_size_back(room: Room) -> None:
    room.call("spawn", tool="run", id="t", args=SIZES, wait="input")
    assert size(room.wire, room) is None
    hello = {"client": {"name": "editor"}, "protocol": 1}
    with room.daemon.connect() as editor, room.daemon.connect() as assistant:
        editor.call("initialize", session=room.session, **hello)
        resize(editor, room, 30, 100)
        resize(room.wire, room, 20, 60)
        shown = size(editor, room)
        assert shown is not None and "yours" not in shown
        assert reported(assistant, room) == "20 60"
        assert reported(editor, room) == "30 100"
        assert size(editor, room) == {"rows": 30, "cols": 100, "client": "editor", "yours": True}
        told = room.wire.call("subscribe", session=room.session, events=["state"])
        pushed = room.wire.told("handle/state")["params"]
        assert pushed["size"] == {"rows": 30, "cols": 100, "client": "editor"}
    while (pushed := room.wire.told("handle/state")["params"])["size"].get("client"):
        pass
    assert pushed["size"] == {"rows": 30, "cols": 100}
    room.wire.call("unsubscribe", **told)
    assert reported(room.wire, room) == "20 60"


TOO_LONG = {"line": "x" * 5_000}
NO_KEY = {"keys": ["Nokey"]}
MOUSE_OUTSIDE = {"mouse": {"row": 35, "col": 1, "action": "click"}}


@pytest.mark.parametrize("refused", [TOO_LONG, NO_KEY, MOUSE_OUTSIDE, {"bytes": "eA=="}])
def test_a_refused_input_claims_no_size(room: Room, refused: dict[str, Any]) -> None:
    mouse_on = {"argv": ["sh", "-c", r"printf '\033[?1000h'; " + SIZES["argv"][2]]}
    room.call("spawn", tool="run", id="t", args=SIZES | mouse_on, wait="input")
    with room.daemon.connect() as editor:
        editor.call("initialize", session=room.session, client={"name": "editor"}, protocol=1)
        resize(editor, room, 30, 100)
        resize(room.wire, room, 20, 60)
        before = room.call("output/timeline", id="t"), size(room.wire, room)
        with pytest.raises(Refused):
            editor.call("apply", session=room.session, id="t", input=refused, wait="none")
        assert (room.call("output/timeline", id="t"), size(room.wire, room)) == before
        assert room.call("fetch", id="t", view="screen")["screen"]["rows"] == 20


def test_the_mouse_of_a_client_that_gets_its_size_back_reaches_its_last_row(room: Room) -> None:
    mouse_on = {"argv": ["sh", "-c", r"printf '\033[?1000h'; cat >/dev/null"], "terminal": True}
    room.call("spawn", tool="run", id="t", args=mouse_on, wait="input")
    click = {"mouse": {"row": 29, "col": 99, "action": "click"}}
    with room.daemon.connect() as editor:
        editor.call("initialize", session=room.session, client={"name": "editor"}, protocol=1)
        resize(editor, room, 30, 100)
        resize(room.wire, room, 20, 60)
        with pytest.raises(Refused):
            room.call("apply", id="t", input=click, wait="none")
        editor.call("apply", session=room.session, id="t", input=click, wait="none")
        assert room.call("fetch", id="t", view="screen")["screen"]["rows"] == 30
