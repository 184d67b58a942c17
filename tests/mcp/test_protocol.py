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
    one = host(Modern)
    one.write_line(line)
    assert one.read()["error"]["code"] == code
    assert one.request("server/discover")["supportedVersions"] == [MODERN]


def test_a_request_without_its_meta_or_of_another_revision_is_refused(host: Open) -> None:
    one = host(Modern)
    prefix = "io.modelcontextprotocol/"
    with pytest.raises(McpError) as refused:
        one.request("tools/list", _meta={prefix + "protocolVersion": "2099-01-01"})
    assert refused.value.code == -32022
    assert refused.value.data == {"supported": [MODERN], "requested": "2099-01-01"}
    number = Host.start(one, "tools/list", {"_meta": {prefix + "protocolVersion": MODERN}})
    with pytest.raises(McpError) as refused:
        Host.finish(one, number)
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
    one = host(Old)
    assert one.hello["protocolVersion"] == known
    assert one.request("ping") == {}
    assert "resultType" not in one.hello and "_meta" not in one.hello


def test_an_unknown_tool_is_an_error_and_an_invalid_argument_a_result(
    host: Open, era: type[Host]
) -> None:
    one = host(era)
    with pytest.raises(McpError) as refused:
        one.request("tools/call", name="nothing", arguments={})
    assert refused.value.code == -32602
    wrong = one.request("tools/call", name="run", arguments={"comand": "x"})
    assert wrong["isError"] is True and "comand" in wrong["content"][0]["text"]
    missing = one.request("tools/call", name="handle_read", arguments={"id": "nope"})
    assert missing["isError"] is True and "`run` starts one" in missing["content"][0]["text"]


def test_arguments_in_json_texts_are_converted(host: Open, era: type[Host]) -> None:
    one = host(era)
    result = one.request(
        "tools/call", name="run", arguments='{"command": "echo hi", "wait_s": "9"}'
    )
    assert text_of(result).splitlines()[1:] == ["hi"]


def test_a_cancelled_call_ends_its_wait_and_nothing_else(host: Open, era: type[Host]) -> None:
    one = host(era)
    one.call("run", id="cat", command="cat")
    wait = {"name": "handle_wait", "arguments": {"ids": ["cat"], "wait_s": 50}}
    number = one.start("tools/call", wait)
    one.notify("notifications/cancelled", requestId=number)
    assert one.call("handle_list").startswith("cat: running, ")
    assert not [message for message in one.seen if message.get("id") == number]
    assert one.call("handle_send", id="cat", line="still here").endswith("]\nstill here")


def test_calls_run_concurrently(host: Open, era: type[Host]) -> None:
    one = host(era)
    one.call("run", id="cat", command="cat")
    slow = one.start(
        "tools/call", {"name": "handle_wait", "arguments": {"ids": ["cat"], "wait_s": 50}}
    )
    assert one.call("handle_send", id="cat", keys="C-d").startswith("[cat: exit 0, ")
    # Its reply came first, or comes now; one call after the other, the wait would have passed in vain.
    ended = [message["result"] for message in one.seen if message.get("id") == slow]
    assert text_of(*(ended or [one.finish(slow)])).startswith("[cat: exit 0, ")


def test_end_of_input_ends_the_process_and_no_handle(host: Open, era: type[Host]) -> None:
    one = host(era)
    one.call("run", id="cat", command="cat")
    one.start("tools/call", {"name": "handle_wait", "arguments": {"ids": ["cat"], "wait_s": 50}})
    assert one.close() == 0
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
    one = host(era)
    one.call("run", id="cat", command="cat", terminal=True)
    one.call("handle_send", id="cat", line="one", view="screen")
    listed = one.request("resources/list")["resources"]
    assert [resource["uri"] for resource in listed] == [f"{HANDLE}/output"]
    (content,) = one.request("resources/read", uri=f"{HANDLE}/output")["contents"]
    assert content["text"].splitlines() == ["one", "one"]
    (content,) = one.request("resources/read", uri=f"{HANDLE}/screen")["contents"]
    assert content["text"].splitlines() == ["one", "one"]
    assert "one" in one.call("handle_read", id="cat", until="now")
    with pytest.raises(McpError) as refused:
        one.request("resources/read", uri="haft://handles/nope/output")
    assert refused.value.code == -32602


