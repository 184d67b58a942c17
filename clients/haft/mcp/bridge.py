"""Bridge between a host of MCP and the daemon: messages in, messages and requests out. No I/O.

A request is a generator of steps: requests to the daemon or to the host. Its end ends a wait, never
a handle. An answered request is dropped: its state returns, signed, with a later answer.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from haft_protocol.ellipsis import shorten
from haft_protocol.mcp import (
    CANCELLED,
    INTERNAL,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LEGACY,
    METHOD_NOT_FOUND,
    MODERN,
    SERVER_NAME,
    UNSUPPORTED_VERSION,
    Message,
)

from .. import __version__
from ..errors import HaftError, RemoteError
from ..exchange import Answer
from ..wire import Conversation
from .messages import (
    Capabilities,
    Fault,
    Id,
    InitializeParams,
    ListParams,
    Meta,
    cancelled_id,
    encode,
    read,
    read_params,
    with_whole_characters,
)
from .steps import AwaitNotification, CallHost, Host, NotifyHost, Serve, Step, Steps

PROGRESS_S = 10.0
_FIRST_PROGRESS_S = (1.0, 2.0, 3.0, 4.0)
"""Pauses before the first reports: a host's user sees soon that a call works."""
_STREAM = "haft.changes"
"""Id of a legacy host's event stream, which has no request."""
MAX_PROGRESS_TEXT = 200

_LEGACY_ONLY = frozenset({"resources/subscribe", "resources/unsubscribe"})
_MODERN_ONLY = frozenset({"subscriptions/listen"})

_SERVER = {"name": SERVER_NAME, "version": __version__}
_META = {"io.modelcontextprotocol/serverInfo": _SERVER}
_LIST = msgspec.json.Decoder(ListParams)
_INITIALIZE = msgspec.json.Decoder(InitializeParams)


class _Request:
    def __init__(self, id: Id, steps: Steps, host: Host, since: float) -> None:
        self.id = id
        self.steps = steps
        self.host = host
        self.since = since
        self.pauses = itertools.chain(_FIRST_PROGRESS_S, itertools.repeat(PROGRESS_S))
        self.next_progress = since + next(self.pauses)
        self.daemon_number: int | None = None
        self.host_number: str | None = None
        self.host_due: float | None = None
        """Deadline of the host's reply."""
        self.on_late: Callable[[Raw], None] | None = None
        self.is_listening = False


