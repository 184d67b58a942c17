"""Reader of JSON-RPC 2.0 messages: requests, responses and faults (docs/protocol.md, "Requests").

One typed decode per message; `params` and `id` stay as received (`msgspec.Raw`). Only `read_params`
and `read_reply` raise.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from .errors import RpcError, invalid_params, invalid_request, limit_exceeded, parse_error
from .json_text import ValueCount, measure_depth

__all__ = [
    "BadReply",
    "Batch",
    "Invalid",
    "Message",
    "ParseFault",
    "Request",
    "Response",
    "Single",
    "read_message",
    "read_params",
    "read_reply",
]

_T = TypeVar("_T")

NULL = b"null"
_MAX_ID_BYTES = 256
_MAX_INT_DIGITS = 20
_OPENINGS = (b"{", b"[")


class Request(msgspec.Struct, frozen=True, gc=False):
    """A request, or a notification where `id` is None; `id` is JSON as received."""

    method: str
    params: Raw | None
    id: bytes | None


class Response(msgspec.Struct, frozen=True, gc=False):
    """A peer's response. `id`, `result` and `error` are JSON as received."""

    id: bytes
    result: bytes | None = None
    error: bytes | None = None


class Invalid(msgspec.Struct, frozen=True):
    """Element that is not a request and gets `error`; `id` is null where unusable."""

    error: RpcError
    id: bytes


Element = Request | Response | Invalid


class Single(msgspec.Struct, frozen=True):
    """Message that is one object."""

    item: Element


class Batch(msgspec.Struct, frozen=True):
    """Message that is a list of at least one element."""

    items: tuple[Element, ...]


class ParseFault(msgspec.Struct, frozen=True):
    """Message that gets one error as a whole, with the id null."""

    error: RpcError


Message = Single | Batch | ParseFault


class _Envelope(msgspec.Struct, gc=False):
    jsonrpc: str | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    id: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class _LooseEnvelope(msgspec.Struct, gc=False):
    jsonrpc: Raw | UnsetType = UNSET
    method: Raw | UnsetType = UNSET
    id: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_envelope = msgspec.json.Decoder(_Envelope).decode
_loose_envelope = msgspec.json.Decoder(_LooseEnvelope).decode
_anything = msgspec.json.Decoder(Raw).decode
_text = msgspec.json.Decoder(str).decode


def read_message(
    message: bytes,
    *,
    max_batch: int,
    max_nesting: int,
    max_values: int = 0,
    value_count: ValueCount | None = None,
) -> Message:
    """Read one message; never raises. Nesting counts from the request object, which is 1.

    More than `max_values` in the `value_count` of a long message are refused undecoded.

    >>> read_message(b'{"jsonrpc":"2.0","id":1,"method":"ping"}', max_batch=16, max_nesting=64)
    Single(item=Request(method='ping', params=None, id=b'1'))
    """
    if not message.isascii():
        # msgspec checks no undecoded part, not even for UTF-8.
        try:
            str(message, "utf-8")
        except UnicodeDecodeError as fault:
            return ParseFault(parse_error(f"byte {fault.start} is not UTF-8"))
    opening = message[:1]
    if opening not in _OPENINGS:
        message = message.lstrip(b" \t\r\n")
        opening = message[:1]
    try:
        if opening == b"{":
            if value_count is None:
                return Single(_read_element(message, max_nesting))
            if value_count.values > max_values:
                return Single(_refuse_values(_read_element(message, max_nesting, b""), max_values))
            return Single(_read_element(message, max_nesting, value_count.brackets))
        if opening == b"[":
            if value_count is not None and value_count.values > max_values:
                return ParseFault(_too_many(max_values))
            return _read_batch(message, max_batch, max_nesting)
        _anything(message)
    except msgspec.DecodeError as fault:
        return ParseFault(_malformed(fault, message))
    except RecursionError:
        return ParseFault(
            parse_error(f"it is nested too deeply: the limit `max_nesting` is {max_nesting}")
        )
    except MemoryError:
        return ParseFault(parse_error("it needs more memory than there is"))
    return ParseFault(invalid_request("a message is an object, or an array of objects"))


def _malformed(fault: msgspec.DecodeError, message: bytes) -> RpcError:
    from .validation_messages import explain_malformed  # rarely needed

    return parse_error(explain_malformed(str(fault), message))


@lru_cache(maxsize=8)
def _batch_decoder(max_batch: int) -> msgspec.json.Decoder[Any]:
    # An array-like struct refuses the first excess element; a list would take up to 4 million from
    # 8 MiB.
    fields = [(f"m{n}", Raw | UnsetType, UNSET) for n in range(max_batch)]
    kind = msgspec.defstruct(
        "_Batch", fields, array_like=True, forbid_unknown_fields=True, gc=False
    )
    return msgspec.json.Decoder(kind)


def _read_batch(message: bytes, max_batch: int, max_nesting: int) -> Message:
    try:
        batch = _batch_decoder(max_batch).decode(message)
    except msgspec.ValidationError:
        return ParseFault(
            limit_exceeded("max_batch", max_batch, "The batch has too many requests; none was run")
        )
    elements: list[Element] = []
    for raw in msgspec.structs.astuple(batch):
        if raw is UNSET:
            break
        element = bytes(raw)
        if element.startswith(b"{"):
            elements.append(_read_element(element, max_nesting))
        else:
            elements.append(
                Invalid(invalid_request("each element of a batch must be an object"), NULL)
            )
    if not elements:
        return ParseFault(invalid_request("the batch is empty"))
    return Batch(tuple(elements))


