"""A server's tool through `haft mcp`: host, haft and server, each in either era."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mcp.host import Host
from tests.mcpserver import server
from tests.repository import make_repository
from tests.running import RunningDaemon


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