class Bridge:
    """One host, one daemon. `to_host` is the output queue.

    `connect` returns a conversation with a daemon, started if need be, or raises `HaftError`.
    `methods` are served beside MCP's own; `legacy_stream` notifies a legacy host of changes, from
    the first `tools/list` on. `legacy` is a host after an `initialize` elsewhere; ids of requests
    to the host begin with `name`.
    """

    def __init__(
        self,
        connect: Callable[[], Conversation],
        methods: dict[str, Serve],
        *,
        capabilities: dict[str, Any],
        instructions: str,
        legacy_stream: Callable[[Host], Steps] | None = None,
        legacy: Host | None = None,
        name: str = "haft",
    ) -> None:
        self._connect = connect
        self._methods = methods
        self._capabilities = capabilities
        self._instructions = instructions
        self._requests: dict[Id, _Request] = {}
        self._daemon_requests: dict[int, _Request] = {}
        self._host_requests: dict[str, _Request] = {}
        self._late: dict[str, Callable[[Raw], None]] = {}
        """Receivers of late replies by the host."""
        self._now = 0.0
        self._notifications: dict[_Request, deque[Raw]] = {}
        """Unread notifications of the daemon, by the request that receives them."""
        self._last_asked = 0
        self._legacy = legacy
        self._name = name
        self._legacy_stream = legacy_stream
        self._daemon: Conversation | None = None
        self._ready: deque[tuple[_Request, Answer | HaftError]] = deque()
        self.to_host = bytearray()

    @property
    def legacy(self) -> Host | None:
        return self._legacy

    @property
    def is_busy(self) -> bool:
        return bool(self._requests)

    def receive(self, line: bytes, now: float) -> None:
        self._now = now
        if line[:1] == b"[":
            self._refuse(None, Fault(INVALID_REQUEST, "The protocol has no batches."))
            return
        try:
            message, meta = read(line)
        except Fault as fault:
            if (whole := with_whole_characters(line)) is not None:
                self.receive(whole, now)
            else:
                self._refuse(_id_of(line), fault)
            return
        if isinstance(message.method, UnsetType):
            self._take_reply(message)
        elif isinstance(message.id, UnsetType) or message.id is None:
            self._take_notification(message.method, message.params)
        else:
            self._take_request(message.id, message.method, message.params, meta, now)
        self._run()

    def refuse_line(self, why: str) -> None:
        """Refuse a line of which the transport has read only a part."""
        self._refuse(None, Fault(INVALID_REQUEST, why))

    def _take_request(
        self, id: Id, method: str, params: Raw, meta: Meta | UnsetType, now: float
    ) -> None:
        try:
            if id in self._requests or id == _STREAM:
                raise Fault(INVALID_REQUEST, "A request with this id is not answered yet.")
            host = self._host(method, UNSET if isinstance(meta, UnsetType) else meta)
            host.id = id
            steps = self._find(method, host)(host, params)
        except Fault as fault:
            self._refuse(id, fault)
            return
        request = self._requests[id] = _Request(id, steps, host, now)
        self._step(request, None)
        if method == "tools/list" and not host.is_modern:
            self._begin_legacy_stream(now)

    def _begin_legacy_stream(self, now: float) -> None:
        if self._legacy_stream is None or self._legacy is None or _STREAM in self._requests:
            return
        host = Host(self._legacy.version, self._legacy.capabilities, is_modern=False)
        request = _Request(_STREAM, self._legacy_stream(host), host, now)
        self._requests[_STREAM] = request
        self._step(request, None)

    def _host(self, method: str, meta: Meta | UnsetType) -> Host:
        declared = Meta() if isinstance(meta, UnsetType) else meta
        token = declared.progress_token
        if isinstance(declared.version, UnsetType):
            if method == "initialize" or (method == "ping" and self._legacy is None):
                return Host(LEGACY[0], Capabilities(), is_modern=False, progress_token=token)
            if self._legacy is None:
                raise Fault(
                    INVALID_PARAMS,
                    "`_meta` has no `io.modelcontextprotocol/protocolVersion`, and no `initialize` came before.",
                )
            legacy = self._legacy
            return Host(legacy.version, legacy.capabilities, is_modern=False, progress_token=token)
        if declared.version != MODERN:
            raise Fault(
                UNSUPPORTED_VERSION,
                f"This server does not speak the revision {declared.version}.",
                {"supported": [MODERN], "requested": declared.version},
            )
        if isinstance(declared.capabilities, UnsetType):
            raise Fault(
                INVALID_PARAMS, "`_meta` has no `io.modelcontextprotocol/clientCapabilities`."
            )
        return Host(MODERN, declared.capabilities, is_modern=True, progress_token=token)

    def _find(self, method: str, host: Host) -> Serve:
        own: dict[str, Serve] = (
            {"server/discover": self._discover}
            if host.is_modern
            else {"initialize": self._initialize, "ping": _ping}
        )
        serve = own.get(method)
        if serve is None and method not in (_LEGACY_ONLY if host.is_modern else _MODERN_ONLY):
            serve = self._methods.get(method)
        if serve is None:
            raise Fault(METHOD_NOT_FOUND, f"There is no method {method}.")
        return serve

    def _take_notification(self, method: str, params: Raw) -> None:
        if method != CANCELLED:
            return
        request_id = cancelled_id(params)
        request = None if request_id is None else self._requests.get(request_id)
        if request is not None and request.id != _STREAM:
            self._drop(request)

    def _take_reply(self, message: Message) -> None:
        request = self._host_requests.pop(message.id, None) if isinstance(message.id, str) else None
        failed = not message.result
        if request is None:
            on_late = self._late.pop(message.id, None) if isinstance(message.id, str) else None
            if on_late is not None and not failed:
                on_late(message.result)
            return
        request.host_number = request.host_due = None
        self._ready.append((request, RemoteError(0, "", "") if failed else message.result))

    def arrived(self, numbers: list[int]) -> None:
        if self._daemon is None:
            raise AssertionError("replies arrived without a daemon")
        for number in numbers:
            request = self._daemon_requests.pop(number, None)
            if request is None:
                self._daemon.take(number)
                continue
            request.daemon_number = None
            try:
                answer: Answer | HaftError | None = self._daemon.take(number)
            except HaftError as fault:
                answer = fault
            if answer is not None:
                # A part would keep the whole buffer alive.
                self._ready.append((request, answer.copy() if isinstance(answer, Raw) else answer))
        self._run()

    def lost(self, fault: HaftError) -> None:
        """Fail all requests after the daemon's loss; the next one reconnects."""
        self._daemon = None
        requests, self._daemon_requests = self._daemon_requests, {}
        for request in requests.values():
            request.daemon_number = None
            self._ready.append((request, fault))
        for request in self._notifications:
            if request.is_listening:
                request.is_listening = False
                self._ready.append((request, fault))
        self._run()

    def next_due(self) -> float | None:
        """Return the time of the next `tick`."""
        due = [
            request.next_progress
            for request in self._requests.values()
            if not isinstance(request.host.progress_token, UnsetType)
        ]
        due += [
            request.host_due
            for request in self._host_requests.values()
            if request.host_due is not None
        ]
        return min(due, default=None)

    def tick(self, now: float) -> None:
        """Report due progress, and end expired waits for the host."""
        self._now = now
        self._report_progress(now)
        for request in list(self._host_requests.values()):
            if request.host_due is not None and now >= request.host_due:
                self._expire_host_request(request)
        self._run()

    def _expire_host_request(self, request: _Request) -> None:
        if request.host_number is None:
            raise AssertionError("a request without a number awaits the host")
        del self._host_requests[request.host_number]
        if request.on_late is not None:
            self._late[request.host_number] = request.on_late
        request.host_number = request.host_due = None
        self._ready.append((request, RemoteError(0, "", "the host did not reply")))

    def _report_progress(self, now: float) -> None:
        for request in self._requests.values():
            token = request.host.progress_token
            if isinstance(token, UnsetType) or now < request.next_progress:
                continue
            request.next_progress = now + next(request.pauses)
            elapsed = round(now - request.since, 1)
            suffix = f" {elapsed:.0f} s"
            self._notify(
                "notifications/progress",
                {
                    "progressToken": token,
                    "progress": elapsed,
                    "message": shorten(request.host.subject, MAX_PROGRESS_TEXT - len(suffix))
                    + suffix,
                },
            )

    def _initialize(self, host: Host, params: Raw) -> Steps:
        hello: InitializeParams = read_params(params, _INITIALIZE)
        version = hello.protocol_version if hello.protocol_version in LEGACY else LEGACY[0]
        self._legacy = Host(version, hello.capabilities, is_modern=False)
        yield from ()
        return {
            "protocolVersion": version,
            "capabilities": self._capabilities,
            "serverInfo": _SERVER,
            "instructions": self._instructions,
        }

    def _discover(self, host: Host, params: Raw) -> Steps:
        yield from ()
        return {
            "supportedVersions": [MODERN],
            "capabilities": self._capabilities,
            "instructions": self._instructions,
            "ttlMs": 3_600_000,
            "cacheScope": "public",
        }

    def _run(self) -> None:
        while self._ready:
            request, answer = self._ready.popleft()
            if request.id in self._requests:
                self._step(request, answer)

    def _step(self, request: _Request, answer: Answer | HaftError | None) -> None:
        try:
            if isinstance(answer, HaftError):
                step = request.steps.throw(answer)
            else:
                step = next(request.steps) if answer is None else request.steps.send(Raw(answer))
        except StopIteration as end:
            self._forget(request)
            if request.id != _STREAM:
                self._reply(request, end.value)
        except (Fault, HaftError, msgspec.MsgspecError) as fault:
            # msgspec: a daemon of another version replies in another form.
            self._forget(request)
            if request.id != _STREAM:
                error = fault if isinstance(fault, Fault) else Fault(INTERNAL, str(fault))
                self._refuse(request.id, error)
        else:
            self._ask(request, step)

    def _forget(self, request: _Request) -> None:
        del self._requests[request.id]
        self._notifications.pop(request, None)

    def hear(self, method: str, params: Raw) -> None:
        """Queue a notification for each request that awaits one."""
        notification = Raw(msgspec.json.encode([method, params]))
        for request, queue in self._notifications.items():
            queue.append(notification)
            if request.is_listening:
                request.is_listening = False
                self._ready.append((request, queue.popleft()))

    def _ask(self, request: _Request, step: Step) -> None:
        if isinstance(step, NotifyHost):
            self._notify(step.method, step.params)
            self._ready.append((request, Raw(b"null")))
            return
        if isinstance(step, AwaitNotification):
            queue = self._notifications.setdefault(request, deque())
            if queue:
                self._ready.append((request, queue.popleft()))
            else:
                request.is_listening = True
            return
        if isinstance(step, CallHost):
            self._last_asked += 1
            number = request.host_number = f"{self._name}.{self._last_asked}"
            self._host_requests[number] = request
            request.on_late = step.on_late
            request.host_due = None if step.timeout_s is None else self._now + step.timeout_s
            self.to_host += encode(
                {"jsonrpc": "2.0", "id": number, "method": step.method, "params": step.params}
            )
            return
        try:
            if self._daemon is None:
                self._daemon = self._connect()
            request.daemon_number = self._daemon.request(step.method, step.params)
        except HaftError as fault:
            self._ready.append((request, fault))
            return
        self._daemon_requests[request.daemon_number] = request

    def _drop(self, request: _Request) -> None:
        """End a request without a reply: the wait, never the handle."""
        self._forget(request)
        request.steps.close()
        if request.daemon_number is not None and self._daemon is not None:
            self._daemon_requests.pop(request.daemon_number, None)
            self._daemon.forget(request.daemon_number)
        if request.host_number is not None:
            del self._host_requests[request.host_number]
            self._notify(CANCELLED, {"requestId": request.host_number})

    def _reply(self, request: _Request, result: dict[str, Any]) -> None:
        if request.host.is_modern:
            meta = {**result.get("_meta", {}), **_META}
            result = {"resultType": "complete", **result, "_meta": meta}
        self.to_host += encode({"jsonrpc": "2.0", "id": request.id, "result": result})

    def _refuse(self, id: Id | None, fault: Fault) -> None:
        error: dict[str, Any] = {"code": fault.code, "message": fault.message}
        if fault.data is not None:
            error["data"] = fault.data
        self.to_host += encode({"jsonrpc": "2.0", "id": id, "error": error})

    def _notify(self, method: str, params: dict[str, Any]) -> None:
        self.to_host += encode({"jsonrpc": "2.0", "method": method, "params": params})


def _ping(host: Host, params: Raw) -> Steps:
    yield from ()
    return {}


class _OnlyId(msgspec.Struct):
    id: int | str | None = None


def _id_of(line: bytes) -> Id | None:
    try:
        return msgspec.json.decode(line, type=_OnlyId).id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
