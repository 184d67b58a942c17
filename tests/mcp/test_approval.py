"""An approval is a user's: an MCP host is not asked to approve."""

from __future__ import annotations

import sys

import pytest

from tests.faults.harness import until
from tests.mcp.conftest import Open
from tests.mcp.host import Host, text_of
from tests.running_daemon import RunningDaemon

ASKS = """
[tools.deploy]
command = "echo deployed"
stateful = true
run = "ask"
"""


@pytest.fixture(autouse=True)
def deploy(shared_daemon: RunningDaemon) -> None:
    shared_daemon.tools(ASKS)
    with shared_daemon.connect() as wire:
        wire.call("tools/reload")


def test_neither_form_nor_tool_approves(
    host: Open, shared_daemon: RunningDaemon, era: type[Host]
) -> None:
    client = host(era)
    result = client.request("tools/call", name="deploy", arguments={"id": "d", "wait_s": 0})
    with shared_daemon.connect() as wire:
        until(lambda: wire.call("approvals/list", session="*")["approvals"], "an approval")
    text = client.call("handle_read", id="d", until="now")
    assert "haft approve" in text and "deployed" not in text + text_of(result)
    assert "inputRequests" not in result and client.seen == []
    # Neither input to the handle nor a listed tool decides the approval.
    for value in ({"answer": "allow"}, {"answer": True}, {"line": "y"}):
        sent = client.request(
            "tools/call", name="handle_send", arguments={"id": "d", "wait_s": 0, **value}
        )
        assert "waits for approval" in text_of(sent) or sent["isError"]
    assert not [tool for tool in client.request("tools/list")["tools"] if "appro" in tool["name"]]
    with shared_daemon.connect() as wire:
        (waiting,) = wire.call("approvals/list", session="*")["approvals"]
        number, session = waiting["approval_id"], waiting["session"]
        # A program that the model starts is a client without the right to decide.
        command = f"{sys.executable} -m haft approve {number} --allow --session {session}"
        refusal = client.call("run", command=command, wait_s=50)
        assert "cannot decide about an approval" in refusal
        assert "deployed" not in client.call("handle_read", id="d", until="now")
        wire.call("approvals/decide", approval_id=number, session=session, decision="allow")
    assert "deployed" in client.call("handle_read", id="d", view="all", until="stopped")
