"""The relay to a WebSocket: secrets from files of one user, the daemon's proof, both framings, losses."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from haft import ConnectionLost, Haft, Unreachable, aio
from haft.addresses import WebSocket, parse_address
from haft.websocket_relay import Secrets, _Relay, read_secrets
from tests.running_daemon import RunningDaemon

HERE = WebSocket("ws://127.0.0.1:1/", "127.0.0.1")
THERE = WebSocket("wss://box/", "box")
TOKEN, KEY = "t0ken", "k3y"


@pytest.fixture
def token(tmp_path: Path) -> Path:
    for name, text in (("token", TOKEN), ("proof-key", KEY)):
        (tmp_path / name).write_text(f"{text}\n")
        (tmp_path / name).chmod(0o600)
    return tmp_path / "token"


def test_secrets_are_read_from_the_named_file_and_the_key_beside_it(token: Path) -> None:
    secrets = read_secrets(THERE, {"HAFT_TOKEN_FILE": str(token)})
    assert secrets == Secrets(TOKEN, KEY)
    assert TOKEN not in repr(secrets) and KEY not in repr(secrets)


def test_only_this_machine_gets_the_token_of_the_local_daemon(token: Path) -> None:
    env = {"HAFT_SOCKET": str(token.with_name("haftd.sock"))}
    assert read_secrets(HERE, env).token == TOKEN
    with pytest.raises(Unreachable, match="HAFT_TOKEN_FILE"):
        read_secrets(THERE, env)


@pytest.mark.parametrize("name", ["token", "proof-key"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda path: path.chmod(0o640), "chmod 600"),
        (lambda path: path.unlink(), "there is no file"),
        (lambda path: path.write_text(" \n"), "holds no token"),
        (lambda path: path.write_text("two\nlines"), "holds no token"),
        (lambda path: path.write_bytes(b"\xff"), "holds no token"),
    ],
)
def test_a_file_that_is_no_secret_is_named(
    token: Path, name: str, change: object, words: str
) -> None:
    assert callable(change)
    change(token.with_name(name))
    with pytest.raises(Unreachable, match=words) as refused:
        read_secrets(HERE, {"HAFT_TOKEN_FILE": str(token)})
    assert name in str(refused.value)
    assert TOKEN not in str(refused.value) and KEY not in str(refused.value)


def test_a_copy_that_is_missing_is_to_be_copied(token: Path) -> None:
    token.unlink()
    with pytest.raises(Unreachable, match=f"no file {token}: HAFT_TOKEN_FILE names a copy"):
        read_secrets(THERE, {"HAFT_TOKEN_FILE": str(token)})
    env = {"XDG_RUNTIME_DIR": str(token.parent)}
    with pytest.raises(Unreachable, match="the daemon makes it while it listens on a WebSocket"):
        read_secrets(HERE, env)


@pytest.fixture(scope="module")
def proxy() -> Iterator[socket.socket]:
    """The socket of a proxy, bound to its port."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound


@pytest.fixture(scope="module")
def listening(
    proxy: socket.socket, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningDaemon]:
    base = tmp_path_factory.mktemp("ws")
    hosts = f'["127.0.0.1", "localhost:{proxy.getsockname()[1]}"]'
    daemon = RunningDaemon(base, config=f"[websocket]\nport = 0\nhosts = {hosts}\n").start()
    yield daemon
    daemon.close()


