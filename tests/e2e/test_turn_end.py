from __future__ import annotations

import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.question_tools import Client, Join
from tests.faults.harness import until
from tests.forkserver import run_haft
from tests.running_daemon import RunningDaemon
from tests.wire import Refused

CLIENT = Client
TOOLS = "".join(
    f"""
[tools.{name}]
source = "local"
stateful = true
output = "raw"
command = ["sh", "-c", "{{{{ tool.arguments.sh }}}}"]
parameters.sh = {{ type = "string", required = true }}
on_turn_end = "{policy}"
"""
    for name, policy in {"asked": "inquire", "stays": "keep", "ends": "abort"}.items()
)
SLEEPS = "echo up; exec sleep 300"


def start(client: Client, id: str, sh: str = SLEEPS, tool: str = "asked") -> None:
    client.call("spawn", tool=tool, id=id, args={"sh": sh}, wait="none", view="tail", max_bytes=0)


def decided(result: dict[str, Any]) -> dict[str, str]:
    return {inquiry["id"]: inquiry["decided"] for inquiry in result["inquired"]}


def states(result: dict[str, Any]) -> dict[str, str]:
    return {row["id"]: row["state"] for row in result["handles"]}


def listed(client: Client) -> list[dict[str, Any]]:
    """Return the session's pending inquiries, once there are any."""
    found: list[dict[str, Any]] = []

    def look() -> bool:
        found[:] = client.call("inquiries/list")["inquiries"]
        return bool(found)

    until(look, "nothing is asked")
    return found


def test_one_question_covers_each_handle_and_each_answer_is_applied(join: Join) -> None:
    """The documents' example: at the turn's end, which of the open handles to wait for."""
    host = join()
    start(host, "wait", "read x; echo $x")
    start(host, "abort")
    start(host, "keep", "echo one; echo two; exec sleep 300")
    start(host, "stays", tool="stays")
    start(host, "ends", tool="ends")
    host.call("fetch", id="keep", wait="pattern", pattern="two", cursor=0)
    number = host.start("turn/end", context={"messages": []})
    asked = host.asked()
    params = asked["params"]
    session = params["session"]
    assert params["inquiry_id"].startswith(f"turn_end.{session}.")
    assert params["target"] == "caller" and params["context"] == {"messages": []}
    assert "handle" not in params and "call_id" not in params
    question = params["question"]
    assert question["id"] == "turn_end" and "3 programs still run" in question["text"]
    told = r"^keep: asked, running for \d+ s, last output \d+ s ago\n  \| one\n  \| two$"
    assert re.search(told, question["pre_amble"], re.MULTILINE)
    fields = question["answer_type"]["fields"]
    assert list(fields) == ["wait", "abort", "keep"]
    assert fields["wait"]["options"] == ["wait", "abort", "keep"]
    answer = params["schema"]["properties"]["answer"]
    assert answer["required"] == ["wait", "abort", "keep"]
    assert answer["properties"]["abort"]["enum"] == ["wait", "abort", "keep"]
    host.reply(asked, {"wait": "wait", "abort": "abort", "keep": "keep"})
    until(lambda: not host.call("inquiries/list")["inquiries"], "the answer has come")
    host.call("apply", id="wait", input={"line": "done"}, wait="none", view="tail", max_bytes=0)
    result = host.finish(number)
    assert decided(result) == {"wait": "wait", "abort": "abort", "keep": "keep"}
    assert states(result) == {
        "wait": "stopped",
        "abort": "stopped",
        "keep": "running",
        "stays": "running",
        "ends": "stopped",
    }
    ended = {row["id"]: row.get("ended_by", {}).get("by") for row in result["handles"]}
    assert ended["abort"] == ended["ends"] == "turn_end" and ended["wait"] == "exit"
    assert host.call("inquiries/list")["inquiries"] == []


def test_the_policy_of_the_call_covers_all_handles(join: Join) -> None:
    host = join()
    start(host, "a", tool="stays")
    start(host, "b", tool="ends")
    number = host.start("turn/end", policy="inquire", target="assistant")
    asked = host.asked()
    assert asked["params"]["target"] == "assistant"
    host.reply(asked, {"a": "abort", "b": "keep"})
    assert states(host.finish(number)) == {"a": "stopped", "b": "running"}


def test_a_turn_without_open_handles_asks_nothing(join: Join) -> None:
    host = join()
    result = host.call("turn/end", policy="inquire")
    assert result["handles"] == [] and "inquired" not in result and host.is_asked_nothing()


