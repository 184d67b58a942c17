from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.harness import until
from tests.methods.conftest import Room
from tests.running_daemon import RunningDaemon

TOOLS = "\n".join(
    f"""
[tools.{name}]
source = "local"
stateful = true
output = "raw"
command = ["sh", "-c", "{{{{ tool.arguments.sh }}}}"]
parameters.sh = {{ type = "string", required = true }}
notify = {notify}
"""
    for name, notify in {
        "quiet": "{ on_success = false, on_failure = false }",
        "talks": "{ on_content = true }",
        "build": "{ on_success = false, patterns = { error = '^error', "
        "fatal = { match = 'FATAL', level = 'critical' } } }",
    }.items()
)


@pytest.fixture(scope="module")
def shared_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDaemon]:
    daemon = RunningDaemon(Path(tmp_path_factory.mktemp("haft")))
    daemon.tools(TOOLS)
    daemon.start()
    with daemon.connect() as wire:
        assert wire.call("daemon/status")["problems"] == []
    yield daemon
    daemon.close()


def start(room: Room, tool: str, id: str, sh: str) -> None:
    room.call("spawn", tool=tool, id=id, args={"sh": sh}, wait="none", view="tail", max_bytes=0)


def drained(room: Room) -> list[dict[str, Any]]:
    """The next notices, once there are some."""
    found: list[dict[str, Any]] = []

    def look() -> bool:
        found[:] = room.call("notifications/drain")["notifications"]
        return bool(found)

    until(look, "nothing is told")
    return found


def test_disabled_end_notices_are_not_sent(room: Room) -> None:
    start(room, "quiet", "good", "exit 0")
    start(room, "quiet", "bad", "exit 1")
    room.spawn("usual", "read x; exit 0")
    # A read by cursor takes no notices.
    room.call("apply", id="usual", input={"line": ""}, wait="stopped", cursor=0)
    assert [notice["id"] for notice in drained(room)] == ["usual"]
    assert room.call("notifications/drain")["notifications"] == []


def test_a_matching_line_is_notified_with_its_pattern(room: Room) -> None:
    start(room, "build", "b", "echo fine; echo 'error: no x'; echo not an error; exec sleep 300")
    (notice,) = drained(room)
    assert (notice["kind"], notice["level"], notice["id"]) == ("tool.content", "info", "b")
    assert (notice["pattern"], notice["lines"], notice["count"]) == ("error", ["error: no x"], 1)
    assert notice["message"] == "`b` (build) has printed a line that matches `error`: error: no x"


def test_read_output_is_not_notified(room: Room) -> None:
    start(room, "build", "b", "echo error 1; read x; echo error 2; exec sleep 300")
    room.call("fetch", id="b", wait="pattern", pattern="error 1")
    assert room.call("notifications/drain")["notifications"] == []
    room.call("apply", id="b", input={"line": ""}, wait="none", view="tail", max_bytes=0)
    (notice,) = drained(room)
    assert notice["lines"] == ["error 2"]


def test_a_notice_rides_on_the_next_call(room: Room, beside: Callable[[], Room]) -> None:
    start(room, "build", "b", "echo error; exec sleep 300")
    watcher = beside()
    watcher.call("subscribe", events=["notification"])
    start(room, "build", "c", "echo error; exec sleep 300")
    # The notice about `b` may come after the subscription as well.
    while watcher.wire.told("session/notification")["params"]["id"] != "c":
        pass
    reply = room.call("tools/call", tool="run", arguments={"argv": ["true"]})
    assert {notice["id"] for notice in reply["notifications"]} >= {"c"}


def test_new_output_is_notified_once_until_notified_or_read(room: Room) -> None:
    start(room, "talks", "t", "echo one; read x; echo two; exec sleep 300")
    (notice,) = drained(room)
    assert notice["kind"] == "tool.content" and notice["lines"] == ["one"]
    assert room.call("notifications/drain")["notifications"] == []
    room.call("apply", id="t", input={"line": ""}, wait="none", view="tail", max_bytes=0)
    (notice,) = drained(room)
    assert notice["lines"] == ["two"]


def test_a_critical_notice_is_pushed_at_once_and_a_flood_delays_no_other_call(
    room: Room, beside: Callable[[], Room]
) -> None:
    """A client that does not read, a program that prints matching lines, and a concurrent call."""
    watcher = beside()
    watcher.call("subscribe", events=["notification"])
    start(room, "build", "flood", "exec yes error")
    first = watcher.wire.told("session/notification")["params"]
    assert first["pattern"] == "error" and first["id"] == "flood"
    start(room, "build", "f", "echo FATAL: gone; exec sleep 300")
    while True:
        told = watcher.wire.told("session/notification")["params"]
        if told["level"] == "critical":
            break
    assert told["lines"] == ["FATAL: gone"]
    # The flood has no end of its own: any answer comes during the flood.
    counts: list[int] = []
    fatal: list[str] = []
    while len(counts) < 3 or sum(counts) <= 1_000:
        room.pause()
        for notification in room.call("notifications/drain")["notifications"]:
            if notification["pattern"] == "error":
                counts.append(notification["count"])
                assert len(notification["lines"]) == min(8, notification["count"])
            else:
                fatal.append(notification["id"])
    assert fatal == ["f"]
    states = {row["id"]: row["state"] for row in room.call("handles/list")["handles"]}
    assert states["flood"] == "running"
    room.call("abort", id="flood")


def test_program_output_cannot_leave_its_line(room: Room) -> None:
    start(room, "build", "b", r"printf 'error \033[2J\007 x\r\n\n'; exec sleep 300")
    (notice,) = drained(room)
    assert notice["lines"] == ["error \\x07 x"]


def test_in_markdown_program_output_has_lines_and_no_structure(room: Room) -> None:
    start(room, "build", "b", "echo 'error ``` **x**'; exec sleep 300")
    found: dict[str, Any] = {}

    def look() -> bool:
        found.update(room.call("notifications/drain", format="markdown"))
        return bool(found["notifications"])

    until(look, "nothing is told")
    assert found["text"] == (
        "- **info** `b` (build) has printed a line that matches \\`error\\`:\n"
        "  ````text\n  error ``` **x**\n  ````\n"
    )
    assert room.call("notifications/drain", format="markdown") == {"notifications": [], "text": ""}


def test_the_command_line_takes_pending_notices(room: Room) -> None:
    def haft() -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "haft", "notices", "--session", room.session]
        return subprocess.run(line, env=room.daemon.env, capture_output=True, text=True)

    room.spawn("good", "read x; exit 0")
    room.call("apply", id="good", input={"line": ""}, wait="stopped", cursor=0)
    done = haft()
    assert done.stdout == "- **info** `good` (run) has ended and succeeded.\n"
    assert (haft().stdout, done.returncode) == ("", 0)


def test_an_invalid_key_is_a_problem_of_the_definition(shared_daemon: RunningDaemon) -> None:
    wrong = TOOLS.replace("on_content", "on_contents").replace("tools.talks", "tools.wrong")
    shared_daemon.tools(wrong, "wrong.toml")
    try:
        with shared_daemon.connect() as wire:
            problems = wire.call("tools/reload")["problems"]
            assert [problem["key"] for problem in problems] == ["tools.wrong.notify.on_contents"]
            assert "the notices are on_success" in problems[0]["message"]
    finally:
        (shared_daemon.config / "haft" / "tools" / "wrong.toml").unlink()