@pytest.fixture
def address(listening: RunningDaemon, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the daemon's address, with its environment."""
    for name, value in listening.env.items():
        monkeypatch.setenv(name, value)
    with Haft.connect(str(listening.socket)) as haft:
        shown = haft.status().websocket
    return f"ws://127.0.0.1:{shown.port}"  # type: ignore[union-attr]


async def test_both_clients_speak_through_it(address: str, listening: RunningDaemon) -> None:
    with Haft.connect(host=address, session="ws") as haft:
        state = haft.spawn("run", "a", {"argv": ["echo", "x" * 100_000]}, wait="stopped")
        assert state.cursor == 100_001
        async with aio.connect(host=address, session="ws") as other:
            assert (await other.server()).pid == listening.pid
            (listed,) = (await other.call("handles/list")).handles
            assert listed["id"] == "a"


def test_the_replies_to_a_closed_input_come_in_its_framing(address: str) -> None:
    spawn = {"tool": "run", "id": "s", "args": {"argv": ["sleep", "0.2"]}, "wait": "stopped"}
    calls = [{"method": "spawn", "params": spawn}, {"method": "ping", "params": {}}]
    blocks = b""
    for number, call in enumerate(calls):
        body = json.dumps({"jsonrpc": "2.0", "id": number, **call}).encode()
        blocks += b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    done = subprocess.run(
        [sys.executable, "-m", "haft", "--host", address, "connect"],
        input=blocks,
        env={**os.environ},
        capture_output=True,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.count(b"Content-Length: ") == 2 and b'"stopped"' in done.stdout


class Streams:
    """A relay of this process, between pipes in the place of a client's standard streams."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._input, self._output = os.pipe(), os.pipe()

    def relay(self, address: WebSocket, secrets: Secrets) -> _Relay:
        ends = {0: self._input[0], 1: self._output[1]}
        with self._monkeypatch.context() as patched:
            patched.setattr(os, "dup", ends.__getitem__)
            return _Relay(address, secrets)

    async def run(self, address: str, env: dict[str, str]) -> None:
        """Run a relay until it ends, without a word to the client."""
        parsed = parse_address(address)
        assert isinstance(parsed, WebSocket)
        relay = self.relay(parsed, read_secrets(parsed, env))
        opened: list[trio.SocketStream] = []
        open_tcp_stream = trio.open_tcp_stream

        async def open_and_keep(host: str, port: int) -> trio.SocketStream:
            opened.append(await open_tcp_stream(host, port))
            return opened[-1]

        # A relay that has failed leaves its connection to the end of its process.
        self._monkeypatch.setattr(trio, "open_tcp_stream", open_and_keep)
        try:
            with trio.fail_after(60):
                await relay.run()
        finally:
            for stream in opened:
                await stream.aclose()
            await self.close(relay)

    async def close(self, relay: _Relay) -> None:
        """Close the relay, which has written nothing."""
        await relay._client.aclose()
        await relay._sink.aclose()
        os.close(self._input[1])
        with open(self._output[0], "rb") as output:
            assert output.read() == b""


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> Streams:
    return Streams(monkeypatch)


@pytest.mark.parametrize(
    ("name", "words"), [("proof-key", "did not prove"), ("token", "refuses the token")]
)
async def test_a_wrong_secret_ends_the_connection_before_a_request(
    address: str, streams: Streams, listening: RunningDaemon, token: Path, name: str, words: str
) -> None:
    for file in ("token", "proof-key"):
        text = (listening.socket.with_name(file)).read_text()
        token.with_name(file).write_text("wr0ng" if file == name else text)
    with pytest.raises(Unreachable, match=words) as refused:
        await streams.run(address, {"HAFT_TOKEN_FILE": str(token)})
    assert "wr0ng" not in str(refused.value)


async def test_a_port_without_a_daemon_is_one_sentence(streams: Streams, token: Path) -> None:
    with pytest.raises(Unreachable, match=r"^ws://127.0.0.1:1/ cannot be reached: .*refused$"):
        await streams.run("ws://127.0.0.1:1", {"HAFT_TOKEN_FILE": str(token)})


@contextmanager
def server_that_says(reply: bytes) -> Iterator[str]:
    """The address of a server that says no more, and keeps the connection open."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        is_refused = threading.Event()

        def serve() -> None:
            peer, _ = listener.accept()
            with peer:
                for byte in reply:
                    with suppress(OSError):
                        peer.send(bytes([byte]))
                is_refused.wait(60)

        server = threading.Thread(target=serve)
        server.start()
        yield f"ws://127.0.0.1:{listener.getsockname()[1]}"
        is_refused.set()
        server.join()


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (b"\0", "another protocol"),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "another protocol"),
        (b"HTTP/1.0 400 Bad", "HTTP status 400"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", "HTTP status 200"),
        (b"HTTP/1.1 401 ", "refuses the token"),
    ],
)
async def test_a_server_of_another_protocol_is_refused_at_its_first_words(
    streams: Streams, token: Path, reply: bytes, words: str
) -> None:
    with server_that_says(reply) as address, pytest.raises(Unreachable, match=words):
        await streams.run(address, {"HAFT_TOKEN_FILE": str(token)})


