"""Relay between a client's standard streams and a daemon's WebSocket, one message a frame.

The relay sends the token, and nothing more until the daemon has proven to know the `proof-key`
(docs/protocol.md, "Transports"). No error names either. The framing is the client's.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import h11
import msgspec
import trio
from msgspec import UNSET, UnsetType
from trio_websocket import (
    ConnectionClosed,
    ConnectionRejected,
    ConnectionTimeout,
    HandshakeError,
    WebSocketConnection,
    wrap_client_stream,
)

from haft_protocol.errors import RpcError, parse_error
from haft_protocol.framing import Framer
from haft_protocol.network_errors import first_reason
from haft_protocol.paths import PathError, with_login_folder
from haft_protocol.runtime_paths import runtime_paths

from . import __version__
from .addresses import WebSocket, parse_address
from .errors import HaftError, InvalidAddress, Unreachable
from .request_params import hello
from .tunnel import announcement

_CONNECT_S = 10.0
_CLOSE_S = 2.0
_ALIVE_S = 15.0
_CHUNK = 1 << 16
_MAX_MESSAGE = 64 << 20
_MAX_SECRET = 4096
_SWITCHED, _UNAUTHORIZED, _FORBIDDEN = 101, 401, 403
_SWITCHING = b"HTTP/1.1 101"
_HEAD = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])")


class Secrets(msgspec.Struct, frozen=True):
    token: str
    proof_key: str

    def __repr__(self) -> str:
        return "Secrets(…)"


class _Envelope(msgspec.Struct):
    id: int | str | UnsetType | None = UNSET
    method: str | UnsetType = UNSET


class _Proof(msgspec.Struct):
    proof: str | None = None


class _Failure(msgspec.Struct):
    message: str = ""


class _Greeted(msgspec.Struct):
    id: int | str | None = None
    result: _Proof | UnsetType = UNSET
    error: _Failure | UnsetType = UNSET


_ENVELOPES = msgspec.json.Decoder(list[_Envelope] | _Envelope)
_GREETED = msgspec.json.Decoder(_Greeted)


def main() -> int:
    try:
        address = parse_address(sys.argv[1])
        if not isinstance(address, WebSocket):
            raise InvalidAddress("the relay needs an address with ws:// or wss://")
        trio.run(_Relay(address, read_secrets(address, os.environ)).run)
    except HaftError as fault:
        print(fault, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def read_secrets(address: WebSocket, env: Mapping[str, str]) -> Secrets:
    """Read the token and the key of the daemon's proof. Raises `Unreachable`.

    The token beside the local socket is sent only to a daemon on this machine.
    """
    named = path = env.get("HAFT_TOKEN_FILE")
    if not path and not address.is_loopback:
        raise Unreachable(
            f"the token for {address.name} is not known: copy the files `token` and `proof-key` from beside the "
            "socket there into a folder of yours, and set HAFT_TOKEN_FILE to the path of the first"
        )
    if not path:
        try:
            login_env = with_login_folder(env, os.getuid(), os.lstat)
            path = runtime_paths(login_env, os.getuid()).token
        except PathError as fault:
            raise InvalidAddress(str(fault)) from None
    # A copy is missing because it was not made, or is named wrongly; the file of this machine because of the daemon.
    missing = (
        "HAFT_TOKEN_FILE names a copy of `token`, with a copy of `proof-key` beside it: copy both from the machine of "
        "the daemon, where they are beside its socket"
        if named
        else "the daemon makes it while it listens on a WebSocket (`[websocket] port` in its configuration)"
    )
    token = Path(path)
    return Secrets(*(_read_secret(each, missing) for each in (token, token.with_name("proof-key"))))


def _read_secret(path: Path, missing: str) -> str:
    """Read a secret; `missing` ends the error for a missing file. Raises `Unreachable`."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            status = os.fstat(fd)
            text = os.read(fd, _MAX_SECRET).decode("ascii", errors="replace").strip()
        finally:
            os.close(fd)
    except FileNotFoundError:
        raise Unreachable(f"there is no file {path}: {missing}") from None
    except OSError as fault:
        raise Unreachable(f"{path} cannot be read: {os.strerror(fault.errno or 0)}") from None
    if status.st_uid not in (os.getuid(), 0) or stat.S_IMODE(status.st_mode) & 0o077:
        raise Unreachable(f"{path} can be read by other users; run `chmod 600 {path}`")
    if not text or not (text.isascii() and text.isprintable()):
        raise Unreachable(f"{path} holds no token; copy it again")
    return text


class _NoHttp(HandshakeError):
    """The peer's first bytes are not an HTTP response."""


