"""The daemon's RPC layer with a table of toy methods, and clients for each transport."""

from __future__ import annotations

import json
import socket
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, cast

import msgspec
import structlog
import trio
import trio_websocket
from msgspec.structs import replace

from haft_protocol.errors import RpcError, handle_exists, invalid_answer
from haft_protocol.methods import Empty, InitializeParams, LimitsResult, PingResult, SpawnParams
from haftd.caller import Caller
from haftd.methods.base import DeferredReply, HandleWait, MethodHandler
from haftd.rpc.connection import RpcContext
from haftd.rpc.dispatch import Dispatcher, Verdicts
from haftd.rpc.transports.handshake import Gatekeeper
from haftd.rpc.transports.unix import serve_unix
from haftd.rpc.transports.websocket import open_websocket_listener, serve_websocket
from haftd.rpc.wire import Timeouts
from tests.patience import PATIENCE_S

Kind = Literal["lines", "headers", "websocket"]
KINDS: tuple[Kind, ...] = ("lines", "headers", "websocket")
TOKEN = "canary-" + "t" * 36

LIMITS = LimitsResult(
    max_message=256 * 1024,
    max_nesting=64,
    max_values=100_000,
    max_batch=64,
    max_connections=16,
    max_in_flight=8,
    max_handles_session=8,
    max_handles=16,
    max_queued=1024 * 1024,
)
QUICK = Timeouts(stalled=0.3, partial=0.3, handshake=0.5, ping=20, close_grace=0.3)


class Echo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: str = ""
    size: int = 0


