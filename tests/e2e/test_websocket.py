from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.by_hand import ByHand
from tests.faults.harness import until
from tests.running_daemon import RunningDaemon
from tests.wire import Refused

ORIGIN = "https://panel.example.org"
CONFIG = f'[websocket]\nport = 0\norigins = ["{ORIGIN}"]\n'


@pytest.fixture
def port(daemon: RunningDaemon) -> int:
    """Return the port of the WebSocket, as the daemon reports."""
    with daemon.connect() as wire:
        where = wire.call("daemon/status")["websocket"]
    assert where["host"] == "127.0.0.1" and where["port"] > 0
    number: int = where["port"]
    return number


@pytest.fixture
def daemon(make_daemon: Callable[..., RunningDaemon]) -> RunningDaemon:
    return make_daemon(CONFIG).start()


@pytest.fixture
def token(daemon: RunningDaemon) -> str:
    """Return the token beside the socket, readable by its owner only."""
    file = daemon.socket.with_name("token")
    assert file.stat().st_mode & 0o777 == 0o600
    text = file.read_text().strip()
    assert len(text) >= 32
    return text


@pytest.fixture
def peer(port: int, token: str) -> Iterator[ByHand]:
    with ByHand(port) as client:
        assert client.upgrade(token=token) == 101
        yield client


def test_only_authorised_clients_are_admitted(daemon: RunningDaemon, port: int, token: str) -> None:
    both = f"haft.v1, haft.token.{token}"
    cases: list[tuple[int, dict[str, Any]]] = [
        (101, {"token": token}),
        (101, {"token": token, "host": f"localhost:{port}"}),
        (101, {"token": token, "origin": ORIGIN}),
        (101, {"protocols": both}),
        (101, {"protocols": both, "origin": ORIGIN}),
        (401, {}),
        (401, {"token": token[:-1] + ("a" if token[-1] != "a" else "b")}),
        (401, {"token": ""}),
        (401, {"protocols": "haft.v1, haft.token.wrong"}),
        (401, {"protocols": "haft.v1"}),
        (403, {"token": token, "origin": "https://evil.example"}),
        (403, {"token": token, "origin": "null"}),
        (403, {"token": token, "origin": f"http://127.0.0.1:{port}"}),
        (403, {"protocols": both, "origin": "https://evil.example"}),
        (403, {"token": token, "host": f"attacker.example:{port}"}),
        (403, {"token": token, "host": "127.0.0.1:1"}),
    ]
    for expected, words in cases:
        with ByHand(port) as client:
            assert client.upgrade(**words) == expected, words
            if "protocols" in words and expected == 101:
                assert client.headers["sec-websocket-protocol"] == "haft.v1"
    with daemon.connect() as wire:
        status = wire.call("daemon/status")
        assert status["refused"]["token"] == 5
        assert status["refused"]["origin"] == 4 and status["refused"]["host"] == 2
        assert status["problems"] == []
    assert token not in daemon.log_text()


def test_nothing_is_served_before_initialize(daemon: RunningDaemon, peer: ByHand) -> None:
    spawn = {"tool": "run", "id": "h", "args": {"argv": ["sleep", "300"]}}
    for method, params in (("ping", {}), ("spawn", spawn), ("daemon/shutdown", {}), ("nope", {})):
        with pytest.raises(Refused) as caught:
            peer.call(method, **params)
        assert caught.value.code == -32006 and "initialize" in caught.value.message
    peer.send([{"jsonrpc": "2.0", "id": "b", "method": "spawn", "params": spawn}])
    (reply,) = peer.receive()
    assert reply["error"]["code"] == -32006
    with daemon.connect() as wire:
        assert wire.call("handles/list", session="*") == {"handles": []}
    hello = peer.initialize()
    with daemon.connect() as wire:
        assert hello["pid"] == daemon.pid
        assert (
            hello["limits"]
            == wire.call("initialize", client={"name": "t", "version": "1"}, protocol=1)["limits"]
        )
    assert peer.call("ping") == {"pong": True}


def test_a_tool_driven_over_a_websocket_is_seen_from_the_unix_socket(
    daemon: RunningDaemon, peer: ByHand
) -> None:
    assert peer.initialize(session="web")["session"] == "web"
    args = {"argv": ["cat"]}
    assert peer.call("spawn", tool="run", id="h", args=args, wait="none")["session"] == "web"
    line = "≤" + "x" * 70_000
    reply = peer.call(
        "apply",
        id="h",
        input={"line": line},
        wait="pattern",
        pattern=r"x\n",
        max_bytes=1 << 20,
        timeout_ms=20_000,
    )
    assert reply["waited"] == "matched" and reply["content"] == line + "\n"
    with daemon.connect() as wire:
        state = wire.call("fetch", session="web", id="h", cursor=0, max_bytes=1 << 20)
        assert state["content"] == line + "\n"
        waiting = peer.start("fetch", id="h", wait="stopped", timeout_ms=600_000)
        assert peer.call("ping") == {"pong": True}
        wire.call("abort", session="web", id="h")
    assert peer.finish(waiting)["ended_by"]["by"] == "abort"


