from __future__ import annotations

from tests.faults.harness import until

from .calls import batched, called
from .conftest import Host

TOOLS = """
[tools.cargo_build]
source = "local"
stateful = true
output = "raw"
command = ["sh", "-c", "echo '   Compiling jp_cli v0.1.0'; read go; echo '    Finished'"]
on_turn_end = "inquire"
parameters = {}

[tools.server]
source = "local"
stateful = true
output = "raw"
command = ["sh", "-c", "echo 'Listening on 8080'; exec sleep 300"]
on_turn_end = "inquire"
parameters = {}
"""


def test_the_turn_end_inquiry(host_of: Host) -> None:
    host = host_of(TOOLS)
    host.call("turn/begin")
    batched(
        host,
        ("cargo_build", {"action": "spawn", "id": "build"}),
        ("server", {"action": "spawn", "id": "web"}),
        ("server", {"action": "spawn", "id": "old"}),
    )
    for id in ("build", "web", "old"):
        host.call("fetch", id=id, wait="output", cursor=0)
    number = host.start("turn/end", target="assistant", context={"messages": []})
    asked = host.receive()
    assert asked["method"] == "inquiry/ask"
    params = asked["params"]
    inquiry = params["inquiry_id"]
    assert inquiry.startswith(f"turn_end.{host.session}.")
    assert params["target"] == "assistant" and params["context"] == {"messages": []}
    assert "handle" not in params and "call_id" not in params
    question = params["question"]
    assert question["id"] == "turn_end" and "3 programs still run" in question["text"]
    for shown in (
        "build: cargo_build, running for 0 s",
        "\n  |    Compiling jp_cli v0.1.0",
        "web: server, running for 0 s",
        "\n  | Listening on 8080",
    ):
        assert shown in question["pre_amble"]
    choices = {"enum": ["wait", "abort", "keep"]}
    answer = params["schema"]["properties"]["answer"]
    assert answer["required"] == ["build", "web", "old"]
    assert {id: {"enum": one["enum"]} for id, one in answer["properties"].items()} == dict.fromkeys(
        ("build", "web", "old"), choices
    )

    host.result(
        asked, {"inquiry_id": inquiry, "answer": {"build": "wait", "web": "keep", "old": "abort"}}
    )
    until(lambda: not host.call("inquiries/list")["inquiries"], "the answer has come")
    host.call("apply", id="build", input={"line": "go"}, wait="none", view="tail", max_bytes=0)
    result = host.finish(number)
    assert {one["id"]: one["decided"] for one in result["inquired"]} == {
        "build": "wait",
        "web": "keep",
        "old": "abort",
    }
    ended = {row["id"]: row.get("ended_by", {}).get("by") for row in result["handles"]}
    assert ended == {"build": "exit", "web": None, "old": "turn_end"}

    # In the next turn the awaited handle is read, the kept one runs on, and the end of the aborted
    # one is reported.
    host.call("turn/begin")
    built = called(host, "cargo_build", {"action": "fetch", "id": "build"})
    assert built["result"].endswith("    Finished\n")
    assert ["old" in notice["message"] for notice in built["notifications"]] == [True], built
    assert called(host, "server", {"action": "fetch", "id": "web"})["state"] == "running"
