from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from haftd.executions.execution import MAX_BACKLOG
from tests.faults.harness import until
from tests.running_daemon import RunningDaemon
from tests.wire import Refused, Wire

TOOLS = """
[tools.count]
command = "wc -c"
parameters = {}
[tools.live]
command = "cat"
output = "events"
parameters = {}
[tools.secretive]
stateful = true
command = "echo kept"
run.fetch = "ask"
[tools.guarded]
stateful = true
command = "cat"
parameters = {}
run = { spawn = "unattended", apply = "ask" }
[tools.unfed]
stateful = true
command = "cat"
parameters = {}
run.apply = "skip"
[tools.asks]
command = ["sh", "-c", 'cat >/dev/null; echo "$1"', "-", '{"type": "needs_input", "question": {"id": "q", "text": "?", "answer_type": "Text"}}']
output = "outcome"
parameters = {}
"""


@pytest.fixture
def wire(shared_daemon: RunningDaemon) -> Iterator[Wire]:
    shared_daemon.tools(TOOLS)
    with shared_daemon.connect() as wire:
        wire.call("tools/reload")
        yield wire
        wire.call("session/close")


def run(wire: Wire, id: str, command: str, **more: Any) -> Any:
    args = {"command": command} | more.pop("args", {})
    return wire.call("spawn", tool="run", id=id, args=args, wait=more.pop("wait", "none"), **more)


def result(wire: Wire, id: str) -> str:
    state = wire.call("fetch", id=id, wait="stopped", timeout_ms=60_000)
    assert state["state"] == "stopped", state
    assert "error" not in state, state["error"]
    text = state["result"]
    assert isinstance(text, str)
    return text


def size(wire: Wire, id: str) -> int:
    (rows,) = (row["bytes"] for row in wire.call("handles/list")["handles"] if row["id"] == id)
    assert isinstance(rows, int)
    return rows


def test_all_output_is_the_input_and_its_end_closes_the_input(wire: Wire) -> None:
    run(wire, "source", "seq 1 50000")
    run(wire, "sorted", "sort -rn", stdin_from={"id": "source"})
    run(wire, "last", "tail -n 1; wc -l", stdin_from={"id": "sorted"})
    assert result(wire, "last").split() == ["1", "0"]


def test_bytes_are_piped_unchanged(wire: Wire, tmp_path: Path) -> None:
    data = os.urandom(3_000_000)
    (tmp_path / "data").write_bytes(data)
    run(wire, "source", f"cat {tmp_path}/data")
    run(wire, "sum", "sha256sum", stdin_from={"id": "source"})
    assert result(wire, "sum").split()[0] == hashlib.sha256(data).hexdigest()


def test_earlier_output_is_piped(wire: Wire) -> None:
    run(wire, "source", "printf 'first\\nsecond\\n'", wait="stopped")
    run(wire, "all", "cat", stdin_from={"id": "source"})
    run(wire, "rest", "cat", stdin_from={"id": "source", "cursor": 6})
    assert (result(wire, "all"), result(wire, "rest")) == ("first\nsecond\n", "second\n")
    assert wire.call("fetch", id="source")["result"] == "first\nsecond\n"


