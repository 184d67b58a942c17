"""The client's messages as bytes, with the types of the protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from .errors import ProtocolFault
from .exchange import Exchange, Id, not_unicode, remote_error


class _Error(msgspec.Struct):
    code: int
    message: str = ""
    data: Any = None


class _Message(msgspec.Struct):
    id: int | str | UnsetType | None = UNSET
    result: Raw | UnsetType = UNSET
    error: _Error | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET


_MESSAGE = msgspec.json.Decoder(_Message)
_BATCH = msgspec.json.Decoder(list[_Message])
_ENCODER = msgspec.json.Encoder()


class Conversation(Exchange):
    """Requests and replies of one connection. `hear` is called with each notification of the daemon."""

    def __init__(self, hear: Callable[[str, Raw], None] | None = None) -> None:
        super().__init__()
        self.hear = hear
        self.take_request: Callable[[Id, str, Raw], bool] | None = None
        """Called with each request of the daemon; returns False without a handler."""

    def _line(self, message: object) -> bytes:
        try:
            return _ENCODER.encode(message) + b"\n"
        except UnicodeEncodeError as fault:
            raise not_unicode(msgspec.to_builtins(message)) from fault

    def _decoded(self, result: bytes) -> Any:
        return msgspec.json.decode(result)

    def _read(self, line: bytes, arrived: list[int]) -> None:
        try:
            messages = _BATCH.decode(line) if line.startswith(b"[") else [_MESSAGE.decode(line)]
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as fault:
            raise ProtocolFault("the server at the socket does not speak JSON-RPC") from fault
        for message in messages:
            self._sort(message, arrived)

    def _sort(self, message: _Message, arrived: list[int]) -> None:
        if not isinstance(message.method, UnsetType):
            params = Raw(b"{}") if isinstance(message.params, UnsetType) else message.params.copy()
            if isinstance(message.id, UnsetType):
                if self.hear is not None:
                    self.hear(message.method, params)
            elif self.take_request is None or not self.take_request(
                message.id, message.method, params
            ):
                self.refuse(message.id, -32601, f"This client does not serve {message.method!r}.")
            return
        id = None if isinstance(message.id, UnsetType) else message.id
        if not isinstance(message.error, UnsetType):
            error = message.error
            self._keep(id, remote_error(error.code, error.message, error.data), arrived)
        elif isinstance(message.result, UnsetType):
            self._keep(id, Raw(b"null"), arrived)
        else:
            self._keep(id, message.result, arrived)
