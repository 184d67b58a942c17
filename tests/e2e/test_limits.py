from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.harness import until
from tests.running_daemon import RunningDaemon
from tests.wire import Framing, Refused, Wire

LIMITS = {
    "max_message": 4096,
    "max_nesting": 8,
    "max_values": 300,
    "max_batch": 3,
    "max_connections": 4,
    "max_in_flight": 2,
    "max_handles_session": 2,
    "max_handles": 3,
    "max_queued": 100_000,
}


@pytest.fixture(scope="module")
def tight() -> Iterator[RunningDaemon]:
    """A daemon with small limits; each test leaves no handle and no connection."""
    folder = Path(tempfile.mkdtemp(prefix="haft-"))
    config = "[daemon]\n" + "".join(f"{name} = {value}\n" for name, value in LIMITS.items())
    daemon = RunningDaemon(folder, config=config).start()
    yield daemon
    daemon.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def wire(tight: RunningDaemon) -> Iterator[Wire]:
    with tight.connect() as wire:
        until(lambda: wire.call("daemon/status")["connections"] == 1, "others have gone")
        yield wire
        for session in wire.call("session/list")["sessions"]:
            wire.call("session/close", session=session["session"])


def names(error: dict[str, Any], limit: str) -> None:
    """Check that an error is that of this limit."""
    assert error["code"] == -32009, error
    assert error["data"]["kind"] == "limit_exceeded"
    assert (error["data"]["limit"], error["data"]["value"]) == (limit, LIMITS[limit])
    assert f"`{limit}`" in error["message"] and str(LIMITS[limit]) in error["message"]


def refused(limit: str, call: Callable[[], object]) -> None:
    with pytest.raises(Refused) as caught:
        call()
    error = {"code": caught.value.code, "message": caught.value.message, "data": caught.value.data}
    names(error, limit)


def spawn(wire: Wire, session: str, id: str) -> dict[str, Any]:
    args = {"argv": ["sleep", "300"]}
    state: dict[str, Any] = wire.call(
        "spawn", session=session, tool="run", id=id, args=args, wait="none"
    )
    return state


def test_initialize_reports_the_limits(wire: Wire) -> None:
    hello = wire.call("initialize", client={"name": "t", "version": "1"}, protocol=1)
    assert hello["limits"] == LIMITS


def test_handles_are_limited_per_session_and_in_total(wire: Wire) -> None:
    spawn(wire, "a", "1")
    spawn(wire, "a", "2")
    refused("max_handles_session", lambda: spawn(wire, "a", "3"))
    spawn(wire, "b", "1")
    refused("max_handles", lambda: spawn(wire, "b", "2"))
    refused("max_handles", lambda: spawn(wire, "c", "1"))
    with pytest.raises(Refused, match="-32001"):
        wire.call("fetch", session="c", id="1")
    wire.call("abort", session="a", id="1")
    assert spawn(wire, "b", "2")["state"] == "running"
    assert wire.call("daemon/status")["handles"]["running"] == 3


def test_connections_are_limited(tight: RunningDaemon, wire: Wire) -> None:
    others = [tight.connect() for _ in range(LIMITS["max_connections"] - 1)]
    for one in others:
        assert one.call("ping") == {"pong": True}
    with tight.connect() as late:
        names(late.receive()["error"], "max_connections")
        with pytest.raises((EOFError, ConnectionResetError)):
            late.receive()
    assert wire.call("daemon/status")["refused"]["max_connections"] >= 1
    for one in others:
        one.close()
    until(lambda: wire.call("daemon/status")["connections"] == 1, "there is room again")
    with tight.connect() as next_one:
        assert next_one.call("ping") == {"pong": True}


