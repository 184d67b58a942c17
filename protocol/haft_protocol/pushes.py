"""What a subscriber is sent: notifications of the daemon's, each with the subscription that it is for.

Rules: values only, frozen. `handle/state` is the handle state object and `session/notification` the
notice, each with `subscription` beside its fields. Section 7, "Push".
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from .params import Id, Params
from .states import Screen

__all__ = [
    "NOTIFICATION",
    "OUTPUT",
    "SCREEN",
    "STATE",
    "PushEvent",
    "PushedOutput",
    "PushedScreen",
    "SubscribeParams",
    "SubscribeResult",
    "UnsubscribeParams",
]

PushEvent = Literal["state", "output", "screen", "notification"]

STATE = "handle/state"
OUTPUT = "handle/output"
SCREEN = "handle/screen"
NOTIFICATION = "session/notification"


class PushedOutput(msgspec.Struct, frozen=True, omit_defaults=True):
    """New output as text, `cursor` the offset after it. Where some was left out before it, for a
    reader that is behind, `omitted` counts the bytes and `omitted_from` is the cursor that re-reads
    them."""

    subscription: str
    id: str
    generation: int
    cursor: int
    data: str
    omitted: int = 0
    omitted_from: int = 0


class PushedScreen(msgspec.Struct, frozen=True):
    """A terminal's screen: `lines` at first and after a resize, then the rows that have `changed`
    since this subscription was last sent it."""

    subscription: str
    id: str
    generation: int
    screen: Screen


class SubscribeParams(Params, frozen=True, kw_only=True):
    """Be told what happens, by notifications. Without `handles`, ids in the session, it is of all that
    live and all that are started later."""

    events: Annotated[tuple[PushEvent, ...], Meta(min_length=1, max_length=16)]
    handles: Annotated[tuple[Id, ...], Meta(min_length=1, max_length=4096)] | UnsetType = UNSET


class SubscribeResult(msgspec.Struct, frozen=True):
    """The subscription's name; every notification that is for it carries it."""

    subscription: str


class UnsubscribeParams(Params, frozen=True, kw_only=True):
    """End a subscription of this connection."""

    subscription: Annotated[str, Meta(max_length=64)]