def test_a_modern_host_gets_its_subscriptions_until_cancelled(
    host: Open, shared_daemon: RunningDaemon
) -> None:
    one = host(Modern)
    one.call("run", id="cat", command="cat")
    wanted = {"toolsListChanged": True, "resourceSubscriptions": [f"{HANDLE}/output", "x://y"]}
    number = one.start("subscriptions/listen", {"notifications": wanted})
    first = one.read()
    honoured = {"toolsListChanged": True, "resourceSubscriptions": [f"{HANDLE}/output"]}
    assert first["method"] == "notifications/subscriptions/acknowledged"
    assert first["params"]["notifications"] == honoured
    subscription = {"io.modelcontextprotocol/subscriptionId": number}
    assert first["params"]["_meta"] == subscription
    # The subscription precedes later messages of the connection.
    one.call("handle_list")
    with shared_daemon.connect() as wire:
        wire.call("tools/reload")
    changed = one.read()
    assert changed["method"] == "notifications/tools/list_changed"
    assert changed["params"]["_meta"] == subscription
    one.call("handle_send", id="cat", line="x")
    (updated,) = one.seen or [one.read()]
    assert updated["method"] == "notifications/resources/updated"
    assert updated["params"] == {"uri": f"{HANDLE}/output", "_meta": subscription}
    one.notify("notifications/cancelled", requestId=number)
    with shared_daemon.connect() as wire:
        wire.call("tools/reload")
    one.seen.clear()
    one.call("handle_list")
    assert one.seen == []


def test_each_subscription_of_a_resource_gets_the_change(host: Open) -> None:
    one = host(Modern)
    one.call("run", id="cat", command="cat")
    wanted = {"notifications": {"resourceSubscriptions": [f"{HANDLE}/output"]}}
    numbers = {one.start("subscriptions/listen", wanted) for _ in range(2)}
    for _ in numbers:
        assert one.read()["method"] == "notifications/subscriptions/acknowledged"
    one.call("handle_send", id="cat", line="x")
    while len(one.seen) < 2:
        one.seen.append(one.read())
    assert {message["method"] for message in one.seen} == {"notifications/resources/updated"}
    ids = [m["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] for m in one.seen]
    assert set(ids) == numbers


def test_a_legacy_host_gets_bare_notifications(host: Open, shared_daemon: RunningDaemon) -> None:
    one = host(Legacy)
    one.request("tools/list")
    one.call("handle_list")
    with shared_daemon.connect() as wire:
        wire.call("tools/reload")
    assert one.read() == {
        "jsonrpc": "2.0",
        "method": "notifications/tools/list_changed",
        "params": {},
    }


def test_the_action_surface_is_available(host: Open, era: type[Host]) -> None:
    one = host(era, "--surface", "actions")
    tools: list[dict[str, Any]] = one.request("tools/list")["tools"]
    assert {"run", "await"} <= {tool["name"] for tool in tools}
    assert not any(tool["name"].startswith("handle_") for tool in tools)
    assert "action" in json.dumps(tools)
    text = one.call("run", action="spawn", id="cat", command="cat", wait="input")
    assert text.startswith("[cat: running, ")
    taken = {"action": "spawn", "id": "cat", "command": "cat"}
    refused = one.request("tools/call", name="run", arguments=taken)
    assert "end it first by `abort`" in refused["content"][0]["text"]


def test_half_a_surrogate_pair_is_a_mark_and_the_request_is_answered(host: Open) -> None:
    """Hosts in JavaScript write a cut emoji so; without a reply to its id they would wait for ever."""
    one = host(Legacy)
    text = r'{"jsonrpc":"2.0","id":"s","method":"tools/call","params":{"name":"run","arguments":{"command":"echo a\ud83dz"}}}'
    one.write_line(text.encode())
    reply = one.read()
    assert reply["id"] == "s" and reply["result"]["content"][0]["text"].endswith("a?z")
    # Whole pairs and escaped backslashes stay as they are, and other faults are named as before.
    said = one.call("run", command="echo '\U0001f600' '\\ud83d'")
    assert said.endswith("\U0001f600 \\ud83d")
    one.write_line(rb'{"jsonrpc":"2.0","id":1,"method":"\ud800",')
    assert one.read()["error"]["code"] == -32700


def test_a_byte_order_mark_before_the_first_message_is_passed_over(host: Open) -> None:
    one = host(Modern)
    one.write_line(b'\xef\xbb\xbf{"jsonrpc":"2.0","id":"first","method":"ping"}')
    assert one.read() == {"jsonrpc": "2.0", "id": "first", "result": {}}
    one.write_line(b"\xef\xbb\xbf")
    assert one.request("server/discover")["supportedVersions"] == [MODERN]


def test_the_end_of_a_line_that_is_too_long_is_no_message(host: Open) -> None:
    one = host(Legacy)
    hidden = json.dumps({"jsonrpc": "2.0", "id": "hidden", "method": "ping"})
    # Chunks of 64 KiB: the limit is passed in the last before what looks like a message.
    one.write_line(b"x" * (MAX_LINE + (1 << 16)) + hidden.encode())
    refused = one.read()
    assert refused["id"] is None and "16 MiB" in refused["error"]["message"]
    assert one.request("ping") == {} and one.seen == []