@pytest.mark.parametrize("end", ["cancel", "answer"])
def test_requests_in_flight_are_limited(wire: Wire, end: str) -> None:
    spawn(wire, "default", "h")
    waiting = [
        wire.start("fetch", id="h", wait="stopped", timeout_ms=600_000)
        for _ in range(LIMITS["max_in_flight"])
    ]
    refused("max_in_flight", lambda: wire.call("fetch", id="h"))
    if end == "cancel":
        cancel = {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": waiting[0]}}
        wire.send(cancel)
        with pytest.raises(Refused, match="-32800"):
            wire.finish(waiting[0])
    else:
        wire.send({"jsonrpc": "2.0", "id": "x", "method": "ping"})
        names(wire.receive()["error"], "max_in_flight")
        args = {"input": {"signal": "KILL"}}
        with Wire(wire.sock.getpeername()) as other:
            other.call("apply", id="h", wait="stopped", timeout_ms=20_000, **args)
        for number in waiting:
            assert wire.finish(number)["exit"] == {"signal": "KILL"}
    assert wire.call("ping") == {"pong": True}


def ping(id: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": "ping"}


def test_batch_members_are_limited(wire: Wire) -> None:
    wire.send([ping(n) for n in range(LIMITS["max_batch"])])
    assert [one["result"] for one in wire.receive()] == [{"pong": True}] * 3
    wire.send([ping(n) for n in range(LIMITS["max_batch"] + 1)])
    reply = wire.receive()
    assert isinstance(reply, dict) and reply["id"] is None, "one error for the whole of it"
    names(reply["error"], "max_batch")
    assert wire.call("ping") == {"pong": True}


def padded(size: int) -> bytes:
    """A ping of exactly so many bytes."""
    message = json.dumps({**ping(1), "params": {}}).encode()
    return message[:-1] + b" " * (size - len(message)) + b"}"


@pytest.mark.parametrize("framing", ["lines", "headers"])
def test_message_bytes_are_limited(tight: RunningDaemon, wire: Wire, framing: Framing) -> None:
    def framed(body: bytes) -> bytes:
        if framing == "lines":
            return body + b"\n"
        return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)

    with tight.connect(framing) as one:
        one.send_raw(framed(padded(LIMITS["max_message"])))
        assert one.receive()["result"] == {"pong": True}
        one.send_raw(framed(padded(LIMITS["max_message"] + 1)))
        reply = one.receive()
        assert reply["id"] is None
        names(reply["error"], "max_message")
        with pytest.raises((EOFError, ConnectionResetError)):
            one.receive()
    assert wire.call("ping") == {"pong": True}


def test_nesting_is_limited(wire: Wire) -> None:
    def nested(depth: int) -> dict[str, Any]:
        """A request of this depth: itself, `params`, `args`, then lists."""
        value: object = "x"
        for _ in range(depth - 3):
            value = [value]
        args = {"deep": value}
        return {
            "jsonrpc": "2.0",
            "id": 7,
            "method": "spawn",
            "params": {"tool": "run", "id": "h", "args": args},
        }

    wire.send(nested(LIMITS["max_nesting"]))
    assert wire.receive()["error"]["code"] == -32005, (
        "deep enough for the arguments to be looked at"
    )
    wire.send(nested(LIMITS["max_nesting"] + 1))
    reply = wire.receive()
    assert reply["id"] == 7
    names(reply["error"], "max_nesting")
    wire.send_raw(b"[" * 3000 + b"]" * 1000 + b"\n")
    error = wire.receive()["error"]
    assert error["code"] in (-32700, -32009)
    assert wire.call("ping") == {"pong": True}


def test_names_and_values_are_limited(wire: Wire) -> None:
    def calling(count: int, id: int = 7) -> dict[str, Any]:
        """Return a request with so many names and values, some between texts full of commas."""
        fields = [
            "jsonrpc",
            0,
            "id",
            0,
            "method",
            0,
            "params",
            0,
            "tool",
            0,
            "arguments",
            0,
            "x",
            0,
        ]
        values = [",[{" if n % 3 else '\\",:' for n in range(count - 1 - len(fields))]
        params = {"tool": "none", "arguments": {"x": values}}
        return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}

    limit = LIMITS["max_values"]
    wire.send(calling(limit))
    assert wire.receive()["error"]["code"] == -32003, "looked at"
    wire.send(calling(limit + 1))
    reply = wire.receive()
    assert reply["id"] == 7
    names(reply["error"], "max_values")
    wire.send([calling(limit // 2, id) for id in range(3)])
    reply = wire.receive()
    assert reply["id"] is None
    names(reply["error"], "max_values")
    assert wire.call("ping") == {"pong": True}


@pytest.mark.soak  # the ten seconds of the write timeout
def test_a_client_that_does_not_read_is_disconnected_and_its_handles_live_on(
    tight: RunningDaemon, wire: Wire
) -> None:
    with tight.connect() as deaf:
        args = {"argv": ["sh", "-c", "head -c 90000 /dev/zero | tr '\\0' x; exec cat"]}
        deaf.call("spawn", tool="run", id="h", args=args, wait="none", view="tail", max_bytes=0)
        wire.call("fetch", id="h", wait="pattern", pattern="x{900}", view="tail", max_bytes=0)
        until(lambda: handles(wire)["h"]["bytes"] == 90_000, "all is printed")
        for number in range(100):
            try:
                deaf.send(
                    {
                        "jsonrpc": "2.0",
                        "id": number,
                        "method": "fetch",
                        "params": {"id": "h", "cursor": 0, "max_bytes": 1 << 20},
                    }
                )
            except (BrokenPipeError, ConnectionResetError):
                break
        until(lambda: wire.call("daemon/status")["connections"] == 1, "it is sent away", 30)
    reply = wire.call(
        "apply",
        id="h",
        input={"line": "on"},
        wait="pattern",
        pattern="on",
        view="tail",
        max_bytes=9,
    )
    assert reply["state"] == "running" and reply["waited"] == "matched"


def handles(wire: Wire) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in wire.call("handles/list")["handles"]}


# -- of one handle, by its definition

PYTHON = f'"{sys.executable}", "-S", "-c"'
# The kernel counts all tasks of a user, and none of root's: another user has to fork instead.
FORKS = """
import os, signal
if os.geteuid() == 0:
    os.setgroups([])
    os.setuid(65534)
children = []
try:
    for _ in range(5000):
        child = os.fork()
        if child == 0:
            signal.pause()
            os._exit(0)
        children.append(child)
finally:
    for child in children:
        os.kill(child, 9)
"""
TOOLS = f"""
[tools.cpu_s]
command = ["sh", "-c", "echo begun; while :; do :; done"]
limits.cpu_s = 1
[tools.memory]
command = [{PYTHON}, "print('begun', flush=True); x = bytearray(1 << 30); print(len(x))"]
limits.memory = "256 MiB"
[tools.output]
command = ["sh", "-c", "echo begun; exec yes"]
limits.output = "64 KiB"
[tools.wall_s]
command = ["sh", "-c", "echo begun; exec sleep 300"]
limits.wall_s = 0.5
[tools.processes]
command = [{PYTHON}, '''print('begun', flush=True)
{FORKS}''']
limits.processes = 5
[tools.within]
command = ["sh", "-c", "echo begun; exit 3"]
limits = {{ cpu_s = 60, memory = "1 GiB", output = "1 MiB", wall_s = 60 }}
"""


@pytest.fixture(scope="module")
def bounded() -> Iterator[RunningDaemon]:
    """A daemon whose tools each exceed a limit."""
    folder = Path(tempfile.mkdtemp(prefix="haft-"))
    daemon = RunningDaemon(folder)
    daemon.tools(
        TOOLS.replace("command =", 'source = "local"\nstateful = true\noutput = "raw"\ncommand =')
    )
    daemon.start()
    yield daemon
    daemon.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("limit", ["cpu_s", "memory", "output", "wall_s", "processes"])
def test_a_definitions_limit_ends_the_handle_and_is_named(
    bounded: RunningDaemon, limit: str
) -> None:
    with bounded.connect() as wire:
        assert wire.call("daemon/status")["problems"] == []
        state = wire.call(
            "spawn", tool=limit, id=limit, wait="stopped", timeout_ms=60_000, max_bytes=1 << 20
        )
        assert state["state"] == "stopped" and state["ended_by"] == {"by": "limit"}
        assert f"`{limit}`" in state["error"]["message"] and "result" not in state
        assert state["content"].startswith("begun\n")
        if limit == "output":
            assert state["cursor"] == 65_536 == len(state["content"])


def test_within_its_limits_a_handle_ends_by_itself(bounded: RunningDaemon) -> None:
    with bounded.connect() as wire:
        state = wire.call("spawn", tool="within", id="w", wait="stopped", timeout_ms=60_000)
        assert state["ended_by"] == {"by": "exit"} and state["exit"] == {"code": 3}
        assert state["content"] == "begun\n" and "limit" not in state["error"]["message"]


def test_P32_the_daemon_refuses_to_start_with_too_few_descriptors(
    make_daemon: Callable[..., RunningDaemon],
) -> None:
    """44 descriptors are too few for connections; 68 are enough, also while the rest of recovery has
    its lock."""
    daemon = make_daemon().start(descriptors=44, wait=False)
    assert daemon.process is not None
    assert daemon.process.wait(20) == 78
    assert "44 open files" in daemon.log_text()
    daemon.start(descriptors=68)
    with daemon.connect() as wire:
        args = {"argv": ["echo", "served"]}
        state = wire.call("spawn", tool="run", id="a", args=args, wait="stopped", view="all")
        assert state["result"] == "served\n"


def test_an_end_by_a_limit_names_the_argument_that_the_caller_gave(daemon: RunningDaemon) -> None:
    daemon.tools("[tools.short]\nstateful = true\ncommand = ['cat']\nlimits.wall_s = 0.05\n")
    with daemon.connect() as wire:
        wire.call("tools/reload")
        args = {"argv": ["cat"], "timeout_s": 0.05}
        state = wire.call("spawn", tool="run", id="r", args=args, wait="stopped")
        assert (
            "it exceeded its limit `wall_s`, the argument `timeout_s`" in state["error"]["message"]
        )
        state = wire.call("spawn", tool="short", id="s", wait="stopped")
        assert "it exceeded its limit `wall_s`;" in state["error"]["message"]
