"""Subscriptions over the wire: all output, states in order, changes of screens, notices. A slow
reader delays no other client and gets a count of missed output."""

from __future__ import annotations

import itertools
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

from tests.e2e.by_hand import ByHand
from tests.running_daemon import RunningDaemon
from tests.wire import Refused, Wire

EVENTS = ["state", "output", "screen", "notification"]
CONFIG = "[websocket]\nport = 0\n"

_numbers = itertools.count()


@pytest.fixture(scope="module")
def told_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDaemon]:
    daemon = RunningDaemon(tmp_path_factory.mktemp("d"), config=CONFIG).start()
    yield daemon
    daemon.close()


@pytest.fixture
def session() -> str:
    return f"told{next(_numbers)}"


Connect = Callable[[], Wire | ByHand]


@pytest.fixture(params=["unix", "websocket"])
def connect(request: pytest.FixtureRequest, told_daemon: RunningDaemon) -> Iterator[Connect]:
    """Open a connection, over each transport in turn."""
    opened: list[Wire | ByHand] = []

    def make() -> Wire | ByHand:
        if request.param == "unix":
            client: Wire | ByHand = told_daemon.connect()
        else:
            with told_daemon.connect() as wire:
                port = wire.call("daemon/status")["websocket"]["port"]
            client = ByHand(port)
            token = told_daemon.socket.with_name("token").read_text().strip()
            assert client.upgrade(token=token) == 101
            client.initialize()
        opened.append(client)
        return client

    yield make
    for file in opened:
        file.sock.close()


def told(peer: Wire | ByHand) -> Iterator[dict[str, Any]]:
    """Return the peer's pushes in order, and those before a reply."""
    while True:
        kept = [one for one in peer._kept if "method" in one]
        for message in kept:
            peer._kept.remove(message)
            yield message
        message = peer.receive()
        if "method" in message:
            yield message
        else:
            peer._kept.append(message)


def until_stopped(peer: Wire | ByHand, id: str) -> list[dict[str, Any]]:
    """Return all pushes up to the last state of a handle."""
    messages = []
    for message in told(peer):
        messages.append(message)
        params = message["params"]
        if message["method"] == "handle/state" and (params["id"], params["state"]) == (
            id,
            "stopped",
        ):
            break
    return messages


def of(messages: list[dict[str, Any]], method: str) -> list[dict[str, Any]]:
    return [message["params"] for message in messages if message["method"] == method]


def run(wire: Wire, session: str, id: str, *argv: str, **more: Any) -> dict[str, Any]:
    args = {"argv": list(argv)}
    more = {"wait": "none", "view": "tail", "max_bytes": 0} | more
    state: dict[str, Any] = wire.call(
        "spawn", session=session, tool="run", id=id, args=args, **more
    )
    return state


def test_pushes_join_to_the_output_and_the_last_state_comes_last(
    connect: Connect, told_daemon: RunningDaemon, session: str
) -> None:
    peer = connect()
    name = peer.call("subscribe", session=session, events=["state", "output"])["subscription"]
    script = "for i in 1 2 3; do echo part $i; sleep 0.01; done; seq 100000; printf 'end é'"
    with told_daemon.connect() as wire:
        run(wire, session, "a", "sh", "-c", script)
        messages = until_stopped(peer, "a")
        whole = wire.call(
            "fetch", session=session, id="a", view="all", max_bytes=1 << 20, wait="stopped"
        )
    assert {message["params"]["subscription"] for message in messages} == {name}
    output = of(messages, "handle/output")
    assert not any("omitted" in piece for piece in output)
    assert "".join(piece["data"] for piece in output) == whole["result"]
    assert output[-1]["cursor"] == whole["cursor"]
    states = of(messages, "handle/state")
    assert [state["state"] for state in states] == ["pending", "running", "stopped"]
    assert messages[-1]["method"] == "handle/state" and states[-1]["exit"] == {"code": 0}
    assert whole["result"].endswith("end é")