class _Upgrade(trio.abc.Stream):
    """Stream whose first line must be a reply of HTTP with the status 101.

    Another line raises `ConnectionRejected` or `_NoHttp`: the library would wait for the rest of
    the reply, which a server of another protocol never sends.
    """

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._line = b""

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        data = await self._stream.receive_some(max_bytes)
        if len(self._line) < len(_SWITCHING):
            self._line += data[: len(_SWITCHING) - len(self._line)]
            self._check()
        return data

    def _check(self) -> None:
        head = _HEAD.fullmatch(self._line + _SWITCHING[len(self._line) :])
        if head is None:
            raise _NoHttp
        if len(self._line) == len(_SWITCHING) and int(head[1]) != _SWITCHED:
            raise ConnectionRejected(int(head[1]), (), None)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Relay:
    def __init__(self, address: WebSocket, secrets: Secrets) -> None:
        self._address = address
        self._secrets = secrets
        self._framer = Framer(_MAX_MESSAGE)
        self._pending: set[int | str] = set()
        """Requests of the client without a reply."""
        self._input_ended = False
        self._client = trio.lowlevel.FdStream(os.dup(0))
        self._sink = trio.lowlevel.FdStream(os.dup(1))
        self._fault: HaftError | None = None

    async def run(self) -> None:
        fault: Exception | None = None
        try:
            async with trio.open_nursery() as nursery:
                connection = await self._open(nursery)
                try:
                    await self._greet(connection)
                    await self._sink.send_all(announcement(__version__))
                    await self._join(connection)
                finally:
                    with trio.move_on_after(_CLOSE_S, shield=True):
                        await connection.aclose()
                    nursery.cancel_scope.cancel()
        except ExceptionGroup as group:
            fault = _first_of(group)
        if self._fault is None and fault is not None and not self._is_done:
            self._fault = self._explained(fault)
        if self._fault is not None:
            raise self._fault from None

    async def _open(self, nursery: trio.Nursery) -> WebSocketConnection:
        """Connect by TLS and as a WebSocket; raise `OSError`, `HandshakeError`,
        `trio.BrokenResourceError` for TLS."""
        url = urlsplit(self._address.url)
        is_secure = url.scheme == "wss"
        host, port = url.hostname or "", url.port or (443 if is_secure else 80)
        stream: trio.SocketStream | trio.SSLStream[trio.SocketStream]
        with trio.move_on_after(_CONNECT_S) as connecting:
            if is_secure:
                stream = await trio.open_ssl_over_tcp_stream(host, port, https_compatible=True)
                # The library would wait for a reply that a failed handshake never brings.
                await stream.do_handshake()
            else:
                stream = await trio.open_tcp_stream(host, port)
            return await wrap_client_stream(
                nursery,
                # Declared for the streams of sockets, and used as any stream.
                cast(trio.SocketStream, _Upgrade(stream)),
                # With the port, which the daemon compares too.
                f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
                url.path,
                extra_headers=[
                    (b"Authorization", b"Bearer " + self._secrets.token.encode("ascii"))
                ],
                max_message_size=_MAX_MESSAGE,
                receive_buffer_size=_CHUNK,
            )
        assert connecting.cancelled_caught
        raise ConnectionTimeout

    @property
    def _is_done(self) -> bool:
        return self._input_ended and not self._pending

    async def _greet(self, connection: WebSocketConnection) -> None:
        """Introduce the client and check the daemon's proof; raise `Unreachable`."""
        challenge = secrets.token_hex(32)
        params = {**hello("haft", None), "challenge": challenge}
        request = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        reply = None
        with trio.move_on_after(_CONNECT_S):
            await connection.send_message(msgspec.json.encode(request).decode())
            reply = await connection.get_message()
        try:
            greeted = _GREETED.decode(reply or b"")
        except (msgspec.MsgspecError, TypeError):
            greeted = _Greeted()
        if isinstance(greeted.error, _Failure):
            raise Unreachable(f"{self._address.name} refuses this client: {greeted.error.message}")
        proof = None if isinstance(greeted.result, UnsetType) else greeted.result.proof
        expected = hmac.new(
            self._secrets.proof_key.encode("ascii"), challenge.encode("ascii"), "sha256"
        ).hexdigest()
        if proof is None or not hmac.compare_digest(proof.encode(), expected.encode()):
            raise Unreachable(
                f"{self._address.name} did not prove that it is the daemon of this proof-key, so no request was sent; "
                "if the daemon has been restarted, copy `token` and `proof-key` again"
            )

    async def _join(self, connection: WebSocketConnection) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send, connection, nursery.cancel_scope)
            nursery.start_soon(self._receive, connection, nursery.cancel_scope)
            nursery.start_soon(self._keep_alive, connection, nursery.cancel_scope)

    async def _send(self, connection: WebSocketConnection, done: trio.CancelScope) -> None:
        with suppress(ConnectionClosed):
            while data := await self._read():
                for message in self._framer.feed(data):
                    await self._send_message(connection, message)
                if self._framer.fault is not None:
                    await self._refuse(self._framer.fault)
                    done.cancel()
                    return
            for message in self._framer.finish():
                await self._send_message(connection, message)
            self._input_ended = True
            if self._is_done:
                done.cancel()

    async def _read(self) -> bytes:
        try:
            return bytes(await self._client.receive_some(_CHUNK))
        except (trio.BrokenResourceError, OSError):
            return b""

    async def _send_message(self, connection: WebSocketConnection, message: bytes) -> None:
        for envelope in _envelopes(message):
            if envelope.id not in (UNSET, None) and not isinstance(envelope.method, UnsetType):
                assert isinstance(envelope.id, int | str)
                self._pending.add(envelope.id)
        try:
            await connection.send_message(message.decode())
        except UnicodeDecodeError:
            await self._refuse(parse_error("the message is not UTF-8"))

    async def _refuse(self, fault: RpcError) -> None:
        error = {"code": fault.code, "message": fault.message, "data": fault.data}
        reply = msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": error})
        await self._write(self._framer.frame(reply))

    async def _receive(self, connection: WebSocketConnection, done: trio.CancelScope) -> None:
        while True:
            try:
                message = await connection.get_message()
            except ConnectionClosed as closed:
                if not self._is_done:
                    reason = closed.reason.reason if closed.reason is not None else None
                    words = f": {reason}" if reason else ""
                    self._fault = Unreachable(f"{self._address.name} closed the connection{words}")
                done.cancel()
                return
            data = message.encode() if isinstance(message, str) else bytes(message)
            if not await self._write(self._framer.frame(data)):
                self._input_ended = True
                self._pending.clear()
                done.cancel()
                return
            for envelope in _envelopes(data):
                if isinstance(envelope.method, UnsetType) and isinstance(envelope.id, int | str):
                    self._pending.discard(envelope.id)
            if self._is_done:
                done.cancel()
                return

    async def _write(self, data: bytes) -> bool:
        """Write to the client; return False if it has gone."""
        try:
            await self._sink.send_all(data)
        except (trio.BrokenResourceError, OSError):
            return False
        return True

    async def _keep_alive(self, connection: WebSocketConnection, done: trio.CancelScope) -> None:
        with suppress(ConnectionClosed):
            while True:
                await trio.sleep(_ALIVE_S)
                with trio.move_on_after(_ALIVE_S) as pong:
                    await connection.ping()
                if pong.cancelled_caught:
                    self._fault = Unreachable(f"{self._address.name} no longer answers")
                    done.cancel()
                    return

    def _explained(self, fault: Exception) -> HaftError:
        name = self._address.name
        match fault:
            case HaftError():
                return fault
            case ConnectionTimeout():
                words = f"{name} did not answer within {_CONNECT_S:.0f} s"
            case ConnectionRejected(status_code=code) if code == _UNAUTHORIZED:
                words = f"{name} refuses the token; the daemon makes a new one at each start: copy it again"
            case ConnectionRejected(status_code=code) if code == _FORBIDDEN:
                words = f"{name} refuses the name of the machine: add it with the port to `[websocket] hosts` of its configuration"
            case ConnectionRejected(status_code=code):
                words = f"the server at {name} is not haftd: HTTP status {code}"
            case ConnectionClosed():
                words = f"{name} closed the connection"
            case _NoHttp() | h11.ProtocolError():
                words = f"the server at {name} is not haftd: it speaks another protocol"
            case HandshakeError() | OSError() | trio.BrokenResourceError():
                reason = first_reason(fault) or "the server does not speak WebSocket"
                words = f"{name} cannot be reached: {reason}"
            case _:
                raise fault
        return Unreachable(words)


def _first_of(group: ExceptionGroup[Exception]) -> Exception:
    first = group.exceptions[0]
    return _first_of(first) if isinstance(first, ExceptionGroup) else first


def _envelopes(message: bytes) -> Iterator[_Envelope]:
    try:
        decoded = _ENVELOPES.decode(message)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return
    yield from decoded if isinstance(decoded, list) else [decoded]


if __name__ == "__main__":
    sys.exit(main())
