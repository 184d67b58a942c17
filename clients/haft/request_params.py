"""Params that a client adds to its requests, and the time that params allow for the reply."""

from __future__ import annotations

from haft_protocol.constants import PROTOCOL

from . import __version__

TYPE_CHECKING = False  # `typing` takes 3 ms
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import TypeVar

    _T = TypeVar("_T")

_DEFAULT_WAIT_S = 10.0
_READING = frozenset({"spawn", "fetch", "apply"})
_ROOTED = frozenset({"spawn", "tools/call", "tools/list", "tools/describe", "tools/reload"})


def hello(
    name: str, session: str | None, *, read_only: bool = False, **capabilities: bool
) -> dict[str, object]:
    params: dict[str, object] = {
        "client": {"name": name, "version": __version__},
        "protocol": PROTOCOL,
    }
    if session is not None:
        params["session"] = session
    if capabilities:
        params["capabilities"] = capabilities
    if read_only:
        params["read_only"] = True
    return params


def with_defaults(
    method: str, params: Mapping[str, object], session: str | None, root: str | None
) -> dict[str, object]:
    """Add the client's session, and the root where a tool may start, unless the call names others.

    Even after a refused `initialize` the call stays in its session.
    """
    full = dict(params)
    if session is not None:
        full.setdefault("session", session)
    if root is not None and method in _ROOTED:
        full.setdefault("root", root)
    return full


def params_timeout(method: str, params: Mapping[str, object]) -> float | None:
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


def batch_timeout(calls: Iterable[tuple[str, Mapping[str, object]]]) -> float | None:
    """Return the slowest call's time; None if unlimited."""
    bounds = [params_timeout(method, params) for method, params in calls]
    return None if None in bounds else max((b for b in bounds if b is not None), default=0.0)


def _seconds(value: object, scale: float, default: _T) -> float | _T:
    return value / scale if isinstance(value, int | float) else default