def test_a_reconnected_reader_resumes_at_its_offset(
    connect: Connect, told_daemon: RunningDaemon, session: str
) -> None:
    """Three connections in turn, the last after the end: every byte once, each push where the
    last ended."""
    pieces: list[dict[str, Any]] = []

    def read(peer: Wire | ByHand, enough: Callable[[], bool]) -> None:
        for message in told(peer):
            if message["method"] == "handle/output":
                pieces.append(message["params"])
            if enough() or message["params"].get("state") == "stopped":
                return

    with told_daemon.connect() as wire:
        run(wire, session, "a", "sh", "-c", "seq 20000; read x; seq 20000; printf 'end é'")
        first = connect()
        first.call("subscribe", session=session, events=["output"], **{"from": {"a": 0}})
        read(first, lambda: pieces[-1]["cursor"] > 40_000)
        first.sock.close()
        wire.call("apply", session=session, id="a", input={"line": ""}, wait="none")
        second = connect()
        at = {"a": pieces[-1]["cursor"]}
        second.call("subscribe", session=session, events=["output"], **{"from": at})
        read(second, lambda: pieces[-1]["cursor"] > 120_000)
        second.sock.close()
        whole = wire.call(
            "fetch", session=session, id="a", view="all", max_bytes=1 << 20, wait="stopped"
        )
        third = connect()
        at = {"a": pieces[-1]["cursor"]}
        third.call("subscribe", session=session, events=["state", "output"], **{"from": at})
        read(third, lambda: False)
    assert "".join(piece["data"] for piece in pieces) == whole["result"]
    assert [piece["start"] for piece in pieces] == [0, *(piece["cursor"] for piece in pieces[:-1])]
    assert pieces[-1]["cursor"] == whole["cursor"]


def test_pushes_without_text_leave_no_gap_between_offsets(
    told_daemon: RunningDaemon, session: str
) -> None:
    """A chunk of control sequences only is not pushed; the next push begins before it."""
    with told_daemon.connect() as peer, told_daemon.connect() as wire:
        peer.call("subscribe", session=session, events=["state", "output"])
        script = "echo one; read x; printf '\\033[31m'; read x; echo two"
        run(wire, session, "a", "sh", "-c", script)
        # Unpushed output and the output behind it would be one push.
        messages = []
        for message in told(peer):
            messages.append(message)
            if message["method"] == "handle/output":
                break
        for _ in range(2):
            wire.call("apply", session=session, id="a", input={"line": ""}, wait="none")
            wire.call("fetch", session=session, id="a", wait="input")
        output = of([*messages, *until_stopped(peer, "a")], "handle/output")
    assert [(push["start"], push["cursor"], push["data"]) for push in output] == [
        (0, 4, "one\n"),
        (4, 13, "two\n"),
    ]


@pytest.mark.parametrize(
    ("params", "code", "words"),
    [
        ({"from": {"a": 5}}, -32602, "ends at 4"),
        ({"from": {"b": 0}}, -32001, "no handle 'b'"),
        ({"from": {"a": 0}, "handles": ["other"]}, -32602, "`handles` does not"),
        ({"from": {"a": -1}}, -32602, "from"),
        ({"from": 3}, -32602, "from"),
    ],
)
def test_an_impossible_resume_is_refused(
    told_daemon: RunningDaemon, session: str, params: dict[str, Any], code: int, words: str
) -> None:
    with told_daemon.connect() as wire:
        run(wire, session, "a", "echo", "one", wait="stopped")
        run(wire, session, "other", "true", wait="stopped")
        with pytest.raises(Refused) as refused:
            wire.call("subscribe", session=session, events=["output"], **params)
    assert refused.value.code == code and words in refused.value.message


def test_a_push_moves_no_read_offset_and_consumes_no_notice(
    told_daemon: RunningDaemon, session: str
) -> None:
    with told_daemon.connect() as editor, told_daemon.connect() as wire:
        editor.call("subscribe", session=session, events=EVENTS)
        run(wire, session, "a", "sh", "-c", "read x; echo here; exit 3")
        wire.call("apply", session=session, id="a", input={"line": ""}, wait="none", max_bytes=0)
        messages = until_stopped(editor, "a")
        notices = of(messages, "session/notification")
        while not notices:
            notices = of([next(told(editor))], "session/notification")
        drained = wire.call("notifications/drain", session=session)["notifications"]
        assert [notice["kind"] for notice in notices] == [notice["kind"] for notice in drained]
        assert wire.call("fetch", session=session, id="a")["content"] == "here\n"


