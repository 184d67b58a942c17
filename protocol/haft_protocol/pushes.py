"""Pushes: notifications to a subscribed client (docs/protocol.md, "Subscriptions").

`handle/state` is the handle state object, `session/notification` the notice, each with
`subscription`.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from .params import Id, Offset, Params, Reader, SessionOrAll
from .states import Screen

__all__ = [
    "APPROVAL_CLOSED",
    "APPROVAL_OPENED",
    "BYTES",
    "FORGOTTEN",
    "INQUIRY_CLOSED",
    "INQUIRY_OPENED",
    "NOTIFICATION",
    "OUTPUT",
    "SCREEN",
    "STATE",
    "TOOLS",
    "ApprovalClosed",
    "InquiryClosed",
    "PushEvent",
    "PushedBytes",
    "PushedForgotten",
    "PushedOutput",
    "PushedScreen",
    "PushedTools",
    "SubscribeParams",
    "SubscribeResult",
    "UnsubscribeParams",
]

PushEvent = Literal[
    "state", "output", "bytes", "screen", "inquiries", "approvals", "notification", "tools"
]

STATE = "handle/state"
OUTPUT = "handle/output"
BYTES = "handle/bytes"
SCREEN = "handle/screen"
FORGOTTEN = "handle/forgotten"
INQUIRY_OPENED = "inquiry/opened"
INQUIRY_CLOSED = "inquiry/closed"
APPROVAL_OPENED = "approval/opened"
APPROVAL_CLOSED = "approval/closed"
NOTIFICATION = "session/notification"
TOOLS = "tools/changed"


class PushedOutput(msgspec.Struct, frozen=True, omit_defaults=True):
    """New output as text: the bytes from offset `start`, the previous push's `cursor`, to `cursor`.

    A slow reader misses `omitted` bytes; a fetch from the cursor `omitted_from` returns them.
    """

    subscription: str
    id: str
    generation: int
    start: int
    cursor: int
    data: str
    omitted: int = 0
    omitted_from: int = 0
    session: str | UnsetType = UNSET


class PushedBytes(msgspec.Struct, frozen=True, omit_defaults=True):
    """New output in base64: the bytes from offset `start`, the previous push's `cursor`, to `cursor`.

    With `for` = `terminal` `data` may be shorter, as queries are left out. A slow reader misses
    `omitted` bytes. `stderr` has the spans of offsets that are standard error, from a pipe of its
    own.
    """

    subscription: str
    id: str
    generation: int
    start: int
    cursor: int
    data: str
    omitted: int = 0
    omitted_from: int = 0
    session: str | UnsetType = UNSET
    stderr: tuple[tuple[int, int], ...] | UnsetType = UNSET


class PushedScreen(msgspec.Struct, frozen=True, omit_defaults=True):
    """A terminal's screen: `lines` at first and after a resize, then the rows `changed` since the
    previous push."""

    subscription: str
    id: str
    generation: int
    screen: Screen
    session: str | UnsetType = UNSET


class PushedForgotten(msgspec.Struct, frozen=True):
    """The daemon has forgotten a handle. A later `generation` of the id stays."""

    subscription: str
    session: str
    id: str
    generation: int


class InquiryClosed(msgspec.Struct, frozen=True, omit_defaults=True):
    """A question is answered, failed or withdrawn. `question` distinguishes the questions of one call."""

    subscription: str
    session: str
    inquiry_id: str
    question: str | UnsetType = UNSET


class ApprovalClosed(msgspec.Struct, frozen=True):
    """An action was decided, expired or withdrawn."""

    subscription: str
    session: str
    approval_id: str


class PushedTools(msgspec.Struct, frozen=True):
    """The definitions, or the trust in a root, have changed."""

    subscription: str


class SubscribeParams(Params, frozen=True, kw_only=True):
    """Subscribe to `handles`, by default to all present and future handles of the session, or of all
    sessions with `*`.

    `from` maps ids to offsets of the first output sent, also of stopped handles: a client that
    reconnects passes the last `cursor` of each and misses nothing. `for` and `clipboard` shape the
    event `bytes` like the view `raw` of `fetch`. With `backpressure` the processes of the named
    `handles` wait for this reader of `bytes`.
    """

    session: SessionOrAll | UnsetType = UNSET
    events: Annotated[tuple[PushEvent, ...], Meta(min_length=1, max_length=16)]
    handles: Annotated[tuple[Id, ...], Meta(min_length=1, max_length=4096)] | UnsetType = UNSET
    from_: Annotated[dict[Id, Offset], Meta(max_length=4096)] = field(
        name="from", default_factory=dict
    )
    for_: Reader | UnsetType = field(name="for", default=UNSET)
    clipboard: bool = False
    backpressure: bool = False


class SubscribeResult(msgspec.Struct, frozen=True):
    """The subscription's name, in each notification."""

    subscription: str


class UnsubscribeParams(Params, frozen=True, kw_only=True):
    """End a subscription of this connection."""

    subscription: Annotated[str, Meta(max_length=64)]
