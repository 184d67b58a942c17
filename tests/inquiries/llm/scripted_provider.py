"""A local HTTP server that plays a script as a provider. Each request takes the next step and is
kept as received. The server knows no provider: `judging` has the rules for requests."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import h11
import trio


@dataclass(frozen=True, slots=True)
class Asked:
    """A received request."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True, slots=True)
class Raw:
    """A reply of any kind."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)


Step = dict[str, Any] | Raw | Literal["hangs", "drops", "floods", "crumbles", "delays"]
"""An object is the body of a reply with 200."""

CRUMBS = 50_000
"""Parts of one byte that a reply has that crumbles."""


class Server:
    """Plays `steps`, the last repeatedly if `again`; a request with objections of `judge` is
    refused with 400."""

    def __init__(
        self,
        steps: Iterable[Step],
        judge: Callable[[Asked], list[str]] = lambda asked: [],
        *,
        again: bool = False,
    ) -> None:
        self.steps = deque(steps)
        self.asked: list[Asked] = []
        self.faults: list[str] = []
        self.url = ""
        self.open = 0
        self.on_hang: Callable[[], None] = lambda: None
        self._judge = judge
        self._again = again

    async def handle(self, stream: trio.SocketStream) -> None:
        """Serve a connection from beginning to end."""
        self.open += 1
        try:
            await self._talk(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self.open -= 1

    async def _talk(self, stream: trio.SocketStream) -> None:
        peer = h11.Connection(h11.SERVER)
        while (asked := await _request(peer, stream)) is not None:
            self.asked.append(asked)
            step = self._step(asked)
            if step == "hangs":
                self.on_hang()
                await stream.receive_some()
                return
            if step == "drops":
                return
            if step == "floods":
                await _flood(peer, stream)
                return
            if step == "delays":
                while True:  # repeats that there will be a reply
                    await stream.send_all(b"HTTP/1.1 100 Continue\r\n\r\n" * 400)
            if step == "crumbles":
                await _crumble(peer, stream)
                return
            if not isinstance(step, Raw):
                step = Raw(body=json.dumps(step).encode())
            headers = {"content-length": str(len(step.body)), **step.headers}
            head = h11.Response(status_code=step.status, headers=list(headers.items()))
            data = peer.send(head)
            if "content-length" in headers:
                data += peer.send(h11.Data(data=step.body))
            await stream.send_all(data + peer.send(h11.EndOfMessage()))
            if peer.our_state is h11.MUST_CLOSE:
                return
            peer.start_next_cycle()

    def _step(self, asked: Asked) -> Step:
        if faults := self._judge(asked):
            self.faults += faults
            return Raw(400, json.dumps({"error": {"message": "; ".join(faults)}}).encode())
        if self._again and len(self.steps) == 1:
            return self.steps[0]
        return self.steps.popleft()


async def _request(peer: h11.Connection, stream: trio.SocketStream) -> Asked | None:
    head, body = None, bytearray()
    while True:
        event = peer.next_event()
        if event is h11.NEED_DATA:
            peer.receive_data(await stream.receive_some())
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            assert head is not None
            headers = {name.decode().lower(): value.decode() for name, value in head.headers}
            return Asked(head.method.decode(), head.target.decode(), headers, json.loads(body))
        else:
            return None


async def _flood(peer: h11.Connection, stream: trio.SocketStream) -> None:
    head = h11.Response(status_code=200, headers=[("transfer-encoding", "chunked")])
    await stream.send_all(peer.send(head))
    while True:
        await stream.send_all(peer.send(h11.Data(data=b" " * 65_536)))


async def _crumble(peer: h11.Connection, stream: trio.SocketStream) -> None:
    head = h11.Response(status_code=200, headers=[("transfer-encoding", "chunked")])
    await stream.send_all(peer.send(head) + b"1\r\n \r\n" * CRUMBS + b"0\r\n\r\n")


@asynccontextmanager
async def serving(server: Server) -> AsyncIterator[Server]:
    """Serve until the end of the block."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    server.url = f"http://127.0.0.1:{port}"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, server.handle, listeners)
        yield server
        nursery.cancel_scope.cancel()