def test_the_changes_of_a_screen_rebuild_the_screen(
    connect: Connect, told_daemon: RunningDaemon, session: str
) -> None:
    peer = connect()
    peer.call("subscribe", session=session, events=["state", "screen"])
    script = (
        r"printf '\033[2J\033[Hone\r\ntwo'; sleep 0.1; printf '\033[1;1Hnew'; sleep 0.1;"
        r" printf '\033[5;3Hlast\033]2;titled\007'; read x"
    )
    with told_daemon.connect() as wire:
        args = {"argv": ["sh", "-c", script], "terminal": True}
        wire.call("spawn", session=session, tool="run", id="t", args=args, wait="none")
        wire.call("fetch", session=session, id="t", wait="input")
        wire.call(
            "apply",
            session=session,
            id="t",
            input={"resize": {"rows": 10, "cols": 40}},
            wait="none",
        )
        now = wire.call("fetch", session=session, id="t", view="screen")["screen"]
        rows: list[str] = []
        for message in told(peer):
            if message["method"] != "handle/screen":
                continue
            screen = message["params"]["screen"]
            rows = list(screen.get("lines", rows))
            for at, text in screen.get("changed", {}).items():
                rows[int(at)] = text
            if screen["rows"] == 10:
                break
        assert rows == now["lines"] and screen["title"] == "titled"
        assert [line for line in rows if line] == ["new", "two", "  last"]
        wire.call("apply", session=session, id="t", input={"line": "bye"}, wait="stopped")
        messages = until_stopped(peer, "t")
        for screen in of(messages, "handle/screen"):
            for at, text in screen["screen"]["changed"].items():
                rows[int(at)] = text
        last = wire.call("fetch", session=session, id="t", view="screen")["screen"]
        assert rows == last["lines"]


def test_only_named_handles_are_pushed_also_when_their_name_is_reused(
    told_daemon: RunningDaemon, session: str
) -> None:
    with told_daemon.connect() as editor, told_daemon.connect() as wire:
        run(wire, session, "a", "cat")
        run(wire, session, "b", "cat")
        with pytest.raises(Refused) as refused:
            editor.call("subscribe", session=session, events=["state"], handles=["a", "none"])
        assert refused.value.code == -32001
        editor.call("subscribe", session=session, events=["state"], handles=["a"])
        wire.call("abort", session=session, id="b")
        wire.call("abort", session=session, id="a")
        run(wire, session, "a", "true")
        states = of(until_stopped(editor, "a") + until_stopped(editor, "a"), "handle/state")
        assert {state["id"] for state in states} == {"a"}
        assert [state["generation"] for state in states if state["state"] == "stopped"] == [1, 2]


def test_a_closed_session_has_its_handles_forgotten(
    told_daemon: RunningDaemon, session: str
) -> None:
    with told_daemon.connect() as editor, told_daemon.connect() as wire:
        editor.call("subscribe", session="*", events=["state"])
        run(wire, session, "a", "cat")
        wire.call("session/close", session=session)
        assert not of(until_stopped(editor, "a"), "handle/forgotten")
        forgotten = next(push for push in told(editor) if push["method"] == "handle/forgotten")
        assert (forgotten["params"]["session"], forgotten["params"]["id"]) == (session, "a")


def test_after_unsubscribe_nothing_is_pushed(told_daemon: RunningDaemon, session: str) -> None:
    with told_daemon.connect() as editor, told_daemon.connect() as wire:
        one = editor.call("subscribe", session=session, events=["output"])["subscription"]
        other = editor.call("subscribe", session=session, events=["state"])["subscription"]
        run(wire, session, "a", "cat")
        editor.call("unsubscribe", session=session, subscription=one)
        wire.call("apply", session=session, id="a", input={"line": "x"}, wait="output")
        wire.call("abort", session=session, id="a")
        assert not of(until_stopped(editor, "a"), "handle/output")
        editor.call("unsubscribe", session=session, subscription=other)
        for gone in (one, other, "sub.0"):
            with pytest.raises(Refused) as refused:
                editor.call("unsubscribe", subscription=gone)
            assert refused.value.code == -32602
        # A new subscription starts a new task.
        editor.call("subscribe", session=session, events=["state"])
        run(wire, session, "a", "true")
        assert until_stopped(editor, "a")