class Late(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    size: int


class Name(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str


class Bell:
    """A handle that changes when a test rings; `then` continues its calls."""

    def __init__(self) -> None:
        self.is_rung = False
        self.cancelled = 0
        self.then: Callable[[object], object] = lambda _: "rung"
        self.listeners: list[Callable[[], object]] = []
        self.listen_for_reply = self.listeners.append
        self.unlisten_for_reply = self.listeners.remove

    def ring(self) -> None:
        self.is_rung = True
        for listener in tuple(self.listeners):
            listener()

    def cancel(self, by_request: bool) -> None:
        self.cancelled += 1


@dataclass
class Rig:
    """The effects of the toy methods, and the events that the waiting ones await."""

    limits: LimitsResult = LIMITS
    timeouts: Timeouts = field(default_factory=Timeouts)
    calls: list[str] = field(default_factory=list)
    gates: dict[str, trio.Event] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)
    waiting: int = 0
    cancelled: int = 0
    gone: list[Caller] = field(default_factory=list)
    lines: list[dict[str, Any]] = field(default_factory=list)
    moved: trio.lowlevel.ParkingLot = field(default_factory=trio.lowlevel.ParkingLot)
    taken: set[str] = field(default_factory=set)
    given_up: list[str] = field(default_factory=list)
    bells: defaultdict[str, Bell] = field(default_factory=lambda: defaultdict(Bell))

    def __post_init__(self) -> None:
        def capture(_logger: object, method: str, event: Any) -> Any:
            self.lines.append({"level": method, **event})
            raise structlog.DropEvent

        log = structlog.wrap_logger(
            None, processors=[capture], wrapper_class=structlog.make_filtering_bound_logger(0)
        )
        verbs: dict[str, tuple[type[Any], MethodHandler]] = {
            "initialize": (InitializeParams, self.initialize),
            "ping": (Empty, lambda caller, params: PingResult()),
            "echo": (Echo, lambda caller, params: params.text or "x" * params.size),
            "wait": (Name, self.wait),
            "await_bell": (Name, self.await_bell),
            "late": (Late, self.late),
            "long": (Late, self.long),
            "fail_later": (Empty, self.fail_later),
            "boom": (Empty, self.boom),
            "refuse": (Empty, self.refuse),
            "unencodable": (Empty, lambda caller, params: object()),
            "note": (Name, self.note),
            "spawn": (SpawnParams, self.spawn),
        }
        self.rpc_context = RpcContext(
            Dispatcher(verbs, self.reserve, self.limits, log),
            self.limits,
            log,
            self._gone,
            timeouts=self.timeouts,
        )
        self.rpc_context.dispatcher.on_reply = self.rpc_context.clients.on_reply
        self.gate = Gatekeeper(
            TOKEN, hosts=["127.0.0.1", "localhost"], origins=[], clock=trio.current_time
        )

    def _gone(self, caller: Caller) -> None:
        self.gone.append(caller)
        self.moved.unpark_all()

    async def until(self, law: Any) -> None:
        """Wait until `law()` holds, woken by every event of the rig."""
        with trio.fail_after(PATIENCE_S):
            while not law():
                await self.moved.park()

    def initialize(self, caller: Caller, params: InitializeParams) -> str:
        caller.initialized = True
        caller.name = params.client.name
        return "welcome"

    def wait(self, caller: Caller, params: Name) -> DeferredReply:
        gate = self.gates.setdefault(params.name, trio.Event())

        async def run() -> str:
            self.begun.append(params.name)
            self.waiting += 1
            self.moved.unpark_all()
            try:
                await gate.wait()
            except trio.Cancelled:
                self.cancelled += 1
                raise
            finally:
                self.waiting -= 1
                self.moved.unpark_all()
            return params.name

        return DeferredReply(run)

    def await_bell(self, caller: Caller, params: Name) -> HandleWait:
        """Wait without a task, until the test rings the bell."""
        bell = self.bells[params.name]
        return HandleWait(
            (cast(Any, bell),), lambda: bell.is_rung or None, bell.then, on_cancel=bell.cancel
        )

    def late(self, caller: Caller, params: Late) -> DeferredReply:
        wait = self.wait(caller, Name(params.name))

        async def run() -> str:
            await wait.run()
            return "x" * params.size

        return DeferredReply(run)

    def long(self, caller: Caller, params: Late) -> DeferredReply:
        """Wait as `late` does, for a reply whose long text is converted meanwhile."""
        run = self.late(caller, params).run
        return DeferredReply(run, run)

    def fail_later(self, caller: Caller, params: Empty) -> DeferredReply:
        async def run() -> object:
            await trio.lowlevel.checkpoint()
            raise ZeroDivisionError("secret detail")

        return DeferredReply(run)

    def boom(self, caller: Caller, params: Empty) -> object:
        raise ZeroDivisionError("secret detail")

    def refuse(self, caller: Caller, params: Empty) -> object:
        raise invalid_answer("it is not among the options")

    def note(self, caller: Caller, params: Name) -> str:
        self.calls.append(params.name)
        self.moved.unpark_all()
        return params.name

    def reserve(
        self, caller: Caller, spawns: Sequence[SpawnParams]
    ) -> Generator[None, None, Verdicts]:
        yield from ()
        seen = set(self.taken)
        verdicts: list[RpcError | None] = []
        for spawn in spawns:
            verdicts.append(
                handle_exists(spawn.id, "default", "running") if spawn.id in seen else None
            )
            seen.add(spawn.id)
        return (
            verdicts
            if any(verdicts)
            else [partial(self.given_up.append, spawn.id) for spawn in spawns]
        )

    def spawn(self, caller: Caller, params: SpawnParams) -> str:
        self.calls.append(f"spawn {params.id}")
        return params.id


class Client(Protocol):
    """A peer that uses one framing; `receive` returns `None` at the end."""

    async def send(self, *messages: bytes) -> None: ...
    async def receive(self) -> bytes | None: ...
    async def aclose(self) -> None: ...


class StreamClient:
    """A peer on a Unix socket, in lines or in headers."""

    def __init__(self, stream: trio.SocketStream, kind: Kind) -> None:
        self.stream = stream
        self._kind = kind
        self._buffer = bytearray()

    async def send(self, *messages: bytes) -> None:
        if self._kind == "lines":
            data = b"".join(message + b"\n" for message in messages)
        else:
            data = b"".join(b"Content-Length: %d\r\n\r\n%b" % (len(m), m) for m in messages)
        await self.stream.send_all(data)

    async def _until(self, end: bytes) -> bytes | None:
        while (at := self._buffer.find(end)) < 0:
            if not await self._more():
                return None
        found = bytes(self._buffer[:at])
        del self._buffer[: at + len(end)]
        return found

    async def _more(self) -> bool:
        try:
            data = await self.stream.receive_some(1 << 20)
        except trio.BrokenResourceError:
            return False
        self._buffer += data
        return bool(data)

    async def receive(self) -> bytes | None:
        if self._kind == "lines":
            return await self._until(b"\n")
        head = await self._until(b"\r\n\r\n")
        if head is None:
            return None
        length = int(head.partition(b":")[2])
        while len(self._buffer) < length:
            if not await self._more():
                return None
        found = bytes(self._buffer[:length])
        del self._buffer[:length]
        return found

    async def aclose(self) -> None:
        await trio.aclose_forcefully(self.stream)


class WebSocketClient:
    """A peer on a WebSocket."""

    def __init__(self, connection: trio_websocket.WebSocketConnection) -> None:
        self.connection = connection

    async def send(self, *messages: bytes) -> None:
        for message in messages:
            await self.connection.send_message(message.decode())

    async def receive(self) -> bytes | None:
        try:
            message = await self.connection.get_message()
        except trio_websocket.ConnectionClosed:
            return None
        assert isinstance(message, str)
        return message.encode()

    async def aclose(self) -> None:
        await trio.aclose_forcefully(self.connection._stream)


@dataclass
class Served:
    """A listening RPC context, and its addresses."""

    rig: Rig
    path: str
    port: int
    nursery: trio.Nursery
    clients: list[Client] = field(default_factory=list)

    async def connect(self, kind: Kind, *, hello: bool = True) -> Client:
        if kind != "websocket":
            stream = StreamClient(await trio.open_unix_socket(self.path), kind)
            self.clients.append(stream)
            return stream
        connection = await trio_websocket.connect_websocket(
            self.nursery,
            "127.0.0.1",
            self.port,
            "/",
            use_ssl=False,
            extra_headers=[(b"Authorization", b"Bearer " + TOKEN.encode())],
            max_message_size=1 << 26,
        )
        client = WebSocketClient(connection)
        self.clients.append(client)
        if hello:
            assert (
                ok(await ask(client, "initialize", client={"name": "t"}, protocol=1)) == "welcome"
            )
        return client


@asynccontextmanager
async def serving(
    rig: Rig, *, websocket: bool = True, seconds: float = 3 * PATIENCE_S
) -> AsyncIterator[Served]:
    """Serve the RPC context of `rig` on both transports in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="haft-rpc-") as folder:
        path = str(Path(folder, "s"))
        unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        unix.bind(path)
        unix.listen(1024)
        web = open_websocket_listener("127.0.0.1", 0)
        try:
            with trio.fail_after(seconds):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(serve_unix, unix, nursery, rig.rpc_context)
                    if websocket:
                        nursery.start_soon(serve_websocket, web, nursery, rig.rpc_context, rig.gate)
                    served = Served(rig, path, web.getsockname()[1], nursery)
                    try:
                        yield served
                    finally:
                        for client in served.clients:
                            await client.aclose()
                    nursery.cancel_scope.cancel()
        finally:
            unix.close()
            web.close()


HANDSHAKE = {
    "Host": "127.0.0.1:{port}",
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Authorization": f"Bearer {TOKEN}",
}


async def upgrade(port: int, **changes: str | bytes | None) -> tuple[int, str]:
    """Shake hands by hand, with headers changed or (`None`) left out; return the status and the
    whole reply. Words in `changes` are header names with `_` for `-`. An upgraded connection
    is closed."""
    headers: dict[str, str | bytes] = {**HANDSHAKE}
    names = {name.lower(): name for name in headers}
    for key, value in changes.items():
        name = key.replace("_", "-")
        name = names.get(name.lower(), name)
        if value is None:
            headers.pop(name, None)
        else:
            headers[name] = value
    head = b"GET / HTTP/1.1\r\n"
    for name, value in headers.items():
        if isinstance(value, str):
            value = value.replace("{port}", str(port)).encode()
        head += name.encode() + b": " + value + b"\r\n"
    return await shake(port, head + b"\r\n")


async def shake(port: int, data: bytes) -> tuple[int, str]:
    """Send `data` to the WebSocket's port; return the status and the reply, 0 without one."""
    with trio.fail_after(PATIENCE_S):
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        got = b""
        async with stream:
            try:
                await stream.send_all(data)
                while more := await stream.receive_some(65_536):
                    got += more
                    if got.startswith(b"HTTP/1.1 101") and b"\r\n\r\n" in got:
                        break
            except trio.BrokenResourceError:
                pass
    return int(got.split(b" ")[1]) if got else 0, got.decode("latin-1")


def request(method: str, id_: object = 1, /, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id_, "method": method, "params": params}).encode()


def notification(method: str, /, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()


def batch(*messages: bytes) -> bytes:
    return b"[" + b",".join(messages) + b"]"


async def read(client: Client) -> Any:
    """Return the next message, decoded; `None` at the end."""
    with trio.fail_after(PATIENCE_S):
        message = await client.receive()
    return None if message is None else json.loads(message)


async def ask(peer: Client, method: str, id_: object = 1, /, **params: Any) -> Any:
    await peer.send(request(method, id_, **params))
    return await read(peer)


def ok(reply: Any) -> Any:
    assert "error" not in reply, reply
    return reply["result"]


def code(reply: Any) -> int:
    found: int = reply["error"]["code"]
    return found


def limits(**changes: int) -> LimitsResult:
    return msgspec.structs.replace(LIMITS, **changes)


def timeouts(**changes: float) -> Timeouts:
    return replace(QUICK, **changes)