def _read_element(message: bytes, max_nesting: int, brackets: bytes | None = None) -> Element:
    try:
        envelope = _envelope(message)
    except msgspec.ValidationError:
        return _refuse(_loose_envelope(message))
    raw = envelope.id
    if raw is UNSET:
        id_ = None
    else:
        id_ = bytes(raw)
        if not (id_.isdigit() and len(id_) <= _MAX_INT_DIGITS) and not _is_usable_id(id_):
            id_ = NULL
            if envelope.method is not UNSET:
                return Invalid(invalid_request(_ID_RULE), NULL)
    method = envelope.method
    if method is UNSET:
        if envelope.result is UNSET and envelope.error is UNSET:
            return Invalid(invalid_request("it has no `method`"), NULL if id_ is None else id_)
        return _response(id_ or NULL, envelope.result, envelope.error)
    if envelope.jsonrpc != "2.0":
        return Invalid(invalid_request(_VERSION_RULE), NULL if id_ is None else id_)
    # Two cheap bounds: a level takes two bytes, and an opening bracket.
    structure = message if brackets is None else brackets
    if (
        len(structure) > 2 * max_nesting
        and structure.count(b"{") + structure.count(b"[") > max_nesting
        and measure_depth(structure) > max_nesting
    ):
        return Invalid(_too_deep(max_nesting), NULL if id_ is None else id_)
    params = envelope.params
    return Request(method, None if params is UNSET else params, id_)


_ID_RULE = (
    "`id` is an integer of at most 20 digits, a string of at most 256 bytes, or null "
    "(left out for a notification)"
)
_VERSION_RULE = '`jsonrpc` must be "2.0"'


def _is_usable_id(id_: bytes) -> bool:
    """True if JSON `id_` is an integer (not a float), a string, or null."""
    if id_.startswith(b'"'):
        if len(id_) - 2 <= _MAX_ID_BYTES:
            return True
        return len(id_) <= 6 * _MAX_ID_BYTES + 2 and len(_text(id_).encode()) <= _MAX_ID_BYTES
    if id_ == NULL:
        return True
    digits = id_.removeprefix(b"-")
    return digits.isdigit() and len(digits) <= _MAX_INT_DIGITS


def _refuse(loose: _LooseEnvelope) -> Element:
    """Return the fault of an object with a `method` or `jsonrpc` that is not a string."""
    id_ = NULL if loose.id is UNSET else bytes(loose.id)
    if not _is_usable_id(id_):
        id_ = NULL
    if loose.method is UNSET:
        if loose.result is not UNSET or loose.error is not UNSET:
            return _response(id_, loose.result, loose.error)
        return Invalid(invalid_request("it has no `method`"), id_)
    if not bytes(loose.method).startswith(b'"'):
        return Invalid(invalid_request("`method` must be a string"), id_)
    return Invalid(invalid_request(_VERSION_RULE), id_)


def _response(id_: bytes, result: Raw | UnsetType, error: Raw | UnsetType) -> Response:
    # A raw part would keep the whole message alive.
    return Response(
        id_,
        None if result is UNSET else bytes(result),
        None if error is UNSET else bytes(error),
    )


def _too_many(max_values: int) -> RpcError:
    return limit_exceeded(
        "max_values", max_values, "The message has too many names and values; put them into a file"
    )


def _refuse_values(item: Element, max_values: int) -> Element:
    match item:
        case Request(id=id_):
            return Invalid(_too_many(max_values), id_ or NULL)
        case Response(id=id_):
            error = _too_many(max_values)
            body = {"code": error.code, "message": error.message}
            return Response(id_, error=msgspec.json.encode(body))
    return item


def _too_deep(max_nesting: int) -> RpcError:
    return limit_exceeded("max_nesting", max_nesting, "The message is nested too deeply")


_decoders: dict[Any, Any] = {}
_ABSENT = re.compile(rb"null|\[[ \t\r\n]*\]")
"""Forms of absent params."""


def read_params(raw: Raw | None, kind: type[_T], method: str = "") -> _T:
    """Decode params into `kind`; raise `RpcError` with the field and the expected form.

    `null` and an empty list stand for no params. A number beyond a 64-bit float or 4,300 digits is
    a parse error.
    """
    decode = _decoders.get(kind)
    if decode is None:
        decode = _decoders[kind] = msgspec.json.Decoder(kind).decode
    try:
        return decode(b"{}" if raw is None else raw)
    except msgspec.ValidationError as fault:
        problem = str(fault)
        if raw is not None and _ABSENT.fullmatch(bytes(raw)):
            return read_params(None, kind, method)
    except msgspec.DecodeError as fault:
        raise _malformed(fault, b"" if raw is None else bytes(raw)) from None
    except (RecursionError, MemoryError):
        raise invalid_params("they are nested too deeply or too large") from None
    from .validation_messages import explain_params  # rarely needed

    raise explain_params(problem, b"{}" if raw is None else bytes(raw), kind, method)


class _Error(msgspec.Struct):
    code: int
    message: str = ""
    data: Any = None


_error = msgspec.json.Decoder(_Error).decode


class BadReply(Exception):
    """Malformed response; the argument is the reason."""


def read_reply(response: Response, *, max_nesting: int) -> Any:
    """Return a response's result; raise the peer's `RpcError`, or `BadReply`."""
    result, error = response.result, response.error
    if result is not None and error is not None:
        raise BadReply("it has both a `result` and an `error`")
    body = result if error is None else error
    if body is None or measure_depth(body) > max_nesting:
        raise BadReply(f"it is nested deeper than {max_nesting}")
    try:
        if error is None:
            return msgspec.json.decode(body)
        fault_body = _error(body)
    except (msgspec.MsgspecError, RecursionError, MemoryError, UnicodeDecodeError) as fault:
        raise BadReply(str(fault) or type(fault).__name__) from None
    raise RpcError.received(
        fault_body.code,
        fault_body.message,
        fault_body.data if isinstance(fault_body.data, dict) else {},
    )
