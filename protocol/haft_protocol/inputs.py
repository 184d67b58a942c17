"""Forms of `input` for a running tool (docs/protocol.md, "Input").

One kind per input, nothing coerced, unknown fields refused. Typed text is in no `repr`.
"""

from __future__ import annotations

import binascii
from typing import Annotated, Literal

import msgspec

from .ellipsis import shorten
from .errors import RpcError, invalid_params, shown

__all__ = ["SIGNALS", "Input", "InputKind", "Mouse", "MouseAction", "read_input"]

InputKind = Literal["text", "bytes", "line", "keys", "paste", "mouse", "eof", "signal", "resize"]
MouseAction = Literal["click", "press", "release", "move", "scroll_up", "scroll_down"]

# fmt: off
SIGNALS = frozenset({
    "ABRT", "ALRM", "CONT", "HUP", "INT", "KILL", "PIPE", "QUIT", "STOP", "TERM", "TRAP", "TSTP",
    "TTIN", "TTOU", "USR1", "USR2", "WINCH",
})
# fmt: on
"""Names for `signal`, without SIG."""

_MAX_KEYS = 1024
_MAX_KEY_CHARS = 64
_MAX_ROWS = 1000
_MAX_COLS = 2000

_FORMS = (
    "a string (written as it is), or an object with one of `line`, `keys`, `paste`, `mouse`, `eof`, "
    "`signal`, `resize`, `bytes` or `text`, and `secret` beside it if it is one"
)


class Mouse(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One mouse action; rows and columns count from 0. `click`: press and release; `move` with a
    `button`: drag."""

    row: Annotated[int, msgspec.Meta(ge=0, lt=_MAX_ROWS)]
    col: Annotated[int, msgspec.Meta(ge=0, lt=_MAX_COLS)]
    action: MouseAction
    button: Literal["left", "middle", "right"] | None = None
    mods: tuple[Literal["shift", "ctrl", "meta"], ...] = ()

    def __post_init__(self) -> None:
        if len(set(self.mods)) < len(self.mods):
            raise ValueError("`mods` must name each key once")
        if self.button is not None and self.action.startswith("scroll"):
            raise ValueError("a scroll has no button")


class Input(msgspec.Struct, frozen=True):
    """One valid input; only the fields of its `kind` are set. Typed input may also have `rows`
    and `cols`, the size that the terminal gets just before the input."""

    kind: InputKind
    text: str = ""
    keys: tuple[str, ...] = ()
    signal: str = ""
    rows: int = 0
    cols: int = 0
    mouse: Mouse | None = None
    secret: bool = False
    data: bytes = b""

    def __repr__(self) -> str:
        return f"Input(kind={self.kind!r}, secret={self.secret})"


def read_input(form: object) -> Input:
    """Read an input; raise `RpcError` (invalid_params) that lists the forms."""
    if isinstance(form, str):
        return Input(kind="text", text=form)
    if not isinstance(form, dict):
        raise _invalid(f"it is {_FORMS}")
    kinds = [key for key in form if key != "secret"]
    unknown = [key for key in kinds if key not in _READERS]
    if unknown:
        raise _invalid(f"unknown field {shown(unknown[0])}; it must be {_FORMS}")
    if len(kinds) != 1:
        raise _invalid(f"it has {' and '.join(kinds) or 'no kind'}; it must be {_FORMS}")
    secret = form.get("secret", False)
    if not isinstance(secret, bool):
        raise _invalid("`secret` must be true or false")
    return _READERS[kinds[0]](form[kinds[0]], secret)


def _invalid(why: str) -> RpcError:
    return invalid_params(f"`input`: {why}", field="input")


def _text(kind: Literal["text", "line", "paste"], value: object, secret: bool) -> Input:
    if not isinstance(value, str):
        raise _invalid(f"`{kind}` is a string")
    return Input(kind=kind, text=value, secret=secret)


def _bytes(value: object, secret: bool) -> Input:
    try:
        data = binascii.a2b_base64(value, strict_mode=True) if isinstance(value, str) else None
    except ValueError:
        data = None
    if data is None:
        raise _invalid("`bytes` must be base64, and is for a program on a pipe")
    return Input(kind="bytes", data=data, secret=secret)


def _line(value: object, secret: bool) -> Input:
    """Read a line without its line end, which is written anyway."""
    if isinstance(value, str) and value.endswith("\n"):
        value = value[:-1].removesuffix("\r")
    return _text("line", value, secret)


def _keys(value: object, secret: bool) -> Input:
    if not isinstance(value, list) or not value:
        raise _invalid('`keys` is an array of key names, such as ["C-c", "Up", "Enter"]')
    if len(value) > _MAX_KEYS:
        raise _invalid(f"`keys` must have at most {_MAX_KEYS} names; use `paste` for a longer text")
    for key in value:
        if not isinstance(key, str) or not 0 < len(key) <= _MAX_KEY_CHARS:
            raise _invalid(f"each of `keys` must be a key name of 1 to {_MAX_KEY_CHARS} characters")
    return Input(kind="keys", keys=tuple(value), secret=secret)


def _mouse(value: object, secret: bool) -> Input:
    try:
        mouse = msgspec.convert(value, Mouse)
    except msgspec.ValidationError as wrong:
        raise _invalid(
            '`mouse` must be {"row": n, "col": n, "action": "click" | "press" | "release" | "move" | '
            '"scroll_up" | "scroll_down"}, with "button": "left" | "middle" | "right" and "mods": '
            f'["shift", "ctrl", "meta"] beside them; {shorten(str(wrong), 200)}'
        ) from None
    return Input(kind="mouse", mouse=mouse, secret=secret)


def _eof(value: object, secret: bool) -> Input:
    if value is not True:
        raise _invalid("`eof` is true")
    return Input(kind="eof", secret=secret)


def _signal(value: object, secret: bool) -> Input:
    name = value.upper().removeprefix("SIG") if isinstance(value, str) else ""
    if name not in SIGNALS:
        raise _invalid(f"`signal` must be one of {', '.join(sorted(SIGNALS))}")
    return Input(kind="signal", signal=name, secret=secret)


def _resize(value: object, secret: bool) -> Input:
    if not isinstance(value, dict) or value.keys() != {"rows", "cols"}:
        raise _invalid('`resize` must be {"rows": n, "cols": n}')
    for key, most in (("rows", _MAX_ROWS), ("cols", _MAX_COLS)):
        number = value[key]
        if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= most:
            raise _invalid(f"`resize.{key}` must be an integer from 1 to {most}")
    return Input(kind="resize", rows=value["rows"], cols=value["cols"], secret=secret)


_READERS = {
    "text": lambda value, secret: _text("text", value, secret),
    "bytes": _bytes,
    "line": _line,
    "paste": lambda value, secret: _text("paste", value, secret),
    "keys": _keys,
    "mouse": _mouse,
    "eof": _eof,
    "signal": _signal,
    "resize": _resize,
}
