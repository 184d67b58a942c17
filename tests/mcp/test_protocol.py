"""The MCP protocol's rules: versions, errors, cancellation, progress, resources and
notifications."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from haft.mcp.stdio import MAX_LINE
from tests.mcp.conftest import Open
from tests.mcp.host import MODERN, Host, Legacy, McpError, Modern, text_of
from tests.running_daemon import RunningDaemon

HANDLE = "haft://handles/cat"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"nonsense", -32700),
        (b"[]", -32600),
        (b'{"jsonrpc":"2.0","id":1}' + b" x", -32700),
        (b'{"id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/list"}', -32602),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/list","params":[1]}', -32602),
    ],
)
def test_an_invalid_request_gets_its_error_and_harms_nothing(
    host: Open, line: bytes, code: int
) -> None:
    client = host(Modern)
    client.write_line(line)
    assert client.read()["error"]["code"] == code
    assert client.request("server/discover")["supportedVersions"] == [MODERN]


def test_a_request_without_its_meta_or_of_another_revision_is_refused(host: Open) -> None:
    client = host(Modern)
    prefix = "io.modelcontextprotocol/"
    with pytest.raises(McpError) as refused:
        client.request("tools/list", _meta={prefix + "protocolVersion": "2099-01-01"})
    assert refused.value.code == -32022
    assert refused.value.data == {"supported": [MODERN], "requested": "2099-01-01"}
    number = Host.start(client, "tools/list", {"_meta": {prefix + "protocolVersion": MODERN}})
    with pytest.raises(McpError) as refused:
        Host.finish(client, number)
    assert refused.value.code == -32602


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "tools/nothing"])
def test_a_method_unknown_to_the_revision_is_not_found(host: Open, method: str) -> None:
    with pytest.raises(McpError) as refused:
        host(Modern).request(method)
    assert refused.value.code == -32601


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2024-11-05", "1999-01-01"])
def test_a_known_legacy_version_is_echoed(host: Open, version: str) -> None:
    class Old(Legacy):
        pass

    Old.version = version
    known = "2025-11-25" if version == "1999-01-01" else version
    client = host(Old)
    assert client.hello["protocolVersion"] == known
    assert client.request("ping") == {}
    assert "resultType" not in client.hello and "_meta" not in client.hello


def test_an_unknown_tool_is_an_error_and_an_invalid_argument_a_result(
    host: Open, era: type[Host]
) -> None:
    client = host(era)
    with pytest.raises(McpError) as refused:
        client.request("tools/call", name="nothing", arguments={})
    assert refused.value.code == -32602
    wrong = client.request("tools/call", name="run", arguments={"comand": "x"})
    assert wrong["isError"] is True and "comand" in wrong["content"][0]["text"]
    missing = client.request("tools/call", name="handle_read", arguments={"id": "nope"})
    assert missing["isError"] is True and "`run` starts one" in missing["content"][0]["text"]


def test_arguments_in_json_texts_are_converted(host: Open, era: type[Host]) -> None:
    client = host(era)
    result = client.request(
        "tools/call", name="run", arguments='{"command": "echo hi", "wait_s": "9"}'
    )
    assert text_of(result).splitlines()[1:] == ["hi"]


def test_a_cancelled_call_ends_its_wait_and_nothing_else(host: Open, era: type[Host]) -> None:
    client = host(era)
    client.call("run", id="cat", command="cat")
    wait = {"name": "handle_wait", "arguments": {"ids": ["cat"], "wait_s": 50}}
    number = client.start("tools/call", wait)
    client.notify("notifications/cancelled", requestId=number)
    assert client.call("handle_list").startswith("cat: running, ")
    assert not [message for message in client.seen if message.get("id") == number]
    assert client.call("handle_send", id="cat", line="still here").endswith("]\nstill here")


def test_calls_run_concurrently(host: Open, era: type[Host]) -> None:
    client = host(era)
    client.call("run", id="cat", command="cat")
    slow = client.start(
        "tools/call", {"name": "handle_wait", "arguments": {"ids": ["cat"], "wait_s": 50}}
    )
    assert client.call("handle_send", id="cat", keys="C-d").startswith("[cat: exit 0, ")
    # Its reply came first, or comes now; one call after the other, the wait would have passed in vain.
    ended = [message["result"] for message in client.seen if message.get("id") == slow]
    assert text_of(*(ended or [client.finish(slow)])).startswith("[cat: exit 0, ")


def test_a_call_over_the_daemons_limit_is_refused_alone(host: Open, era: type[Host]) -> None:
    client = host(era)
    for _ in range(2):  # before the daemon has reported its limits, and after
        refused = client.start(
            "tools/call", {"name": "run", "arguments": {"command": "x" * (9 << 20)}}
        )
        beside = client.start("tools/call", {"name": "run", "arguments": {"command": "echo hi"}})
        assert text_of(client.finish(beside)).endswith("]\nhi")
        (error,) = [message for message in client.seen if message.get("id") == refused]
        assert "`max_message` is 8388608" in str(error.get("error") or error["result"])
        client.seen.clear()


def test_end_of_input_ends_the_process_and_no_handle(host: Open, era: type[Host]) -> None:
    client = host(era)
    client.call("run", id="cat", command="cat")
    client.start("tools/call", {"name": "handle_wait", "arguments": {"ids": ["cat"], "wait_s": 50}})
    assert client.close() == 0
    assert host(era).call("handle_list").startswith("cat: running, ")


def test_the_end_of_the_daemon_is_an_answer_and_the_next_call_starts_another(
    daemon: RunningDaemon, root: Path, era: type[Host]
) -> None:
    with era(daemon, "--root", str(root)) as one:
        one.call("run", id="cat", command="cat")
        number = one.start(
            "tools/call", {"name": "handle_wait", "arguments": {"ids": ["cat"], "wait_s": 50}}
        )
        one.request("tools/list")
        daemon.kill9()
        ended = one.finish(number)
        assert ended["isError"] is True and "haftd ended" in ended["content"][0]["text"]
        assert "hi" in one.call("run", command="echo hi")
        with daemon.connect() as wire:
            wire.call("daemon/shutdown")


def test_output_and_screen_are_resources_without_effect_on_the_models_reads(
    host: Open, era: type[Host]
) -> None:
    client = host(era)
    client.call("run", id="cat", command="cat", terminal=True)
    client.call("handle_send", id="cat", line="one", view="screen")
    listed = client.request("resources/list")["resources"]
    assert [resource["uri"] for resource in listed] == [f"{HANDLE}/output"]
    (content,) = client.request("resources/read", uri=f"{HANDLE}/output")["contents"]
    assert content["text"].splitlines() == ["one", "one"]
    (content,) = client.request("resources/read", uri=f"{HANDLE}/screen")["contents"]
    assert content["text"].splitlines() == ["one", "one"]
    assert "one" in client.call("handle_read", id="cat", until="now")
    with pytest.raises(McpError) as refused:
        client.request("resources/read", uri="haft://handles/nope/output")
    assert refused.value.code == -32602


def test_a_modern_host_gets_its_subscriptions_until_cancelled(
    host: Open, shared_daemon: RunningDaemon
) -> None:
    client = host(Modern)
    client.call("run", id="cat", command="cat")
    wanted = {"toolsListChanged": True, "resourceSubscriptions": [f"{HANDLE}/output", "x://y"]}
    number = client.start("subscriptions/listen", {"notifications": wanted})
    first = client.read()
    honoured = {"toolsListChanged": True, "resourceSubscriptions": [f"{HANDLE}/output"]}
    assert first["method"] == "notifications/subscriptions/acknowledged"
    assert first["params"]["notifications"] == honoured
    subscription = {"io.modelcontextprotocol/subscriptionId": number}
    assert first["params"]["_meta"] == subscription
    # The subscription precedes later messages of the connection.
    client.call("handle_list")
    with shared_daemon.connect() as wire:
        wire.call("tools/reload")
    changed = client.read()
    assert changed["method"] == "notifications/tools/list_changed"
    assert changed["params"]["_meta"] == subscription
    client.call("handle_send", id="cat", line="x")
    (updated,) = client.seen or [client.read()]
    assert updated["method"] == "notifications/resources/updated"
    assert updated["params"] == {"uri": f"{HANDLE}/output", "_meta": subscription}
    client.notify("notifications/cancelled", requestId=number)
    # The cancellation precedes later messages of the connection.
    client.call("handle_list")
    with shared_daemon.connect() as wire:
        wire.call("tools/reload")
    client.seen.clear()
    client.call("handle_list")
    assert client.seen == []


def test_each_subscription_of_a_resource_gets_the_change(host: Open) -> None:
    client = host(Modern)
    client.call("run", id="cat", command="cat")
    wanted = {"notifications": {"resourceSubscriptions": [f"{HANDLE}/output"]}}
    numbers = {client.start("subscriptions/listen", wanted) for _ in range(2)}
    for _ in numbers:
        assert client.read()["method"] == "notifications/subscriptions/acknowledged"
    client.call("handle_send", id="cat", line="x")
    while len(client.seen) < 2:
        client.seen.append(client.read())
    assert {message["method"] for message in client.seen} == {"notifications/resources/updated"}
    ids = [m["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] for m in client.seen]
    assert set(ids) == numbers


def test_a_legacy_host_gets_bare_notifications(host: Open, shared_daemon: RunningDaemon) -> None:
    client = host(Legacy)
    client.request("tools/list")
    client.call("handle_list")
    with shared_daemon.connect() as wire:
        wire.call("tools/reload")
    assert client.read() == {
        "jsonrpc": "2.0",
        "method": "notifications/tools/list_changed",
        "params": {},
    }


def test_the_action_surface_is_available(host: Open, era: type[Host]) -> None:
    client = host(era, "--surface", "actions")
    tools: list[dict[str, Any]] = client.request("tools/list")["tools"]
    assert {"run", "await"} <= {tool["name"] for tool in tools}
    assert not any(tool["name"].startswith("handle_") for tool in tools)
    assert "action" in json.dumps(tools)
    text = client.call("run", action="spawn", id="cat", command="cat", wait="input")
    assert text.startswith("[cat: running, ")
    taken = {"action": "spawn", "id": "cat", "command": "cat"}
    refused = client.request("tools/call", name="run", arguments=taken)
    assert "end it first with `abort`" in refused["content"][0]["text"]


def test_half_a_surrogate_pair_is_a_mark_and_the_request_is_answered(host: Open) -> None:
    """Hosts in JavaScript write a cut emoji so; without a reply to its id they would wait for ever."""
    client = host(Legacy)
    text = r'{"jsonrpc":"2.0","id":"s","method":"tools/call","params":{"name":"run","arguments":{"command":"echo a\ud83dz"}}}'
    client.write_line(text.encode())
    reply = client.read()
    assert reply["id"] == "s" and reply["result"]["content"][0]["text"].endswith("a?z")
    # Whole pairs and escaped backslashes stay as they are, and other faults are named as before.
    said = client.call("run", command="echo '\U0001f600' '\\ud83d'")
    assert said.endswith("\U0001f600 \\ud83d")
    client.write_line(rb'{"jsonrpc":"2.0","id":1,"method":"\ud800",')
    assert client.read()["error"]["code"] == -32700


def test_a_byte_order_mark_before_the_first_message_is_passed_over(host: Open) -> None:
    client = host(Modern)
    client.write_line(b'\xef\xbb\xbf{"jsonrpc":"2.0","id":"first","method":"ping"}')
    assert client.read() == {"jsonrpc": "2.0", "id": "first", "result": {}}
    client.write_line(b"\xef\xbb\xbf")
    assert client.request("server/discover")["supportedVersions"] == [MODERN]


def test_the_end_of_a_line_that_is_too_long_is_no_message(host: Open) -> None:
    client = host(Legacy)
    hidden = json.dumps({"jsonrpc": "2.0", "id": "hidden", "method": "ping"})
    # Chunks of 64 KiB: the limit is passed in the last before what looks like a message.
    client.write_line(b"x" * (MAX_LINE + (1 << 16)) + hidden.encode())
    refused = client.read()
    assert refused["id"] is None and "16 MiB" in refused["error"]["message"]
    assert client.request("ping") == {} and client.seen == []
