"""The scheme of a tunnel, from the first bytes of the client.

>>> find_kind(b"\\x16\\x03\\x01\\x02"), find_kind(b"GET / HTTP/1.1"), find_kind(b"SSH-2.0-x"), find_kind(b"GE")
('tls', 'http', 'other', None)
"""

from __future__ import annotations

from typing import Final, Literal

from haftd.host_calls.addresses import is_public
from haftd.lazy_pattern import lazy_pattern
from haftd.tools.definitions.access import AccessPolicy

Kind = Literal["tls", "http", "other"]
KINDS: Final[tuple[Kind, ...]] = ("tls", "http", "other")
SCHEMES: Final[dict[Kind, tuple[str | None, ...]]] = {
    "tls": ("https", "wss"),
    "http": ("http", "ws"),
    "other": (None,),
}
_METHOD = lazy_pattern(rb"[A-Z]{1,20} ")
_UNDECIDED = lazy_pattern(rb"\x16|[A-Z]{0,20}")


def find_kind(data: bytes) -> Kind | None:
    """Return the kind; None while more bytes may decide."""
    if _UNDECIDED.fullmatch(data):
        return None
    if data[:2] == b"\x16\x03":
        return "tls"
    return "http" if _METHOD.match(data) else "other"


def find_permitted_kinds(
    policy: AccessPolicy, host: str, address: str, port: int
) -> frozenset[Kind]:
    """Return the kinds of bytes that the rules permit to this address."""
    public = is_public(address)
    return frozenset(
        kind
        for kind in KINDS
        if policy.may_carry(host, address, port, SCHEMES[kind], is_public=public)
    )