def test_handles_outlive_their_websocket(daemon: RunningDaemon, peer: ByHand) -> None:
    peer.initialize()
    peer.call("spawn", tool="run", id="h", args={"argv": ["cat"]}, wait="none")
    peer.start("fetch", id="h", wait="stopped", timeout_ms=600_000)
    peer.sock.close()
    with daemon.connect() as wire:
        state = wire.call(
            "apply", id="h", input={"line": "on"}, wait="pattern", pattern="on", timeout_ms=20_000
        )
        assert state["content"] == "on\n"


def test_a_websocket_is_notified_when_the_daemon_stops(daemon: RunningDaemon, peer: ByHand) -> None:
    peer.initialize()
    assert peer.call("daemon/shutdown") == {}
    with pytest.raises(EOFError, match="closed: "):
        peer.receive()
    assert daemon.process is not None and daemon.process.wait(20) == 0


def test_without_a_port_there_is_no_websocket(make_daemon: Callable[..., RunningDaemon]) -> None:
    daemon = make_daemon().start()
    with daemon.connect() as wire:
        assert "websocket" not in wire.call("daemon/status")
    assert not daemon.socket.with_name("token").exists()


def take_port(port: int) -> socket.socket:
    """Listen on the port of a daemon that was killed: a child that it had forked and that has not executed
    its program yet still has the listening socket."""
    taken: list[socket.socket] = []

    def is_taken() -> bool:
        with suppress(OSError):
            taken.append(socket.create_server(("127.0.0.1", port)))
        return bool(taken)

    until(is_taken, "the port is free")
    return taken[0]


def test_while_another_process_has_the_port_no_token_is_written(
    make_daemon: Callable[..., RunningDaemon],
) -> None:
    """A token sent there before is invalid afterwards."""
    with socket.socket() as held:
        # Bound for the whole test: the kernel gives the port to no other socket, but to those that
        # ask for it by number with SO_REUSEADDR.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        daemon = make_daemon(f"[websocket]\nport = {port}\n").start()
        file = daemon.socket.with_name("token")
        old = file.read_text().strip()
        daemon.kill9()
        assert file.exists(), "a crash leaves it"
        with take_port(port):
            daemon.start()
            with daemon.connect() as wire:
                (problem,) = wire.call("daemon/status")["problems"]
                assert problem["key"] == "websocket" and "in use" in problem["message"]
            assert not file.exists()
            daemon.stop()
        daemon.start()
        new = file.read_text().strip()
        for token, status in ((old, 401), (new, 101)):
            with ByHand(port) as peer:
                assert peer.upgrade(token=token) == status
        daemon.stop()
        assert not file.exists() and not file.with_name("proof-key").exists()


def test_no_process_of_the_daemon_holds_its_port(daemon: RunningDaemon) -> None:
    """The guardian outlives the daemon, and would keep the port from the next one."""
    assert daemon.process is not None
    children = Path(f"/proc/{daemon.process.pid}/task/{daemon.process.pid}/children")
    until(lambda: _guardians(children), "the guardian")
    for guardian in _guardians(children):
        for entry in Path(f"/proc/{guardian}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                assert not os.readlink(entry).startswith("socket:")


def _guardians(children: Path) -> list[str]:
    return [
        pid
        for pid in children.read_text().split()
        if b"recovery.guardian" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


def test_the_daemon_proves_its_token(daemon: RunningDaemon, port: int, token: str) -> None:
    key = daemon.socket.with_name("proof-key").read_text().strip()
    with ByHand(port) as peer:
        assert peer.upgrade(token=token) == 101
        client = {"name": "t", "version": "1"}
        challenge = "0123456789abcdef"
        hello = peer.call("initialize", client=client, protocol=1, challenge=challenge)
        proof = hmac.new(key.encode(), challenge.encode(), hashlib.sha256).hexdigest()
        assert hello["proof"] == proof
    assert key not in daemon.log_text()


def test_a_removed_token_is_recreated(daemon: RunningDaemon, token: str) -> None:
    file = daemon.socket.with_name("token")
    file.unlink()
    until(lambda: "were created again" in daemon.log_text(), "it is made again")
    assert file.read_text().strip() == token
