from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.repository import make_repository, staged
from tests.running_daemon import RunningDaemon
from tests.wire import Framing, Wire


@pytest.fixture
def repo(short_tmp: Path) -> Path:
    return make_repository(short_tmp / "repo")


def drive(repo: Path, call: Callable[..., dict[str, Any]]) -> None:
    """Stage the first and the third hunk, leave the second."""
    state = call(
        "spawn",
        tool="git_stage",
        id="staging",
        root=str(repo),
        wait="pattern",
        pattern=r"Stage this hunk .*\? ",
    )
    assert state["state"] == "running" and state["waited"] == "matched", state
    assert "line two" in state["content"] and "(1/3)" in state["content"]
    state = call(
        "apply",
        id="staging",
        input={"line": "y"},
        wait="pattern",
        pattern=r"\(2/3\) Stage this hunk .*\? ",
    )
    assert "line twenty" in state["content"], state
    state = call(
        "apply",
        id="staging",
        input={"line": "n"},
        wait="pattern",
        pattern=r"\(3/3\) Stage this hunk .*\? ",
    )
    assert "line thirty-nine" in state["content"], state
    state = call("apply", id="staging", input={"line": "y"}, wait="stopped")
    assert state["state"] == "stopped" and state["exit"] == {"code": 0}, state
    assert "result" in state and "error" not in state
    assert staged(repo) == ["line two", "line thirty-nine"]


@pytest.mark.parametrize("framing", ["lines", "headers"])
def test_one_client_stages_two_of_three_hunks(
    daemon: RunningDaemon, repo: Path, framing: Framing
) -> None:
    with daemon.connect(framing) as wire:
        drive(repo, wire.call)


@pytest.mark.parametrize("framing", ["lines", "headers"])
def test_the_dialogue_survives_a_reconnect_between_any_two_calls(
    daemon: RunningDaemon, repo: Path, framing: Framing
) -> None:
    def call(method: str, **params: Any) -> dict[str, Any]:
        with daemon.connect(framing) as wire:
            result = wire.call(method, **params)
        assert isinstance(result, dict)
        return result

    drive(repo, call)


def test_a_client_killed_in_a_wait_leaves_the_dialogue_whole(
    daemon: RunningDaemon, repo: Path
) -> None:
    def call(method: str, **params: Any) -> dict[str, Any]:
        if method == "apply":
            # Another client waits on the same handle and is cut off meanwhile.
            gone = Wire(daemon.socket)
            gone.start("fetch", id="staging", wait="stopped", timeout_ms=60_000)
            gone.close()
        with daemon.connect() as wire:
            result = wire.call(method, **params)
        assert isinstance(result, dict)
        return result

    drive(repo, call)


def test_default_waits_suffice_to_drive_the_dialogue(daemon: RunningDaemon, repo: Path) -> None:
    """Spawn and apply on a terminal wait by default: no pattern, no sleep."""
    with daemon.connect() as wire:
        seen = wire.call("spawn", tool="git_stage", id="s", root=str(repo))["content"]
        for answer in ("y", "n"):
            seen += wire.call("apply", id="s", input={"line": answer})["content"]
        last = wire.call("apply", id="s", input={"line": "y"}, wait="stopped")
    assert last["state"] == "stopped"
    assert seen.count("Stage this hunk") == 3
    assert staged(repo) == ["line two", "line thirty-nine"]
