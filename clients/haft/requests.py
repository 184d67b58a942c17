"""Typed requests of both clients.

The daemon alone validates, so an error has one wording.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypedDict

import msgspec
from msgspec import UNSET, Raw

from haft_protocol.methods import METHODS, HandleInfo, HandlesListResult, View, Wait

from .errors import ProtocolFault

_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {}


class Common(TypedDict, total=False):
    """Params of every method, to replace the connection's session and root."""

    session: str
    root: str


class Reading(Common, total=False):
    """Params of a read: its condition, timeout and view; see docs/protocol.md, "Waiting" and
    "Reading output"."""

    wait: Wait
    timeout_ms: int
    quiet_ms: int
    pattern: str
    view: View
    max_bytes: int


def drop_unset(**fields: object) -> dict[str, object]:
    return {k: v for k, v in fields.items() if v is not None and v is not UNSET}


def decode(method: str, result: Raw | bytes) -> Any:
    """Decode a result as the protocol types it, or as plain JSON for an unknown method."""
    decoder = _DECODERS.get(method)
    if decoder is None:
        spec = METHODS.get(method)
        # A union of forms stays undecoded.
        has_one_form = spec is not None and not isinstance(spec.result, tuple)
        decoder = msgspec.json.Decoder(spec.result if spec is not None and has_one_form else Any)
        _DECODERS[method] = decoder
    try:
        return decoder.decode(result)
    except msgspec.MsgspecError as fault:
        raise ProtocolFault(f"the reply to `{method}` is invalid: {fault}") from fault


def handle_infos(listed: HandlesListResult) -> tuple[HandleInfo, ...]:
    """Type the listed handles: on the wire a state's fields are beside the handle's."""
    try:
        return tuple(
            msgspec.convert({**entry, "state": {"content": "", **entry}}, HandleInfo)
            for entry in listed.handles
        )
    except msgspec.ValidationError as fault:
        raise ProtocolFault(f"the reply to `handles/list` is invalid: {fault}") from fault


def ids(names: Iterable[str]) -> tuple[str, ...]:
    """Return the ids; reject a lone string, which would be split into letters."""
    if isinstance(names, str):
        raise TypeError("give a list of ids, not one string")
    return tuple(names)
