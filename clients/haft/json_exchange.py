"""The client's messages as bytes, by the standard library alone: for short commands."""

from __future__ import annotations

import json

from .errors import ProtocolFault
from .exchange import Exchange, not_unicode, remote_error

TYPE_CHECKING = False  # `typing` takes 3 ms
if TYPE_CHECKING:
    from typing import Any


class JsonExchange(Exchange):
    """Requests and replies of one connection, without requests and notifications of the daemon."""

    def _line(self, message: object) -> bytes:
        return encode(message) + b"\n"

    def _decoded(self, result: bytes) -> Any:
        return json.loads(result)

    def _read(self, line: bytes, arrived: list[int]) -> None:
        try:
            decoded = json.loads(line)
            for message in decoded if isinstance(decoded, list) else [decoded]:
                self._sort(message, arrived)
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as fault:
            raise ProtocolFault("the server at the socket does not speak JSON-RPC") from fault

    def _sort(self, message: Any, arrived: list[int]) -> None:
        number = message.get("id")
        if "method" in message:
            if "id" in message:
                method = message["method"]
                self.refuse(number, -32601, f"This client does not serve {method!r}.")
        elif (error := message.get("error")) is not None:
            text, code = error.get("message", ""), error["code"]
            if not isinstance(code, int) or not isinstance(text, str):
                raise TypeError("an error must have a numeric code and a string message")
            self._keep(number, remote_error(code, text, error.get("data")), arrived)
        else:
            self._keep(number, encode(message.get("result")), arrived)


def encode(value: object) -> bytes:
    """Encode a JSON value as the daemon does; raise `NotUnicode`."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError as fault:
        raise not_unicode(value) from fault
