"""The typed requests, once for both clients: what is sent, what comes back, how long that may take.

Rules: no I/O; what the caller did not say is not sent; nothing is checked here that the daemon
checks, so that an error has one wording.
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
    """What every method takes: another session than the connection's, another root."""

    session: str
    root: str


class Reading(Common, total=False):
    """When a call may answer, for how long at most, and what it shows. Section 4."""

    wait: Wait
    timeout_ms: int
    quiet_ms: int
    pattern: str
    view: View
    max_bytes: int


def given(**fields: object) -> dict[str, object]:
    """Keep the fields that were given: neither None nor unset."""
    return {k: v for k, v in fields.items() if v is not None and v is not UNSET}


def hello(name: str, session: str | None, **capabilities: bool) -> dict[str, object]:
    """The params of `initialize` for a client of this name, with what it can be asked."""
    return {
        "client": {"name": name, "version": __version__},
        "protocol": PROTOCOL,
        **given(session=session, capabilities=capabilities or None),
    }


def with_defaults(
    method: str, params: Mapping[str, object], session: str | None, root: str | None
) -> dict[str, object]:
    """Add the client's session, and its root where a tool may start, unless the call names others.

    The session goes with each call, not only with `initialize`: there a wrong name is refused, and
    the calls behind it would fall into another session.
    """
    full = dict(params)
    if session is not None:
        full.setdefault("session", session)
    if root is not None and method in _ROOTED:
        full.setdefault("root", root)
    return full


def decode(method: str, result: Raw) -> Any:
    """Decode a result as the protocol types it; that of a method it does not know as plain JSON."""
    decoder = _DECODERS.get(method)
    if decoder is None:
        known = METHODS.get(method)
        # One of several forms is handed on as it is.
        is_one = known is not None and not isinstance(known.result, tuple)
        decoder = msgspec.json.Decoder(known.result if known is not None and is_one else Any)
        _DECODERS[method] = decoder
    try:
        return decoder.decode(result)
    except msgspec.MsgspecError as fault:
        raise ProtocolFault(f"the reply to `{method}` is not what it should be: {fault}") from fault


def handle_infos(listed: HandlesListResult) -> tuple[HandleInfo, ...]:
    """Give the listed handles their types: on the wire the state's fields stand beside the rest,
    and the output is not read."""
    try:
        return tuple(
            msgspec.convert({**one, "state": {"content": "", **one}}, HandleInfo)
            for one in listed.handles
        )
    except msgspec.ValidationError as fault:
        raise ProtocolFault(
            f"the reply to `handles/list` is not what it should be: {fault}"
        ) from fault


def own_bound(method: str, params: Mapping[str, object]) -> float | None:
    """Seconds that the request may take because of what it asks for; None: as long as it likes."""
    if method in _READING:
        return _seconds(params.get("timeout_ms"), 1000.0, _DEFAULT_WAIT_S)
    if method == "abort":
        return _seconds(params.get("grace_ms"), 1000.0, 60.0)
    if method == "tools/call":
        return None
    if method == "await":
        return _seconds(params.get("timeout_secs"), 1.0, None)
    if method == "turn/end":
        # For the question of what becomes of what runs, and again for what is waited for.
        return 2 * _seconds(params.get("timeout_ms"), 1000.0, 60.0)
    if method in ("session/close", "daemon/shutdown"):
        return 60.0
    return 0.0


def batch_bound(calls: Iterable[tuple[str, Mapping[str, object]]]) -> float | None:
    """The same for a batch: it answers as a whole, so each call may take as long as the slowest."""
    bounds = [own_bound(method, params) for method, params in calls]
    return None if None in bounds else max((b for b in bounds if b is not None), default=0.0)


def _seconds(value: object, scale: float, default: _T) -> float | _T:
    return value / scale if isinstance(value, int | float) else default


def ids(names: Iterable[str]) -> tuple[str, ...]:
    """A list of ids; one string alone is a mistake that would be taken apart letter by letter."""
    if isinstance(names, str):
        raise TypeError("give a list of ids, not one string")
    return tuple(names)
