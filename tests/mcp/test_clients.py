"""The Python SDK's client drives a staging session with a question, across a kill of `haft mcp`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.repository import make_repository, staged
from tests.running import RunningDaemon


@pytest.mark.clients
@pytest.mark.parametrize("mode", ["2026-07-28", "legacy", "auto"])
async def test_the_sdks_client_drives_a_session_with_a_question(
    shared_daemon: RunningDaemon, tmp_path: Path, mode: str
) -> None:
    from mcp import Client, StdioServerParameters, types

    root = make_repository(tmp_path / "repo")
    poor = ("HOME", "PATH", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME")
    server = StdioServerParameters(
        command=sys.executable,
        args=["-P", "-m", "haft", "mcp", "--root", str(root)],
        env={name: shared_daemon.env[name] for name in poor},
    )
    asked: list[str] = []

    async def answer(context: Any, params: Any) -> Any:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"answer": True})

    async def call(client: Any, name: str, **arguments: Any) -> str:
        result = await client.call_tool(name, arguments)
        assert not result.is_error
        text = result.content[0].text
        assert isinstance(text, str)
        return text

    async with Client(server, mode=mode, elicitation_callback=answer) as client:
        assert {"run", "handle_send"} <= {tool.name for tool in (await client.list_tools()).tools}
        assert "(1/3)" in await call(client, "git_stage", id="stage")
        assert "(2/3)" in await call(client, "handle_send", id="stage", line="y")
        (child,) = (
            child
            for child in psutil.Process().children()
            if child.cmdline()[-2:] == ["--root", str(root)]
        )
        child.kill()
    async with Client(server, mode=mode, elicitation_callback=answer) as client:
        answered = await call(client, "ask_user", question="Go on?", type="boolean")
        assert answered.endswith("\ntrue") and asked == ["Go on?"]
        assert "(3/3)" in await call(client, "handle_send", id="stage", line="n")
        await call(client, "handle_send", id="stage", line="y", until="stopped")
    assert staged(root) == ["line two", "line thirty-nine"]
