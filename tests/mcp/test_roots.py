"""The tools' working folder and its session."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import Raw

from haft.mcp.bridge import Bridge
from haft.mcp.messages import Capabilities
from haft.mcp.roots import find_place, folder_of
from haft.mcp.steps import Host as Declared
from haft.mcp.steps import Steps
from haft.mcp.tools import ROOTS_TIMEOUT_S, Options, Tools
from tests.mcp.host import Host, Legacy, Modern
from tests.running_daemon import RunningDaemon

HOME = {"HOME": "/home/me"}
PROJECT = {**HOME, "CLAUDE_PROJECT_DIR": "/claude"}


@pytest.mark.parametrize(
    ("env", "root", "offered", "cwd", "found"),
    [
        (PROJECT, "/option", "/offered", "/cwd", "/option"),
        (PROJECT, None, "/offered", "/cwd", "/claude"),
        (HOME, None, "/offered", "/cwd", "/offered"),
        (HOME, None, None, "/cwd", "/cwd"),
        (HOME, None, None, "/home/me/", None),
        (HOME, None, None, "/", None),
        (HOME, None, "/", "/cwd", None),
        (HOME, "/home/me", None, "/cwd", "/home/me"),
        (HOME, None, None, None, None),
        ({}, None, None, "/cwd/.", "/cwd"),
    ],
)
def test_the_first_named_folder_counts_and_home_is_no_project(
    env: Mapping[str, str],
    root: str | None,
    offered: str | None,
    cwd: str | None,
    found: str | None,
) -> None:
    place = find_place(env, root=root, offered=offered, cwd=cwd)
    assert place.root == found
    assert bool(place.refusal) == (found is None)
    assert "--root" in place.refusal or found is not None


def test_each_folder_has_its_session_with_a_valid_name() -> None:
    folders = ["/a/project", "/b/project", "/ö ü", "/" + "x" * 200, "/...", "/a/project"]
    names = [find_place({}, cwd=folder).session for folder in folders]
    assert len(set(names)) == 5 and names[0] == names[-1]
    assert all(len(name) <= 64 and name.startswith("mcp.") for name in names)
    assert find_place({}, session="mine", cwd="/a").session == "mine"


@pytest.mark.parametrize(
    ("uri", "folder"),
    [
        ("file:///a%20b/c", "/a b/c"),
        ("file:///", "/"),
        ("file://localhost/work", "/work"),
        ("file://elsewhere/work", None),
        ("file://[", None),
        ("https://x/y", None),
        ("", None),
    ],
)
def test_a_file_uri_names_a_folder(uri: str, folder: str | None) -> None:
    assert folder_of(uri) == folder


def test_a_legacy_host_is_asked_for_its_roots_once(
    shared_daemon: RunningDaemon, tmp_path: Path
) -> None:
    class Rooted(Legacy):
        roots = (str(tmp_path),)

    with Rooted(shared_daemon, capabilities={"roots": {}}) as host:
        assert str(tmp_path) in host.call("run", command="pwd")
        assert str(tmp_path) in host.call("run", command="pwd")
        assert [message["method"] for message in host.seen] == ["roots/list"]


def test_a_host_silent_about_its_roots_delays_a_call_and_a_late_reply_counts_for_the_next() -> None:
    tools = Tools(Options(), {}, "/cwd")

    def work_folder(host: Declared, params: Raw) -> Steps:
        place = yield from tools.place(host)
        return {"root": place.root}

    legacy = Declared("2025-11-25", Capabilities(roots={}), is_modern=False)
    bridge = Bridge(
        cast(Any, None),
        {"tools/call": work_folder},
        capabilities={},
        instructions="",
        legacy=legacy,
    )

    def receive(message: dict[str, Any], now: float) -> None:
        bridge.receive(json.dumps({"jsonrpc": "2.0", **message}).encode(), now)

    def sent() -> list[Any]:
        lines = bytes(bridge.to_host).splitlines()
        bridge.to_host.clear()
        return [json.loads(line) for line in lines]

    call = {"id": 1, "method": "tools/call", "params": {"name": "run"}}
    receive(call, 100.0)
    (asked,) = sent()
    assert asked["method"] == "roots/list"
    due = 100.0 + ROOTS_TIMEOUT_S
    assert bridge.next_due() == due
    bridge.tick(due - 0.1)
    assert sent() == []
    bridge.tick(due)
    assert [reply["result"]["root"] for reply in sent()] == ["/cwd"]
    assert bridge.next_due() is None
    receive(call, 200.0)
    assert [reply["result"]["root"] for reply in sent()] == ["/cwd"]
    receive({"id": asked["id"], "result": {"roots": [{"uri": "file:///late"}]}}, 201.0)
    receive(call, 202.0)
    assert [reply["result"]["root"] for reply in sent()] == ["/late"]


def test_a_call_without_a_folder_names_the_setting(
    shared_daemon: RunningDaemon, era: type[Host]
) -> None:
    with era(shared_daemon, cwd=shared_daemon.home) as host:
        result = host.request("tools/call", name="run", arguments={"command": "pwd"})
        assert result["isError"] is True and '["mcp", "--root", ' in result["content"][0]["text"]
        assert host.request("tools/list")["tools"]


def test_claudes_project_folder_precedes_the_working_folder(
    shared_daemon: RunningDaemon, tmp_path: Path
) -> None:
    env = {"CLAUDE_PROJECT_DIR": str(tmp_path)}
    with Modern(shared_daemon, env=env, cwd="/") as host:
        assert str(tmp_path) in host.call("run", command="pwd")
