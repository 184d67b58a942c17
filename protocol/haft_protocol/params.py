"""Params of every method, frozen, without unknown fields; bounds are in the types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

__all__ = [
    "ID_FORM",
    "Arguments",
    "ArgumentsOrText",
    "Empty",
    "Id",
    "MaxBytes",
    "Milliseconds",
    "Offset",
    "Params",
    "Reader",
    "Root",
    "SessionOrAll",
]

ID_FORM = "[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}"

Id = Annotated[
    str,
    Meta(
        pattern=rf"^{ID_FORM}\Z",
        description="a name of 1 to 64 letters, digits or `_.:-` that begins with a letter or digit",
    ),
]
"""The name of a handle or a session."""

Root = Annotated[
    str,
    Meta(
        pattern=r"^/[^\x00]*\Z",
        max_length=4096,
        description="the absolute path of a folder, at most 4,096 characters",
    ),
]

Milliseconds = Annotated[int, Meta(ge=0, le=86_400_000)]

MaxBytes = Annotated[int, Meta(ge=0, le=268_435_456)]

Offset = Annotated[int, Meta(ge=0)]

Reader = Literal["terminal"]
"""`terminal`: an emulator, which would answer queries."""


if TYPE_CHECKING:
    Arguments = dict[str, Any]
    ArgumentsOrText = dict[str, Any]
else:
    # A text on the wire is decoded by `__post_init__`.
    Arguments = dict[str, Any] | None
    ArgumentsOrText = dict[str, Any] | str | None


class Params(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Params common to all methods. `session` defaults to the session of `initialize` on this connection,
    else `default`."""

    session: Id | UnsetType = UNSET
    root: Root | UnsetType = UNSET


class Empty(Params, frozen=True, kw_only=True):
    """Params of a method that has no further ones."""


SessionOrAll = Annotated[
    str,
    Meta(
        pattern=rf"^(\*|{ID_FORM})\Z",
        description="the name of a session, or `*` for all",
    ),
]
