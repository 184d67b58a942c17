"""A server's tool through `haft mcp`: host, haft and server, each in either era."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from haft.mcp.server_import import ServerImport
from tests.mcp.host import Host, Modern
from tests.mcpserver import SERVER, server
from tests.repository import make_repository
from tests.running_daemon import RunningDaemon


@pytest.mark.parametrize("behind", ["modern", "legacy"])
def test_a_servers_tool_is_listed_called_and_asks_through_haft_mcp(
    make_daemon: Callable[..., RunningDaemon], short_tmp: Path, era: type[Host], behind: str
) -> None:
    daemon = make_daemon(server("small", behind)).start()
    root = make_repository(short_tmp / "repo")
    with era(daemon, "--root", str(root)) as host:
        listed = {tool["name"]: tool for tool in host.request("tools/list")["tools"]}
        echo = listed["small_echo"]
        assert echo["inputSchema"]["required"] == ["text"]
        assert echo["annotations"]["readOnlyHint"] is True
        assert host.call("small_echo", text="x").splitlines()[1:] == ['{"text": "x"}']
        said = host.ask("small_asks", {}, {"name": "Ada", "sure": True})
        assert said.splitlines()[1:] == ["Ada true"]
        failed = host.request("tools/call", name="small_die", arguments={})
        assert failed["isError"]
        assert "exited with status 3 during the call" in failed["content"][0]["text"]


@pytest.mark.parametrize(
    ("tool", "value"), [("small_ask_url", True), ("small_ask_secret", "s3cr3t")]
)
def test_a_secret_and_an_address_go_to_a_person_and_never_through_a_form(
    make_daemon: Callable[..., RunningDaemon],
    short_tmp: Path,
    era: type[Host],
    tool: str,
    value: Any,
) -> None:
    daemon = make_daemon(server("small", "legacy")).start()
    root = make_repository(short_tmp / "repo")
    with era(daemon, "--root", str(root)) as host, daemon.connect() as wire:
        text = host.call(tool)
        assert host.seen == [] and ": asks, " in text
        (inquiry,) = wire.call("inquiries/list", session="*")["inquiries"]
        assert text.endswith(f"[a person answers: haft answer {inquiry['inquiry_id']}]")
        assert inquiry["question"].get("url") == (
            "https://example.org/login?x=1" if value is True else None
        )
        known = {"inquiry_id": inquiry["inquiry_id"], "session": inquiry["session"]}
        wire.call("inquiries/answer", answer=value, **known)
        assert "accept" in host.call("handle_wait", ids=inquiry["handle"])


def test_an_imported_server_serves_a_running_daemon_after_a_reload(
    make_daemon: Callable[..., RunningDaemon], short_tmp: Path
) -> None:
    daemon = make_daemon("# mine\n").start()
    entry = {"command": sys.executable, "args": ["-S", str(SERVER), "modern"]}
    source = short_tmp / "mcp.json"
    source.write_text(json.dumps({"mcpServers": {"taken over": entry}}))
    ServerImport(str(source), daemon.env).write()
    with daemon.connect() as wire:
        wire.call("daemon/reload")
    root = make_repository(short_tmp / "repo")
    with Modern(daemon, "--root", str(root)) as host:
        # The host's name of the server has a character that no provider takes in the name of a tool.
        assert host.call("taken_over_echo", text="x").splitlines()[1:] == ['{"text": "x"}']
