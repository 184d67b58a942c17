from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.question_tools import Client
from tests.wire import Refused, Wire

from .calls import batch_of, batched, called, replies_of
from .cargo import Cargo
from .conftest import Host
from .schemas import ABORT, FETCH, READING, adds, spawning, variants

SPAWNED = [
    ("cargo_check", {"action": "spawn", "id": "check", "package": "jp_cli"}),
    ("cargo_test", {"action": "spawn", "id": "test", "package": "jp_cli"}),
]
READ: list[tuple[str, dict[str, Any]]] = [
    ("cargo_check", {"action": "fetch", "id": "check"}),
    ("cargo_test", {"action": "fetch", "id": "test"}),
]


@pytest.fixture(scope="module")
def cargo() -> Iterator[Cargo]:
    with tempfile.TemporaryDirectory(prefix="haft-") as folder:
        yield Cargo(Path(folder))


def seen_beside(host: Client, id: str, wait: str) -> Any:
    """Return a handle as another client sees the handle: a read by cursor takes no notices."""
    with Wire(host.sock.getpeername()) as other:
        return other.call("fetch", session=host.session, id=id, wait=wait, cursor=0)


def both_have_begun(host: Client) -> None:
    for id in ("check", "test"):
        assert seen_beside(host, id, "output")["state"] == "running"


def test_two_runs_are_spawned_and_awaited_in_one_batch(host_of: Host, cargo: Cargo) -> None:
    host = host_of(cargo.tools)
    host.send(batch_of(*SPAWNED, ("await", {"all": ["check", "test"]})))
    both_have_begun(host)
    cargo.go_on("test")
    cargo.go_on("check")
    check, test, waited = replies_of(host, 3)
    # Early output is in the reply of spawn, unless the machine is slow: then fetch has the output.
    early = {}
    for state, id, says in (
        (check, "check", "    Checking jp_cli v0.1.0\n"),
        (test, "test", "running 2 tests\n"),
    ):
        assert (state["id"], state["state"], state["notifications"]) == (id, "running", [])
        assert state["content"] in ("", says)
        early[id] = "" if state["content"] else says
    assert waited["pending"] == [] and "timed_out" not in waited
    assert [row["id"] for row in waited["completed"]] == ["check", "test"]
    assert {row["state"] for row in waited["completed"]} == {"stopped"}

    check, test = batched(host, *READ)
    assert check["state"] == test["state"] == "stopped"
    assert check["result"] == early["check"] + "ok, 0 warnings\n" and check["exit"] == {"code": 0}
    assert "result" not in test and test["exit"] == {"code": 101}
    assert test["error"]["message"] == "The process exited with code 101."
    assert test["content"] == early["test"] + "test reads ... ok\ntest writes ... FAILED\n"
    # An awaited end is no notice.
    assert check["notifications"] == test["notifications"] == []


def test_the_winner_of_a_race_is_read_and_the_other_is_aborted(host_of: Host, cargo: Cargo) -> None:
    host = host_of(cargo.tools)
    host.send(batch_of(*SPAWNED, ("await", {"any": ["check", "test"]})))
    both_have_begun(host)
    cargo.go_on("check")
    *spawned, waited = replies_of(host, 3)
    assert [reply["state"] for reply in spawned] == ["running", "running"]
    assert [(row["id"], row["state"]) for row in waited["completed"]] == [("check", "stopped")]
    assert [(row["id"], row["state"]) for row in waited["pending"]] == [("test", "running")]
    assert "timed_out" not in waited

    winner, loser = batched(host, READ[0], ("cargo_test", {"action": "abort", "id": "test"}))
    assert winner["result"].endswith("ok, 0 warnings\n")
    assert loser["state"] == "stopped"
    assert loser["ended_by"] == {"by": "abort", "client": "assistant"}
    assert host.call("notifications/drain") == {"notifications": []}


def test_without_an_action_a_call_runs_to_the_end(host_of: Host, cargo: Cargo) -> None:
    """`call(cargo_check, { package: "jp_cli" })` → "ok, 0 warnings"."""
    host = host_of(cargo.tools)
    running = host.start("tools/call", tool="cargo_check", arguments={"package": "jp_cli"})
    cargo.go_on("check")
    state = host.finish(running)
    assert state["state"] == "stopped" and state["exit"] == {"code": 0}
    assert state["result"] == "    Checking jp_cli v0.1.0\nok, 0 warnings\n"


def test_an_unawaited_end_is_reported_with_the_next_call(host_of: Host, cargo: Cargo) -> None:
    host = host_of(cargo.tools)
    spawned = batched(host, *SPAWNED)
    assert [reply["state"] for reply in spawned] == ["running", "running"]
    cargo.go_on("test")
    assert seen_beside(host, "test", "stopped")["exit"] == {"code": 101}
    reply = called(host, "cargo_check", {"action": "fetch", "id": "check"})
    (notice,) = reply["notifications"]
    assert notice["kind"] == "tool.failed" and notice["level"] == "error"
    message = "`test` (cargo_test) has failed: The process exited with code 101."
    assert notice["message"] == message
    assert called(host, *READ[0])["notifications"] == []


def test_a_tool_without_input_has_no_apply(host_of: Host, cargo: Cargo) -> None:
    """Background work is only polled: `apply` is neither in the schema nor served."""
    host = host_of(cargo.tools)
    spawn, fetch, abort = variants(host, "cargo_check")
    assert adds(spawn, spawning({"package": {"type": "string"}})) == READING
    assert adds(fetch, FETCH) == READING
    assert adds(abort, ABORT) == set()
    batched(host, SPAWNED[0])
    with pytest.raises(Refused, match="-32004"):
        called(host, "cargo_check", {"action": "apply", "id": "check", "input": "y"})
