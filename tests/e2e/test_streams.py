"""A client that stands for a command: streams apart, input in bytes, backpressure, no handle left."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from haftd.core.output_tail import MAX_LAG
from haftd.executions.execution import MAX_BACKLOG
from tests.faults.harness import until
from tests.running_daemon import RunningDaemon
from tests.wire import Refused, Wire

PIPE = 1 << 18


@pytest.fixture
def wire(shared_daemon: RunningDaemon) -> Iterator[Wire]:
    with shared_daemon.connect() as wire:
        yield wire
        wire.call("session/close")


def spawn(wire: Wire, id: str, *argv: str, **more: Any) -> Any:
    return wire.call("spawn", tool="run", id=id, args={"argv": argv}, **{"wait": "none"} | more)


def split(state: Any) -> tuple[bytes, bytes]:
    data, start = base64.b64decode(state["content"]), 0
    out, err = b"", b""
    for begin, end in state.get("stderr", []):
        out, err = out + data[start:begin], err + data[begin:end]
        start = end
    return out + data[start:], err


def test_standard_error_is_apart_where_a_spawn_asks_for_that(wire: Wire) -> None:
    argv = ("sh", "-c", "echo one; echo two >&2; echo three")
    spawn(wire, "apart", *argv, split_stderr=True, wait="stopped")
    spawn(wire, "merged", *argv, wait="stopped")
    assert split(wire.call("fetch", id="apart", view="raw", cursor=0)) == (
        b"one\nthree\n",
        b"two\n",
    )
    merged = wire.call("fetch", id="merged", view="raw", cursor=0)
    assert (split(merged), "stderr" in merged) == ((b"one\ntwo\nthree\n", b""), False)
    assert "stderr" not in wire.call("fetch", id="apart", view="all")


def test_bytes_are_written_unchanged_to_a_pipe_and_to_no_terminal(wire: Wire) -> None:
    data = bytes(range(256))
    spawn(wire, "a", "sha256sum")
    wire.call("apply", id="a", input={"bytes": base64.b64encode(data).decode()}, wait="none")
    wire.call("apply", id="a", input={"eof": True}, wait="none")
    state = wire.call("fetch", id="a", wait="stopped")
    assert state["result"].startswith(
        "40aff2e9d2d8922e47afd4648e6967497158785fbd1da870e7110266bf944880"
    )
    spawn(wire, "b", "cat")
    for wrong in ("no base64", 7, None):
        with pytest.raises(Refused, match="base64"):
            wire.call("apply", id="b", input={"bytes": wrong})
    wire.call("spawn", tool="run", id="t", args={"argv": ["cat"], "terminal": True}, wait="none")
    with pytest.raises(Refused, match="terminal"):
        wire.call("apply", id="t", input={"bytes": ""})


def test_a_program_waits_for_a_subscriber_with_backpressure_until_that_leaves(
    shared_daemon: RunningDaemon, wire: Wire
) -> None:
    size = 3 * MAX_LAG
    spawn(wire, "a", "sh", "-c", f"read -r _; head -c {size} /dev/zero")
    with shared_daemon.connect() as reader:
        named = {"handles": ["a"], "from": {"a": 0}}
        reader.call("subscribe", events=["bytes"], backpressure=True, **named)
        wire.call("apply", id="a", input="\n", wait="none")
        # A state that no fetch changes: the program has filled what may be behind, and waits.
        wire.call("fetch", id="a", wait="quiet", quiet_ms=300, view="raw", max_bytes=0)
        (handle,) = wire.call("handles/list")["handles"]
        assert handle["state"] == "running" and handle["bytes"] < size - PIPE
    assert wire.call("fetch", id="a", wait="stopped", view="raw", max_bytes=0)["exit"]["code"] == 0


def test_a_reader_with_backpressure_misses_nothing(wire: Wire) -> None:
    size = MAX_LAG + 4 * MAX_BACKLOG
    spawn(wire, "a", "head", "-c", str(size), "/dev/zero")
    wire.call("fetch", id="a", wait="stopped", view="raw", max_bytes=0)
    named = {"handles": ["a"], "from": {"a": 0}}
    wire.call("subscribe", events=["bytes"], backpressure=True, **named)
    at = 0
    while at < size:
        push = wire.told("handle/bytes")["params"]
        assert (push["start"], "omitted" in push) == (at, False)
        at = push["cursor"]


def test_backpressure_names_its_handles_and_is_no_read_only_act(
    shared_daemon: RunningDaemon, wire: Wire
) -> None:
    spawn(wire, "a", "cat")
    with pytest.raises(Refused, match="backpressure"):
        wire.call("subscribe", events=["bytes"], backpressure=True)
    with pytest.raises(Refused, match="backpressure"):
        wire.call("subscribe", events=["state"], handles=["a"], backpressure=True)
    with shared_daemon.connect() as reader:
        reader.call("initialize", protocol=1, client={"name": "t"}, read_only=True)
        with pytest.raises(Refused, match="read-only"):
            reader.call("subscribe", events=["bytes"], handles=["a"], backpressure=True)


def test_a_handle_that_is_not_retained_goes_without_a_read(short_tmp: Path) -> None:
    daemon = RunningDaemon(short_tmp, config="[daemon]\nretain_stopped_s = 0\n").start()
    try:
        with daemon.connect() as wire:
            wire.call("subscribe", events=["state"])
            spawn(wire, "a", "true", retain=False)
            while wire.told("handle/state")["params"]["state"] != "stopped":
                pass
            until(lambda: not wire.call("handles/list")["handles"], "the handle is forgotten")
            with pytest.raises(Refused) as refused:
                wire.call("fetch", id="a")
            assert refused.value.data["expired"] is True
    finally:
        daemon.close()
