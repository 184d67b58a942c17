"""A terminal that several clients show has the size of the latest to resize it or type."""

from __future__ import annotations

from typing import Any

from tests.methods.conftest import Room
from tests.wire import Wire

SIZES = {"argv": ["sh", "-c", "while read x; do stty size; done"], "terminal": True}


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
