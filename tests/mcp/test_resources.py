"""Notifications about resources, made from those of the daemon. No daemon runs."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from haft.mcp.messages import Capabilities
from haft.mcp.resources import Resources
from haft.mcp.steps import AwaitNotification, CallDaemon, Host, NotifyHost, Serve
from haft.mcp.tools import Options, Tools
from tests.mcp.host import MODERN

OUTPUT = "haft://handles/cat/output"


def raw(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))


def reply(serve: Serve, host: Host, params: Any, daemon: Any) -> dict[str, Any]:
    """Return the result of a method that calls the daemon once."""
    steps = serve(host, raw(params))
    assert isinstance(next(steps), CallDaemon)
    try:
        steps.send(raw(daemon))
    except StopIteration as stop:
        result: dict[str, Any] = stop.value
        return result
    raise AssertionError("one call was expected")


def test_a_changed_resource_is_notified_once_until_the_host_reads_it() -> None:
    resources = Resources(Tools(Options(root="/project"), {}, "/project"))
    host = Host(MODERN, Capabilities(), is_modern=True)
    wanted = {"notifications": {"resourceSubscriptions": [OUTPUT]}, "_meta": {}}
    stream = resources.methods["subscriptions/listen"](host, raw(wanted))
    assert isinstance(next(stream), CallDaemon)
    assert isinstance(stream.send(raw({})), NotifyHost)
    assert isinstance(stream.send(raw(None)), AwaitNotification)
    printed = raw(["handle/output", {"id": "cat"}])
    assert stream.send(printed) == NotifyHost(
        "notifications/resources/updated",
        {"uri": OUTPUT, "_meta": {"io.modelcontextprotocol/subscriptionId": 0}},
    )
    assert isinstance(stream.send(raw(None)), AwaitNotification)
    assert isinstance(stream.send(printed), AwaitNotification), "the host knows of the change"
    state = {"id": "cat", "state": "running", "content": "x\n"}
    read = reply(resources.methods["resources/read"], host, {"uri": OUTPUT}, state)
    assert [content["text"] for content in read["contents"]] == ["x\n"]
    assert isinstance(stream.send(printed), NotifyHost)
    stream.close()