def test_a_source_waits_for_a_slow_reader(wire: Wire, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    os.mkfifo(tmp_path / "start")
    # Output from before the reader is not held up by it.
    run(wire, "source", f"read line <{tmp_path}/start; head -c 20000000 /dev/zero | tr '\\0' a")
    run(wire, "reader", f"read line <{tmp_path}/gate; wc -c", stdin_from={"id": "source"})
    (tmp_path / "start").write_text("go\n")
    until(lambda: size(wire, "source") > MAX_BACKLOG, "the source is ahead")
    for _ in range(20):
        wire.call("ping")
        assert size(wire, "source") < MAX_BACKLOG + 4 * 65_536
    (tmp_path / "gate").write_text("go\n")
    assert result(wire, "reader").strip() == "20000000"
    assert wire.call("fetch", id="source", wait="stopped", max_bytes=0)["exit"] == {"code": 0}


def test_a_source_goes_on_when_its_reader_ends(wire: Wire) -> None:
    run(wire, "source", "seq 1 300000")
    run(wire, "reader", "head -n 1", stdin_from={"id": "source"})
    assert result(wire, "reader") == "1\n"
    assert result(wire, "source").endswith("300000\n")


def test_an_aborted_source_ends_the_input(wire: Wire, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    run(wire, "source", "yes")
    run(
        wire, "reader", f"read line <{tmp_path}/gate; head -n 1; wc -c", stdin_from={"id": "source"}
    )
    until(lambda: size(wire, "source") > MAX_BACKLOG, "the source is held up")
    assert wire.call("abort", id="source")["ended_by"]["by"] == "abort"
    (tmp_path / "gate").write_text("go\n")
    first, rest = result(wire, "reader").split()
    assert first == "y"
    assert int(rest) > MAX_BACKLOG - 65_536


def test_a_terminal_can_be_the_source(wire: Wire) -> None:
    run(wire, "source", "seq 1 100000", args={"terminal": True})
    run(wire, "reader", "tr -d '\\r' | tail -n 1", stdin_from={"id": "source"})
    assert result(wire, "reader") == "100000\n"


def test_a_tool_without_input_can_read_a_pipe(wire: Wire) -> None:
    run(wire, "source", "printf abc")
    wire.call("spawn", tool="count", id="n", stdin_from={"id": "source"}, wait="none")
    assert result(wire, "n").strip() == "3"


def test_spawns_of_one_batch_are_piped(wire: Wire) -> None:
    spawns = [
        {"tool": "run", "id": "a", "args": {"command": "echo hello"}, "wait": "none"},
        {
            "tool": "run",
            "id": "b",
            "args": {"command": "tr a-z A-Z"},
            "wait": "stopped",
            "stdin_from": {"id": "a"},
        },
    ]
    wire.send(
        [
            {"jsonrpc": "2.0", "id": f"b{n}", "method": "spawn", "params": params}
            for n, params in enumerate(spawns)
        ]
    )
    _, second = wire.receive()
    assert second["result"]["result"] == "HELLO\n"


def test_a_repeated_call_pipes_once(wire: Wire) -> None:
    run(wire, "source", "printf abc", wait="stopped")
    for _ in range(2):
        run(wire, "reader", "cat", stdin_from={"id": "source"}, call_id="once", wait="stopped")
    assert wire.call("fetch", id="reader")["result"] == "abc"


def test_a_piped_one_shot_that_asks_cannot_be_run_again(wire: Wire) -> None:
    run(wire, "source", "printf abc")
    wire.call("spawn", tool="asks", id="asks", stdin_from={"id": "source"}, wait="input")
    until(lambda: wire.call("fetch", id="asks")["state"] == "waiting", "it asks")
    state = wire.call("apply", id="asks", input="x", wait="stopped")
    assert "its input came from another handle" in state["error"]["message"]


REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"tool": "shell"}, -32004, "a pipe without a protocol"),
    ({"tool": "live"}, -32004, "a pipe without a protocol"),
    ({"tool": "ask_user", "args": {"question": "?"}}, -32004, "a pipe without a protocol"),
    ({"stdin_from": {"id": "nothing"}}, -32001, "nothing"),
    ({"stdin_from": {"id": "source", "cursor": 4}}, -32602, "from 0 to 3 are kept"),
    ({"stdin_from": {"id": "secretive"}}, -32007, "cannot be piped"),
    ({"tool": "guarded"}, -32007, "each input of it is approved"),
    ({"tool": "unfed"}, -32007, "each input of it is approved"),
    ({"stdin_from": "source"}, -32602, "stdin_from"),
]


@pytest.mark.parametrize(("params", "code", "why"), REFUSED)
def test_an_impossible_pipe_is_refused_before_the_start(
    wire: Wire, params: dict[str, Any], code: int, why: str
) -> None:
    run(wire, "source", "printf abc", wait="stopped")
    wire.call("spawn", tool="secretive", id="secretive", wait="none")
    whole = {"tool": "run", "id": "reader", "stdin_from": {"id": "source"}, **params}
    if whole["tool"] == "run":
        whole["args"] = {"command": "cat"}
    with pytest.raises(Refused, match=why) as refused:
        wire.call("spawn", **whole)
    assert refused.value.code == code
    assert "reader" not in {row["id"] for row in wire.call("handles/list")["handles"]}
