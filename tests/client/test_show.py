from __future__ import annotations

from haft.cli import show
from haft_protocol.states import Running


def running(*, suspended: bool) -> Running:
    return Running(
        id="build",
        tool="run",
        session="default",
        cursor=0,
        generation=1,
        elapsed_ms=1200,
        content="",
        suspended=suspended,
    )


def test_a_stopped_program_is_shown_as_suspended_with_a_hint() -> None:
    assert show.state_word(running(suspended=True)) == "suspended"
    line = show.state_line(running(suspended=True))
    assert line.startswith("build: suspended, 1.2 s") and "haft apply build --signal CONT" in line
    assert show.state_word(running(suspended=False)) == "running"
    assert show.state_line(running(suspended=False)) == "build: running, 1.2 s"
