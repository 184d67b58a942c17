"""Client on trio: one connection, any number of tasks.

Cancelling a task (`trio.move_on_after`) cancels its request at the daemon, and harms neither handle
nor connection: a message is queued whole, so no cancellation cuts one in two.

    async with haft.aio.connect(autostart=True) as haft:
        await haft.spawn("run", "build", {"argv": ["make"]})
        await haft.await_(all=["build"])

A host serves inquiries by `answer` (a tool's questions) and `approve` (approvals):

    async def answer(inquiry):
        return await ask_the_model(inquiry.question.text, inquiry.schema, inquiry.context)

    async with haft.aio.connect(answer=answer) as haft:
        reply = await haft.call_tool("fs_modify_file", {"path": "a.txt"})
        print(reply["result"])
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio
from msgspec import Raw

from haft_protocol.approvals import ASK_APPROVAL
from haft_protocol.inquiries import ASK
from haft_protocol.methods import InitializeResult

from .address_choice import chosen_address
from .addresses import Address
from .aio_calls import AsyncCalls
from .client_requests import Answerer, Approver, ClientRequests, RequestHandler, request_handlers
from .connection import loss_of, open_connection
from .daemon_socket import Socket
from .errors import ConnectionLost, HaftError, NotRunning, RemoteError
from .exchange import Answer, result_of
from .local_address import Local
from .request_params import hello, with_defaults
from .requests import decode
from .wire import Conversation

__all__ = ["Haft", "connect"]

_CHUNK = 1 << 18


@asynccontextmanager
async def connect(
    socket: str | None = None,
    autostart: bool = False,
    *,
    host: str | None = None,
    session: str | None = None,
    root: str | None = None,
    name: str = "haft-trio",
    timeout: float | None = None,
    read_only: bool = False,
    hear: Callable[[str, Raw], None] | None = None,
    answer: Answerer | None = None,
    approve: Approver | None = None,
) -> AsyncIterator[Haft]:
    """Connect for the length of an `async with` block; see `haft.Haft.connect`.

    `hear` is called with each notification's method and JSON params, and must not block. `answer`
    is awaited for each question, `approve` for each approval, each in its own task; raising
    `Declined` leaves the request to other clients. With either, loss of the connection cancels the
    block, which raises `ConnectionLost`; otherwise the next call raises.
    """
    address = chosen_address(host, socket, os.environ)
    haft = Haft(
        await _open(address, autostart=autostart, timeout=timeout),
        session=session,
        root=root,
        name=name,
        read_only=read_only,
        hear=hear,
        handlers=request_handlers(answer, approve),
    )
    fault: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            # Before the first read: the daemon may send a request at once.
            await nursery.start(haft._client_requests.run)
            nursery.start_soon(haft._read)
            nursery.start_soon(haft._write)
            try:
                with haft._client_requests.block:
                    yield haft
            except (trio.Cancelled, GeneratorExit):
                raise
            except BaseException as raised:
                # The nursery would wrap the exception into a group.
                fault = raised
            nursery.cancel_scope.cancel()
    finally:
        haft._close()
    fault = fault or haft._client_requests.fault
    if fault is not None:
        raise fault


async def _open(address: Address, *, autostart: bool, timeout: float | None) -> Socket:
    """Connect in this thread if a daemon of this machine answers, else in another thread."""
    if isinstance(address, Local):
        try:
            return open_connection(address, timeout=timeout)
        except NotRunning:
            if not autostart:
                raise
    opened: list[Socket] = []
    is_cancelled = False

    def open_in_thread() -> None:
        opened.append(open_connection(address, autostart=autostart, timeout=timeout))
        if is_cancelled:
            opened[0].close()

    try:
        await trio.to_thread.run_sync(open_in_thread, abandon_on_cancel=True)
    except trio.Cancelled:
        # The thread checks this after its append, so one of the two closes the connection.
        is_cancelled = True
        for connected in opened:
            connected.close()
        raise
    return opened[0]


class Haft(AsyncCalls):
    r"""A connection, opened by `connect`.

    >>> async def greet() -> str:
    ...     async with connect(socket) as haft:
    ...         await haft.spawn("run", "greet", {"argv": ["echo", "hello"]}, wait="none")
    ...         return (await haft.await_(all=["greet"])).completed[0].result
    >>> trio.run(greet)
    'hello\n'
    """

    def __init__(
        self,
        connected: Socket,
        *,
        session: str | None,
        root: str | None,
        name: str,
        read_only: bool,
        hear: Callable[[str, Raw], None] | None,
        handlers: Mapping[str, RequestHandler],
    ) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._hear = hear
        self._wire = Conversation(self._take_notification)
        self._client_requests = ClientRequests(self._wire, handlers, self._flush)
        self._wire.take_request = self._client_requests.take
        self._session = session
        self._root = root
        self._arrivals: dict[int, trio.Event] = {}
        self._has_output = trio.Event()
        self._lost: HaftError | None = None
        served = {"inquiry": ASK in handlers, "approval": ASK_APPROVAL in handlers}
        capabilities = {key: True for key, is_served in served.items() if is_served}
        self._hello = self._wire.greet(hello(name, session, read_only=read_only, **capabilities))
        self._initialized: Answer | None = None
        self._initializing = trio.Lock()

    async def call(self, method: str, /, **params: object) -> Any:
        """Call a method by its wire name and return its typed result; raises `RemoteError`."""
        self._check()
        number = self._wire.request(
            method, with_defaults(method, params, self._session, self._root)
        )
        return decode(method, await self._answer(number))

    async def batch(self, calls: Sequence[tuple[str, Mapping[str, object]]]) -> list[Any]:
        """Send calls as one batch; return a result or a `RemoteError` for each, in order."""
        self._check()
        numbers = self._wire.batch(
            (method, with_defaults(method, params, self._session, self._root))
            for method, params in calls
        )
        results: list[Any] = []
        try:
            for number, (method, _) in zip(numbers, calls, strict=True):
                try:
                    results.append(decode(method, await self._answer(number)))
                except RemoteError as error:
                    if error is self._wire.fault:
                        raise
                    results.append(error)
        finally:
            for number in numbers[len(results) :]:
                self._wire.forget(number)
            self._flush()
        return results

    async def server(self) -> InitializeResult:
        async with self._initializing:
            if self._initialized is None:
                self._initialized = await self._reply(self._hello)
        server: InitializeResult = decode("initialize", result_of(self._initialized))
        return server

    def _take_notification(self, method: str, params: Raw) -> None:
        if method == "$/cancelRequest":
            self._client_requests.cancel(params)
        elif self._hear is not None:
            self._hear(method, params)

    def _check(self) -> None:
        if self._lost is not None:
            raise self._lost

    async def _answer(self, number: int) -> bytes:
        """Return the result of a request, which is cancelled with this task."""
        try:
            return result_of(await self._reply(number))
        finally:
            self._wire.forget(number)
            self._flush()

    async def _reply(self, number: int) -> Answer:
        """Wait for a reply, in one task at a time; after a cancellation it can be awaited again."""
        try:
            while (reply := self._wire.take(number)) is None:
                if self._wire.fault is not None:
                    raise self._wire.fault
                self._check()
                arrived = self._arrivals[number] = trio.Event()
                self._flush()
                await arrived.wait()
        finally:
            self._arrivals.pop(number, None)
        return reply

    def _flush(self) -> None:
        if not self._wire.to_send or self._lost is not None:
            return
        try:
            del self._wire.to_send[: self._socket.send(self._wire.to_send)]
        except BlockingIOError:
            pass
        except OSError:
            # After a hangup, `_read` takes the last messages, then reports the loss.
            self._wire.to_send.clear()
        if self._wire.to_send:
            self._has_output.set()

    async def _write(self) -> None:
        while True:
            await self._has_output.wait()
            self._has_output = trio.Event()
            while self._wire.to_send and self._lost is None:
                await trio.lowlevel.wait_writable(self._socket)
                self._flush()

    async def _read(self) -> None:
        try:
            while True:
                try:
                    data = self._socket.recv(_CHUNK)
                except BlockingIOError:
                    await trio.lowlevel.wait_readable(self._socket)
                    continue
                if not data:
                    raise self._wire.fault or await self._loss("haftd closed the connection")
                for number in self._wire.feed(data):
                    if number in self._arrivals:
                        self._arrivals.pop(number).set()
                if self._wire.fault is not None:
                    self._wake_all()
                self._flush()
                await trio.lowlevel.checkpoint()
        except HaftError as fault:
            self._lost = fault
        except OSError as fault:
            self._lost = await self._loss(f"the connection broke: {os.strerror(fault.errno or 0)}")
        self._wake_all()
        self._client_requests.lost(self._lost)

    async def _loss(self, words: str) -> ConnectionLost:
        return await trio.to_thread.run_sync(loss_of, self._socket, words)

    def _wake_all(self) -> None:
        for arrived in self._arrivals.values():
            arrived.set()

    def _close(self) -> None:
        self._socket.close()
        self._lost = self._lost or ConnectionLost("this connection was closed by the client itself")
        self._wake_all()
