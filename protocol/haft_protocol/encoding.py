"""Encoder of replies, and of requests of the daemon.

A value without a JSON form is mended: a client must get a reply.
"""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO
from secrets import token_hex

import msgspec

from .errors import RpcError
from .states import as_text

__all__ = [
    "EncodedText",
    "encode_error",
    "encode_long_reply",
    "encode_reply",
    "encode_request",
    "encode_text",
    "is_long",
]

_MARK = token_hex(16)
"""Stands for a long text; no text contains it."""

_PIECE = 262_144
"""Characters encoded in one call, which takes a millisecond."""

_encode = msgspec.json.Encoder(enc_hook=as_text).encode


def _encode_any(value: object) -> bytes:
    try:
        return _encode(value)
    except UnicodeEncodeError:
        # A file name that is not UTF-8 has surrogates.
        return _encode(_mend(msgspec.to_builtins(value, enc_hook=as_text)))


def _mend(value: object) -> object:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode() if not value.isascii() else value
        case dict():
            return {_mend(key): _mend(item) for key, item in value.items()}
        case list() | tuple():
            return [_mend(item) for item in value]
        case _:
            return value


class EncodedText(str):
    """Long text in JSON already, without quotes; empty as a `str`. Only a long reply may have it.

    >>> encode_text(["two ", "parts\\n"]).encoded
    b'two parts\\\\n'
    """

    __slots__ = ("encoded",)

    def __new__(cls, encoded: bytes) -> EncodedText:
        text = super().__new__(cls)
        text.encoded = encoded
        return text

    encoded: bytes


def encode_text(parts: Iterable[str]) -> EncodedText:
    """Encode a text, in pieces, so that other threads run between."""
    # Not joined: pieces kept until then take as much memory as the text.
    encoded = BytesIO()
    for part in parts:
        for at in range(0, len(part), _PIECE):
            encoded.write(memoryview(_encode_any(part[at : at + _PIECE]))[1:-1])
    return EncodedText(encoded.getvalue())


def encode_reply(id_: bytes, result: object) -> bytes:
    # A join takes half the time of `%`.
    return b"".join((b'{"jsonrpc":"2.0","id":', id_, b',"result":', _encode_any(result), b"}"))


def is_long(result: object) -> bool:
    """True for a text that takes milliseconds to encode."""
    if isinstance(result, msgspec.Struct):
        for value in msgspec.structs.astuple(result):
            if isinstance(value, str) and _is_long(value):
                return True
    return False


def _is_long(text: str) -> bool:
    return len(text) > _PIECE or type(text) is EncodedText


def encode_long_reply(id_: bytes, result: object) -> list[bytes]:
    """Encode a success reply, a struct, so that other threads run between; return its parts."""
    if not isinstance(result, msgspec.Struct):
        raise AssertionError(f"a long reply with a {type(result).__name__}, not a struct")
    texts = _long_texts(result)
    marks = dict.fromkeys(texts, _MARK)
    rest = encode_reply(id_, msgspec.structs.replace(result, **marks))
    # Fields, and so texts, are encoded in order.
    before, *others = rest.split(_MARK.encode())
    reply = [before]
    for text, after in zip(texts.values(), others, strict=True):
        encoded = text if isinstance(text, EncodedText) else encode_text((text,))
        reply += (encoded.encoded, after)
    return reply


def _long_texts(result: msgspec.Struct) -> dict[str, str]:
    values = zip(result.__struct_fields__, msgspec.structs.astuple(result), strict=True)
    return {name: text for name, text in values if isinstance(text, str) and _is_long(text)}


def encode_error(id_: bytes, error: RpcError) -> bytes:
    """Encode an error reply; `id_` is the request's id in JSON, or `null`."""
    body = {"code": error.code, "message": error.message, "data": error.data}
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (id_, _encode_any(body))


def encode_request(id_: str | None, method: str, params: object) -> bytes:
    """Encode a request, or a notification if `id_` is None."""
    number = b"" if id_ is None else b'"id":%b,' % _encode(id_)
    return b'{"jsonrpc":"2.0",%b"method":%b,"params":%b}' % (
        number,
        _encode(method),
        _encode_any(params),
    )