def test_a_thin_client_pulls_the_inquiry_and_invalid_answers_are_named(
    asker: RunningDaemon, join: Join
) -> None:
    host, thin = join(able=False), join("thin", able=False)
    start(host, "a")
    start(host, "b")
    number = host.start("turn/end")
    (inquiry,) = listed(thin)
    params = {"inquiry_id": inquiry["inquiry_id"], "question": "turn_end"}
    for answer, why in (
        ("abort", "an object with a choice for each"),
        ({"a": "abort"}, r'missing: \["b"\]'),
        ({"a": "abort", "b": "stay"}, "`b` takes one of"),
        ({"a": "abort", "b": "keep", "c": "keep"}, r'unknown: \["c"\]'),
    ):
        with pytest.raises(Refused, match=f"-32011.*{why}"):
            thin.call("inquiries/answer", answer=answer, **params)
    with pytest.raises(Refused, match=r"-32011.*cannot be remembered"):
        thin.call("inquiries/answer", answer={"a": "abort", "b": "keep"}, remember="turn", **params)
    thin.call("inquiries/answer", answer={"a": "abort", "b": "keep"}, **params)
    assert states(host.finish(number)) == {"a": "stopped", "b": "running"}
    with pytest.raises(Refused, match=r"-32011.*No inquiry with the id"):
        thin.call("inquiries/answer", answer={"a": "abort", "b": "keep"}, **params)
    lines = (asker.state / "haft" / "audit.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    mine = [record for record in records if record.get("session") == inquiry["session"]]
    (answered,) = [one for one in mine if one["event"] == "answer"]
    assert answered["input"] == {"a": "abort", "b": "keep"}
    assert answered["question"] == inquiry["inquiry_id"]
    ends = [one["handles"] for one in mine if one["event"] == "turn/end"]
    assert ends == [[], ["a"]]


def test_a_user_answers_on_the_command_line(asker: RunningDaemon, join: Join) -> None:
    def haft(*words: str) -> str:
        done = run_haft(words, env=asker.env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    host = join(able=False)
    start(host, "a")
    start(host, "b")
    number = host.start("turn/end")
    (inquiry,) = listed(join("other", able=False))
    assert "[a=wait|abort|keep b=wait|abort|keep]" in haft("questions")
    haft("answer", inquiry["inquiry_id"], "a=keep b=abort")
    assert states(host.finish(number)) == {"a": "running", "b": "stopped"}
    number = host.start("turn/end")
    (inquiry,) = listed(join("third", able=False))
    haft("answer", inquiry["inquiry_id"], "abort")
    assert states(host.finish(number)) == {"a": "stopped"}


def test_undecided_handles_are_aborted_and_a_late_answer_is_refused(join: Join) -> None:
    host = join()
    start(host, "a")
    number = host.start("turn/end", timeout_ms=100)
    asked = host.asked()
    result = host.finish(number)
    assert result["inquired"] == [
        {"id": "a", "decided": "abort", "why": "nobody answered within 0.1 s"}
    ]
    assert result["handles"][0]["ended_by"]["by"] == "turn_end"
    assert host.told("$/cancelRequest")["params"] == {"id": asked["id"]}
    with pytest.raises(Refused, match=r"-32011.*No inquiry with the id"):
        inquiry = asked["params"]["inquiry_id"]
        host.call("inquiries/answer", inquiry_id=inquiry, answer={"a": "keep"})
    host.reply(asked, {"a": "keep"})
    host.call("ping")


def test_a_client_without_an_answer_fails_the_inquiry(join: Join) -> None:
    host = join()
    start(host, "a")
    number = host.start("turn/end")
    host.refuse(host.asked(), -32000, "no idea")
    (one,) = host.finish(number)["inquired"]
    assert one["decided"] == "abort" and "no idea" in one["why"]


def test_after_a_killed_client_the_next_is_asked(join: Join) -> None:
    host, other = join(), join("other")
    start(host, "a")
    number = host.start("turn/end")
    host.asked()
    host.close()
    asked = other.asked()
    other.reply(asked, {"a": "abort"})
    assert number and other.call("fetch", id="a", wait="stopped")["ended_by"]["by"] == "turn_end"


def test_a_later_client_is_asked_about_the_remaining_handles(join: Join) -> None:
    """All clients that can answer have gone: the question waits, and its handles stay."""
    host, thin = join(), join("thin", able=False)
    start(host, "a", "read x")
    start(host, "b")
    host.start("turn/end")
    host.asked()
    host.close()
    thin.call("apply", id="a", input={"line": "x"}, wait="stopped")
    late = join("late")
    asked = late.asked()
    assert list(asked["params"]["question"]["answer_type"]["fields"]) == ["b"]
    late.reply(asked, {"b": "abort"})
    assert thin.call("fetch", id="b", wait="stopped")["ended_by"]["by"] == "turn_end"


def test_a_stopped_handle_drops_out_and_the_last_one_withdraws_the_question(join: Join) -> None:
    host, thin = join(), join("thin", able=False)
    start(host, "a", "read x")
    start(host, "b")
    number = host.start("turn/end")
    asked = host.asked()
    thin.call("apply", id="a", input={"line": "x"}, wait="stopped")
    (inquiry,) = thin.call("inquiries/list")["inquiries"]
    assert list(inquiry["question"]["answer_type"]["fields"]) == ["b"]
    # An answer to the initial question is as good.
    host.reply(asked, {"a": "abort", "b": "keep"})
    assert decided(host.finish(number)) == {"a": "stopped", "b": "keep"}
    number = host.start("turn/end")
    asked = host.asked()
    thin.call("abort", id="b")
    assert host.told("$/cancelRequest")["params"] == {"id": asked["id"]}
    result = host.finish(number)
    assert decided(result) == {"b": "stopped"}
    assert result["handles"][0]["ended_by"]["by"] == "abort"


def test_a_handle_awaited_in_vain_is_kept(join: Join) -> None:
    host = join()
    start(host, "a")
    number = host.start("turn/end", timeout_ms=300)
    host.reply(host.asked(), {"a": "wait"})
    result = host.finish(number)
    assert decided(result) == {"a": "wait"} and states(result) == {"a": "running"}


def test_a_second_turn_end_asks_only_about_other_handles(join: Join) -> None:
    host, other = join(), join("other")
    start(host, "a")
    first = host.start("turn/end")
    asked = host.asked()
    start(host, "b")
    second = other.start("turn/end")
    more = other.asked()
    assert list(more["params"]["question"]["answer_type"]["fields"]) == ["b"]
    other.reply(more, {"b": "keep"})
    host.reply(asked, {"a": "keep"})
    assert decided(host.finish(first)) == {"a": "keep"}
    assert decided(other.finish(second)) == {"a": "keep", "b": "keep"}
    # Aborting leaves nothing to ask.
    first = host.start("turn/end")
    asked = host.asked()
    assert states(other.call("turn/end", policy="abort")) == {"a": "stopped", "b": "stopped"}
    assert host.told("$/cancelRequest")["params"] == {"id": asked["id"]}
    assert decided(host.finish(first)) == {"a": "stopped", "b": "stopped"}


def test_a_closed_session_is_asked_nothing(join: Join) -> None:
    host, other = join(), join("other")
    start(host, "a")
    number = host.start("turn/end")
    asked = host.asked()
    other.call("session/close")
    assert host.told("$/cancelRequest")["params"] == {"id": asked["id"]}
    assert decided(host.finish(number)) == {"a": "stopped"}
    assert host.call("inquiries/list")["inquiries"] == []


def test_closing_a_session_withdraws_the_question_with_its_handles(join: Join) -> None:
    """A handle that takes time to end: a decision would come too late."""
    host, other = join(), join("other")
    start(host, "a", "trap '' TERM; echo up; while :; do sleep 60; done")
    host.call("fetch", id="a", wait="pattern", pattern="up", cursor=0)
    number = host.start("turn/end")
    asked = host.asked()
    other.start("abort", id="a", grace_ms=120_000)
    closed = other.start("session/close")
    assert host.told("$/cancelRequest")["params"] == {"id": asked["id"]}
    assert host.call("fetch", id="a")["state"] == "running"
    host.start("apply", id="a", input={"signal": "KILL"}, wait="none", view="tail", max_bytes=0)
    assert decided(host.finish(number)) == {"a": "stopped"}
    other.finish(closed)


def test_sessions_end_their_turns_concurrently(join: Join) -> None:
    hosts = [join(f"h{n}", other=f".{n}") for n in range(4)]
    for host in hosts:
        start(host, "same")
    numbers = [host.start("turn/end") for host in hosts]
    questions = [host.asked() for host in hosts]
    assert len({question["params"]["inquiry_id"] for question in questions}) == 4
    choices = ["keep", "abort", "keep", "abort"]
    for host, asked, choice in reversed(list(zip(hosts, questions, choices, strict=True))):
        host.reply(asked, {"same": choice})
    for host, number, choice in zip(hosts, numbers, choices, strict=True):
        assert decided(host.finish(number)) == {"same": choice}


def test_the_maximum_of_handles_is_one_question(join: Join) -> None:
    """Of handles without processes, which cost less."""
    host = join(able=False)
    for n in range(256):
        args = {"question": "?", "type": "boolean"}
        host.start("spawn", tool="ask_user", id=f"h{n}", args=args, wait="none")
    number = host.start("turn/end", policy="inquire")
    thin = join("thin", able=False)
    until(
        lambda: any(
            "handle" not in inquiry for inquiry in thin.call("inquiries/list")["inquiries"]
        ),
        "nothing is asked",
    )
    (inquiry,) = [
        inquiry for inquiry in thin.call("inquiries/list")["inquiries"] if "handle" not in inquiry
    ]
    fields = inquiry["question"]["answer_type"]["fields"]
    assert len(fields) == 256 and len(json.dumps(inquiry)) < 120_000
    answer = dict.fromkeys(fields, "abort") | {"h7": "keep"}
    thin.call("inquiries/answer", inquiry_id=inquiry["inquiry_id"], answer=answer)
    result = host.finish(number)
    assert decided(result) == answer
    assert [id for id, state in states(result).items() if state != "stopped"] == ["h7"]


def test_the_daemon_stops_during_the_question(asker: RunningDaemon) -> None:
    folder = Path(tempfile.mkdtemp(prefix="haft-"))
    daemon = RunningDaemon(folder)
    daemon.tools(TOOLS)
    daemon.start()
    with Client(daemon) as host:
        start(host, "a")
        host.start("turn/end")
        host.asked()
        assert daemon.stop() == 0
    shutil.rmtree(folder, ignore_errors=True)
