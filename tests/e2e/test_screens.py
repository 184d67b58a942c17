from __future__ import annotations

import base64
import itertools

import pytest

from haftd.runtimes.terminal.screen import Screen
from tests.running_daemon import RunningDaemon
from tests.wire import Refused

_sessions = itertools.count()


@pytest.fixture
def session() -> str:
    return f"screens{next(_sessions)}"


def _spawn(session: str, script: str) -> dict[str, object]:
    args = {"command": script, "terminal": True, "rows": 5, "cols": 20}
    return {"session": session, "tool": "run", "id": "t", "args": args}


def test_the_mouse_is_for_programs_that_enable_it(
    shared_daemon: RunningDaemon, session: str
) -> None:
    script = (
        "stty -echo; read a; printf '\\033[?1000h\\033[?1006hon\\r\\n'; "
        "stty -icanon min 1; dd bs=100 count=2 2>/dev/null | od -An -c"
    )
    click = {"mouse": {"row": 2, "col": 4, "action": "click"}}
    with shared_daemon.connect() as wire:
        wire.call("spawn", **_spawn(session, script))
        with pytest.raises(Refused) as refused:
            wire.call("apply", session=session, id="t", input=click)
        assert refused.value.code == -32004 and "does not read the mouse" in str(refused.value)
        with pytest.raises(Refused) as refused:
            wire.call("apply", session=session, id="t", input={"mouse": {"row": 1}})
        assert refused.value.code == -32602
        wire.call(
            "apply", session=session, id="t", input={"line": ""}, wait="pattern", pattern="on"
        )
        state = wire.call("apply", session=session, id="t", input=click, wait="stopped", view="all")
        assert "033   [   <   0   ;   5   ;   3   M" in state["result"]


def test_the_picture_draws_the_screen_also_after_the_end(
    shared_daemon: RunningDaemon, session: str
) -> None:
    script = "seq 20; printf '\\033[31mred\\033[0m \\033]0;a title\\007'; read a"
    with shared_daemon.connect() as wire:
        first = wire.call("spawn", **_spawn(session, script), view="screen")["screen"]
        assert first["scrollback"] == 16 and first["lines"] == ["17", "18", "19", "20", "red"]
        for ended in (False, True):
            shown = wire.call("fetch", session=session, id="t", view="screen")["screen"]
            styled = wire.call("fetch", session=session, id="t", view="screen", styles=True)[
                "screen"
            ]
            assert "lines" not in styled and styled["cursor"] == shown["cursor"]
            style = "" if ended else "38;5;1"
            assert [["red", style]] in styled["runs"] and [["20", ""]] in styled["runs"]
            state = wire.call("fetch", session=session, id="t", view="paint")
            assert (state["state"] == "stopped") is ended
            painted = base64.b64decode(state["content"])
            assert b"38;5;1mred" in painted
            screen = Screen(5, 20, lambda reply: None)
            screen.feed(painted)
            shot = screen.snapshot()
            assert (list(shot.lines), list(shot.cursor)) == (shown["lines"], shown["cursor"])
            assert shot.title == shown["title"] == "a title"
            if not ended:
                wire.call("apply", session=session, id="t", input={"line": ""}, wait="stopped")
