"""`haft watch`: the lines that match, of several handles, and the exit status."""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from haft.__main__ import main
from haft.cli.commands.watch import Lines, _Watch
from haft.cli.line_pattern import compile_pattern
from haft_protocol.pushes import PushedOutput
from tests.client.conftest import Serve
from tests.client.fake import LATER, Peer, stopped
from tests.client.person import Place
from tests.forkserver import run_haft

Capture = pytest.CaptureFixture[str]


def push(id: str, data: str, omitted: int = 0) -> PushedOutput:
    return PushedOutput("s", id, 1, 0, 0, data, omitted)


@given(st.text(alphabet="ab\n", max_size=40), st.lists(st.integers(0, 40), max_size=5))
def test_lines_are_the_same_however_the_output_is_cut(text: str, cuts: list[int]) -> None:
    lines, shown = Lines(), list[str]()
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    for begin, end in pairwise(places):
        shown += [line.text for line in lines.feed(push("a", text[begin:end])) if line.is_complete]
        assert [line.text for line in lines.feed(push("b", "x\n"))] == ["x"]
    shown += [line.text for line in lines.end("a", UNSET)]
    assert shown == text.removesuffix("\n").split("\n") if text else not shown


def test_a_line_is_as_it_was_rewritten_last_and_none_spans_a_gap() -> None:
    lines = Lines()
    assert [line.text for line in lines.feed(push("a", "10%\r20%\rdone\r\nbeg"))] == ["done", "beg"]
    assert [line.text for line in lines.feed(push("a", "end\n", omitted=7))] == ["end"]
    assert [line.text for line in lines.feed(push("a", "new\n"))] == ["new"]
    list(lines.feed(push("a", "stale")))
    list(lines.feed(push("a", "x\n", omitted=7)))
    assert not list(lines.end("a", UNSET))


def watch(place: Place, *words: str) -> subprocess.CompletedProcess[str]:
    return run_haft(["--session", place.session, "watch", *words], env=place.daemon.env)


def test_named_handles_are_read_from_the_beginning_to_their_end(place: Place) -> None:
    script = "echo ready one; echo other; printf 'ready two'"
    args = {"argv": ["sh", "-c", script]}
    place.call("spawn", tool="run", id="h", args=args, wait="stopped")
    done = watch(place, "^ready", "h")
    assert (done.returncode, done.stdout) == (0, "h: ready one\nh: ready two\n")
    first = watch(place, "-1", "two", "h", "--json")
    assert (first.returncode, json.loads(first.stdout)) == (0, {"id": "h", "line": "ready two"})
    assert [watch(place, *words, "h").returncode for words in (["no"], ["-1", "no"])] == [1, 5]


def test_an_expression_that_could_search_for_ever_does_not(place: Place) -> None:
    args = {"argv": ["sh", "-c", f"echo {'a' * 60}b"]}
    place.call("spawn", tool="run", id="h", args=args, wait="stopped")
    done = watch(place, "(a+)+$", "h")
    assert (done.returncode, done.stdout) == (1, "")


def test_a_time_limit_holds_within_a_flood(capsys: Capture) -> None:
    """The limit has passed while this process was reading what it is given here."""
    options = argparse.Namespace(json=False)
    watch = _Watch(options, compile_pattern("x"), [], time.monotonic() - 1)
    watch.hear("handle/output", Raw(msgspec.json.encode(push("a", "x\n" * 9))))
    assert (watch.matches, capsys.readouterr().out) == (0, "")


def test_a_prompt_counts_at_once_and_a_time_limit_ends_the_watch(place: Place) -> None:
    args = {"argv": ["sh", "-c", "printf 'Password: '; read -r _"]}
    place.call("spawn", tool="run", id="h", args=args, wait="none")
    assert watch(place, "-1", "Pass", "h").stdout == "h: Password: \n"
    late = watch(place, "Pass", "h", "--timeout-ms", "0")
    assert (late.returncode, late.stderr) == (5, "haft watch: timed out\n")


def test_a_match_before_the_time_limit_is_success(serve: Serve, capsys: Capture) -> None:
    def answer(request: dict[str, Any], peer: Peer) -> object:
        peer.reply(request, {"subscription": "sub.1"})
        pushed = {"subscription": "sub.1", "id": "a", "generation": 1, "start": 0, "cursor": 2}
        peer.send(
            {"jsonrpc": "2.0", "method": "handle/output", "params": {**pushed, "data": "x\n"}}
        )
        return LATER

    serve(answer)
    assert main(["watch", "x", "--timeout-ms", "2000"]) == 0
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("a: x\n", "haft watch: timed out\n")


def test_the_handles_of_all_sessions_are_named_with_theirs(serve: Serve, capsys: Capture) -> None:
    def answer(request: dict[str, Any], peer: Peer) -> object:
        peer.reply(request, {"subscription": "sub.1"})
        base = {"subscription": "sub.1", "id": "a", "generation": 1, "start": 0, "cursor": 9}
        for session, text in (("s", "one\nFa"), ("t", "fail\n"), ("s", "il\n")):
            push = {**base, "session": session, "data": text}
            peer.send({"jsonrpc": "2.0", "method": "handle/output", "params": push})
        end = {**stopped("a"), "subscription": "sub.1", "session": "t"}
        peer.send({"jsonrpc": "2.0", "method": "handle/state", "params": end})
        peer.close()
        return LATER

    daemon = serve(answer)
    assert main(["watch", "--all", "-i", "FAIL"]) == 3, "the daemon has gone"
    assert capsys.readouterr().out == "t/a: fail\ns/a: Fail\n"
    (fields,) = daemon.calls("subscribe")
    assert fields["session"] == "*" and "handles" not in fields


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["("], "not a valid regular expression"),
        (["x", "--json"], "needs -1"),
        (["x", "a", "--all"], "one session"),
    ],
)
def test_a_wrong_command_line_is_named(place: Place, words: list[str], message: str) -> None:
    done = watch(place, *words)
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1
