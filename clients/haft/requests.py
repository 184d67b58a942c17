"""Typed requests of both clients: params, results and time limits.

The daemon alone validates, so an error has one wording.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict, TypeVar

import msgspec
from msgspec import UNSET, Raw

from haft_protocol.methods import METHODS, HandleInfo, HandlesListResult, View, Wait
from haft_protocol.sessions import PROTOCOL

from . import __version__
from .errors import ProtocolFault

_T = TypeVar("_T")

_DEFAULT_WAIT_S = 10.0
_READING = frozenset({"spawn", "fetch", "apply"})
_ROOTED = frozenset({"spawn", "tools/call", "tools/list", "tools/describe", "tools/reload"})
_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {}


class Common(TypedDict, total=False):
    """Params of every method: another session than the connection's, another root."""

    session: str
    root: str


class Reading(Common, total=False):
    """Params of a read: its condition, timeout and view; see docs/protocol.md, "Waiting"
    and "Reading output"."""

    wait: Wait
    timeout_ms: int
    quiet_ms: int
    pattern: str
    view: View
    max_bytes: int


def drop_unset(**fields: object) -> dict[str, object]:
    """Keep the fields that are neither None nor unset."""
    return {k: v for k, v in fields.items() if v is not None and v is not UNSET}


def hello(
    name: str, session: str | None, *, read_only: bool = False, **capabilities: bool
) -> dict[str, object]:
    return {
        "client": {"name": name, "version": __version__},
        "protocol": PROTOCOL,
        **drop_unset(
            session=session, capabilities=capabilities or None, read_only=read_only or None
        ),
    }


def with_defaults(
    method: str, params: Mapping[str, object], session: str | None, root: str | None
) -> dict[str, object]:
    """Add the client's session, and its root where a tool may start, unless the call names others.

    After a refused `initialize`, a call without the session would fall into another session.
    """
    full = dict(params)
    if session is not None:
        full.setdefault("session", session)
    if root is not None and method in _ROOTED:
        full.setdefault("root", root)
    return full


def decode(method: str, result: Raw) -> Any:
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
        raise ProtocolFault(f"the reply to `{method}` is not what it should be: {fault}") from fault


def handle_infos(listed: HandlesListResult) -> tuple[HandleInfo, ...]:
    """Type the listed handles: on the wire a state's fields stand beside the others."""
    try:
        return tuple(
            msgspec.convert({**entry, "state": {"content": "", **entry}}, HandleInfo)
            for entry in listed.handles
        )
    except msgspec.ValidationError as fault:
        raise ProtocolFault(
            f"the reply to `handles/list` is not what it should be: {fault}"
        ) from fault


def own_bound(method: str, params: Mapping[str, object]) -> float | None:
    """Return the seconds that the request's params allow; None if unlimited."""
    if method in _READING:
        return _seconds(params.get("timeout_ms"), 1000.0, _DEFAULT_WAIT_S)
    if method == "abort":
        return _seconds(params.get("grace_ms"), 1000.0, 60.0)
    if method == "tools/call":
        return None
    if method == "inquiries/ask":
        return _seconds(params.get("timeout_s"), 1.0, None)
    if method == "await":
        return _seconds(params.get("timeout_secs"), 1.0, None)
    if method == "turn/end":
        # Once for the question about running handles, once for the wait.
        return 2 * _seconds(params.get("timeout_ms"), 1000.0, 60.0)
    if method in ("session/close", "daemon/shutdown"):
        return 60.0
    return 0.0


def batch_bound(calls: Iterable[tuple[str, Mapping[str, object]]]) -> float | None:
    """Return the bound of a batch's one answer: that of its slowest call."""
    bounds = [own_bound(method, params) for method, params in calls]
    return None if None in bounds else max((b for b in bounds if b is not None), default=0.0)


def _seconds(value: object, scale: float, default: _T) -> float | _T:
    return value / scale if isinstance(value, int | float) else default


def ids(names: Iterable[str]) -> tuple[str, ...]:
    """Return the ids; reject a lone string, which would be split into letters."""
    if isinstance(names, str):
        raise TypeError("give a list of ids, not one string")
    return tuple(names)