def test_the_limit_of_subscriptions_is_named(told_daemon: RunningDaemon, session: str) -> None:
    with told_daemon.connect() as editor:
        for _ in range(64):
            editor.call("subscribe", session=session, events=["state"])
        with pytest.raises(Refused) as refused:
            editor.call("subscribe", session=session, events=["state"])
        assert refused.value.code == -32009
        assert refused.value.data["limit"] == "max_subscriptions"
        with told_daemon.connect() as other:
            other.call("subscribe", session=session, events=["state"])


@pytest.mark.parametrize("params", [{"events": []}, {"events": ["all"]}, {"handles": []}])
def test_an_empty_subscription_is_refused(
    told_daemon: RunningDaemon, params: dict[str, Any]
) -> None:
    with told_daemon.connect() as editor, pytest.raises(Refused) as refused:
        editor.call("subscribe", **({"events": ["state"]} | params))
    assert refused.value.code == -32602


def test_a_slow_reader_delays_no_other_client_and_gets_a_count(
    connect: Connect, told_daemon: RunningDaemon, session: str
) -> None:
    """Another client reads and calls meanwhile; the missed output can be read again by cursor."""
    sleeper, reader = connect(), connect()
    for peer in (sleeper, reader):
        peer.call("subscribe", session=session, events=["output", "state"])
    process = psutil.Process(told_daemon.pid)
    with told_daemon.connect() as wire:
        run(wire, session, "yes", "sh", "-c", "yes | head -c 64000000; read x")
        before, waits = process.memory_info().rss, []
        size, seen, output = 0, 0, told(reader)
        while size < 64_000_000:
            message = next(output)
            if message["method"] == "handle/output":
                params = message["params"]
                assert seen + params.get("omitted", 0) + len(params["data"]) == params["cursor"]
                seen = params["cursor"]
            begun = time.monotonic()
            size = wire.call("fetch", session=session, id="yes", view="tail", max_bytes=0)["cursor"]
            waits.append(time.monotonic() - begun)
        # Replies come beside the pushes, which are not all read.
        reader.call("ping")
        assert sorted(waits)[len(waits) // 2] < 0.1
        # The spool may keep as much as of any handle; a queue would hold all of it.
        assert process.memory_info().rss - before < 24_000_000
        wire.call("abort", session=session, id="yes")
        messages = until_stopped(sleeper, "yes")
        missed = [one for one in of(messages, "handle/output") if "omitted" in one]
        assert missed
        at = 0
        for one in of(messages, "handle/output"):
            if "omitted" in one:
                assert one["omitted_from"] == at
                again = wire.call(
                    "fetch", session=session, id="yes", cursor=at, max_bytes=4096, view="raw"
                )
                assert again["cursor"] > at
            at += one.get("omitted", 0) + len(one["data"])
            assert at == one["cursor"]
        assert messages[-1]["params"]["state"] == "stopped" and at == size


def test_a_closed_connection_leaves_neither_memory_nor_work(
    told_daemon: RunningDaemon, session: str
) -> None:
    """A hundred subscribers of one handle, and a handle that goes on printing."""
    process = psutil.Process(told_daemon.pid)
    with told_daemon.connect() as wire:
        run(wire, session, "a", "cat")

        def come_and_go(times: int) -> None:
            for _ in range(times):
                with told_daemon.connect() as editor:
                    for _ in range(8):
                        editor.call("subscribe", session=session, events=EVENTS)

        come_and_go(40)
        before = process.memory_info().rss
        come_and_go(120)
        while wire.call("daemon/status")["connections"] > 1:
            pass
        assert process.memory_info().rss - before < 1_500_000
        wire.call("apply", session=session, id="a", input={"line": "x"}, wait="output")


@pytest.mark.soak
def test_a_slow_subscriber_has_longer_than_a_client_with_unread_replies(
    told_daemon: RunningDaemon, session: str
) -> None:
    """Like a stopped editor; the deadline for unread replies is 10 s."""
    with told_daemon.connect() as sleeper, told_daemon.connect() as wire:
        sleeper.call("subscribe", session=session, events=["output", "state"])
        run(wire, session, "yes", "yes")
        waited = wire.call(
            "fetch", session=session, id="yes", wait="stopped", max_bytes=0, timeout_ms=15_000
        )
        assert waited["waited"] == "deadline"
        wire.call("abort", session=session, id="yes")
        messages = until_stopped(sleeper, "yes")
        assert any("omitted" in one for one in of(messages, "handle/output"))
        assert sleeper.call("ping") == {"pong": True}


def test_an_incomplete_frame_is_pushed_after_its_timeout(
    connect: Connect, told_daemon: RunningDaemon, session: str
) -> None:
    peer = connect()
    peer.call("subscribe", session=session, events=["screen"])
    script = (
        r"printf '\033[Hold'; sleep 0.2; printf '\033[?2026h\033[Hn'; sleep 0.2; printf ew; read x"
    )
    with told_daemon.connect() as wire:
        args = {"argv": ["sh", "-c", script], "terminal": True}
        wire.call("spawn", session=session, tool="run", id="f", args=args, wait="none")
        seen: list[str] = []
        for message in told(peer):
            screen = message["params"].get("screen", {})
            seen += [*screen.get("lines", [])[:1], *screen.get("changed", {}).values()]
            if "new" in seen:
                break
        assert [line for line in seen if line] == ["old", "new"]
        wire.call("abort", session=session, id="f")


ASKS = r"printf 'a\033[6nb\033]52;c;YWJj\007c\n'; seq 20000; printf '\377end'"


@pytest.mark.parametrize("reader", [{}, {"for": "terminal"}])
def test_pushed_bytes_join_to_the_output_and_resume_at_each_cursor(
    connect: Connect, told_daemon: RunningDaemon, session: str, reader: dict[str, str]
) -> None:
    peer, raw_view = connect(), {"session": session, "view": "raw", "cursor": 0}
    peer.call("subscribe", session=session, events=["state", "bytes"], **reader)
    with told_daemon.connect() as wire:
        run(wire, session, "a", "sh", "-c", ASKS)
        pieces = of(until_stopped(peer, "a"), "handle/bytes")
        raw = b64decode(wire.call("fetch", id="a", max_bytes=1 << 20, **raw_view)["content"])
    for before, after in itertools.pairwise(pieces):
        assert after["start"] == before["cursor"]
    assert (pieces[0]["start"], pieces[-1]["cursor"]) == (0, len(raw))
    expected = raw
    if reader:
        expected = raw.replace(b"\x1b[6n", b"").replace(b"\x1b]52;c;YWJj\x07", b"")
        assert len(expected) < len(raw)
    assert b"".join(b64decode(piece["data"]) for piece in pieces) == expected
    again = connect()
    middle = pieces[0]["cursor"]
    again.call(
        "subscribe",
        session=session,
        events=["state", "bytes"],
        handles=["a"],
        **{"from": {"a": middle}},
        **reader,
    )
    rest = of(until_stopped(again, "a"), "handle/bytes")
    first = b64decode(pieces[0]["data"])
    assert first + b"".join(b64decode(piece["data"]) for piece in rest) == expected


def test_fetch_for_a_terminal_waits_for_the_end_of_a_sequence(
    told_daemon: RunningDaemon, session: str
) -> None:
    with told_daemon.connect() as wire:
        script = r"printf 'x\033[6'; read a; printf 'nyz'; read b"
        run(wire, session, "a", "sh", "-c", script, wait="input")
        whole = {"id": "a", "session": session, "view": "raw", "for": "terminal"}
        seen = wire.call("fetch", cursor=0, **whole)
        assert (b64decode(seen["content"]), seen["cursor"]) == (b"x", 1)
        waited = wire.call("fetch", cursor=1, wait="output", timeout_ms=0, **whole)
        assert waited["waited"] == "deadline"
        wire.call("apply", session=session, id="a", input="\n", wait="input")
        seen = wire.call("fetch", cursor=1, wait="output", **whole)
        assert b64decode(seen["content"]).endswith(b"yz")
        assert b"\x1b" not in b64decode(seen["content"])