def test_a_client_is_told_why_its_relay_has_ended(
    token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAFT_TOKEN_FILE", str(token))
    with server_that_says(b"SSH-2.0-OpenSSH_9.2\r\n") as address:
        with pytest.raises(Unreachable, match="another protocol"):
            Haft.connect(host=address)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A self-signed certificate of localhost, with its key."""
    path = tmp_path / "both.pem"
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost"
    more = f"-addext subjectAltName=DNS:localhost -keyout {path} -out {tmp_path / 'cert.pem'}"
    subprocess.run([*make.split(), *more.split()], check=True, capture_output=True)
    with path.open("a") as both:
        both.write((tmp_path / "cert.pem").read_text())
    return path


async def test_a_proxy_with_tls_is_used_only_with_a_trusted_certificate(
    address: str, certificate: Path, proxy: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    port = int(address.rpartition(":")[2])

    async def copy(source: trio.abc.ReceiveStream, sink: trio.abc.SendStream) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for data in source:
                await sink.send_all(data)
        await sink.aclose()

    async def serve(client: trio.SSLStream[trio.SocketStream]) -> None:
        daemon = await trio.open_tcp_stream("127.0.0.1", port)
        async with daemon, trio.open_nursery() as nursery:
            nursery.start_soon(copy, client, daemon)
            nursery.start_soon(copy, daemon, client)

    async with trio.open_nursery() as nursery:
        proxy.listen()
        accepting = trio.SocketListener(trio.socket.from_stdlib_socket(proxy.dup()))
        nursery.start_soon(trio.serve_listeners, serve, [trio.SSLListener(accepting, context)])
        there = f"wss://localhost:{proxy.getsockname()[1]}"
        with pytest.raises(Unreachable, match="its certificate is not trusted"):
            async with aio.connect(host=there):
                raise AssertionError("the certificate is unknown")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate.with_name("cert.pem")))
        async with aio.connect(host=there) as haft:
            assert (await haft.server()).pid
        nursery.cancel_scope.cancel()


def test_the_end_of_the_daemon_is_a_loss_within_the_call(
    address: str, listening: RunningDaemon
) -> None:
    with Haft.connect(host=address) as haft:
        haft.ping()
        listening.kill9()
        with pytest.raises(ConnectionLost, match=r"lost: ws://.* closed the connection"):
            haft.ping()


@pytest.mark.parametrize("pongs", [0, 3])
async def test_a_daemon_that_answers_no_ping_is_left(
    pongs: int, streams: Streams, autojump_clock: MockClock
) -> None:
    class Silent:
        """A connection that answers some pings, and nothing else."""

        count = 0

        async def ping(self) -> None:
            self.count += 1
            if self.count > pongs:
                await trio.sleep_forever()

        async def get_message(self) -> str:
            await trio.sleep_forever()
            raise AssertionError("nothing comes")

    relay = streams.relay(THERE, Secrets(TOKEN, KEY))
    try:
        began = trio.current_time()
        with trio.fail_after(1_000):
            await relay._join(cast(Any, Silent()))
        assert trio.current_time() - began == pytest.approx((pongs + 2) * 15)
        assert str(relay._fault) == "wss://box/ no longer answers"
    finally:
        await streams.close(relay)
