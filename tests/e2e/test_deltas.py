from __future__ import annotations

import itertools
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.running_daemon import RunningDaemon

names = itertools.count()

WRITER = """
import os, sys
data = "".join(chr(0x20 + i % 0x50) if i % 3 else "≤" if i % 2 else "😀" for i in range(int(sys.argv[1]))).encode()
cuts = [int(c) for c in sys.argv[2].split(",")] or [1]
at = 0
for i in range(1 << 30):
    if at >= len(data): break
    n = cuts[i % len(cuts)]
    os.write(1, data[at:at + n]); at += n
"""


def expected(count: int) -> str:
    return "".join(chr(0x20 + i % 0x50) if i % 3 else "≤" if i % 2 else "😀" for i in range(count))


@settings(
    max_examples=examples(12),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    count=st.integers(0, 3000),
    cuts=st.lists(st.integers(1, 700), min_size=1, max_size=4),
    terminal=st.booleans(),
)
def test_two_connections_reading_in_turn_join_to_the_output(
    shared_daemon: RunningDaemon, count: int, cuts: list[int], terminal: bool
) -> None:
    session = f"s{next(names)}"
    argv = [sys.executable, "-S", "-c", WRITER, str(count), ",".join(map(str, cuts))]
    with shared_daemon.connect() as one, shared_daemon.connect("headers") as other:
        one.call(
            "spawn",
            session=session,
            tool="run",
            id="w",
            args={"argv": argv, "terminal": terminal},
            wait="none",
            max_bytes=0,
            view="tail",
        )
        parts: list[str] = []
        for wire in itertools.cycle((one, other)):
            state = wire.call("fetch", session=session, id="w", wait="output", max_bytes=1 << 20)
            assert state.get("omitted", 0) == 0
            parts.append(state["result"] if state["state"] == "stopped" else state["content"])
            if state["state"] == "stopped":
                assert state["exit"] == {"code": 0}
                break
        assert "".join(parts) == expected(count)
        # A stopped handle's answer stays the same for every reader.
        again = [
            wire.call("fetch", session=session, id="w", max_bytes=1 << 20) for wire in (one, other)
        ]
        assert {reply["result"] for reply in again} == {parts[-1]}


def test_five_megabytes_are_read_in_turn(shared_daemon: RunningDaemon) -> None:
    argv = [
        sys.executable,
        "-c",
        "import sys\nfor i in range(100000): sys.stdout.write(f'{i:049d}≤\\n')",
    ]
    with shared_daemon.connect() as one, shared_daemon.connect() as other:
        one.call("spawn", tool="run", id="big", args={"argv": argv}, wait="none", view="tail")
        parts = []
        for wire in itertools.cycle((one, other)):
            state = wire.call("fetch", id="big", wait="output", max_bytes=1 << 26)
            stopped = state["state"] == "stopped"
            parts.append(state["result"] if stopped else state["content"])
            if stopped:
                break
    assert "".join(parts) == "".join(f"{i:049d}≤\n" for i in range(100000))


def test_a_cut_reply_counts_its_omission_and_the_rest_can_be_read_again(
    shared_daemon: RunningDaemon,
) -> None:
    with shared_daemon.connect() as wire:
        wire.call(
            "spawn",
            tool="run",
            id="seq",
            args={"argv": ["seq", "100000"]},
            wait="stopped",
            view="tail",
            max_bytes=0,
        )
        state = wire.call("fetch", id="seq", view="all", max_bytes=4096)
        text = state["result"]
        assert text.startswith("1\n2\n") and text.endswith("99999\n100000\n")
        assert len(text.encode()) < 4096 + 200
        total = len("".join(f"{n}\n" for n in range(1, 100001)))
        marker = [
            line for line in text.splitlines() if str(state["omitted"]) in line.replace(",", "")
        ]
        assert len(marker) == 1
        assert state["cursor"] == total
        kept = len(text.encode()) - len(marker[0].encode()) - 1
        assert state["omitted"] == total - kept
        whole = wire.call("fetch", id="seq", cursor=0, max_bytes=1 << 24)
        assert whole["result"] == "".join(f"{n}\n" for n in range(1, 100001))


@pytest.mark.parametrize("view", ["delta", "all", "tail"])
def test_a_cursor_or_another_view_keeps_the_read_offset(
    shared_daemon: RunningDaemon, view: str
) -> None:
    session = f"s{next(names)}"
    with shared_daemon.connect() as wire:
        wire.call(
            "spawn", session=session, tool="run", id="cat", args={"argv": ["cat"]}, wait="none"
        )
        wire.call(
            "apply",
            session=session,
            id="cat",
            input={"line": "one"},
            wait="pattern",
            pattern="one",
            view="tail",
            max_bytes=0,
        )
        peek = wire.call("fetch", session=session, id="cat", cursor=0, view=view)
        assert peek["content"] == "one\n" and peek["cursor"] == 4
        assert wire.call("fetch", session=session, id="cat")["content"] == "one\n"
        assert wire.call("fetch", session=session, id="cat")["content"] == ""
        wire.call("abort", session=session, id="cat")
