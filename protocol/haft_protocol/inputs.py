"""The `input` of apply for a running tool: its forms, read and checked.

Rules: one kind an input, nothing coerced, nothing unknown passed over; what was typed is in no
`repr`. What a runtime can do with an input is not known here. Section 4.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from .errors import RpcError, invalid_params, shown

__all__ = ["SIGNALS", "InputForm", "InputKind", "Mouse", "MouseAction", "read_input"]

InputKind = Literal["text", "line", "keys", "paste", "mouse", "eof", "signal", "resize"]
MouseAction = Literal["click", "press", "release", "move", "scroll_up", "scroll_down"]

# fmt: off
SIGNALS = frozenset({
    "ABRT", "ALRM", "CONT", "HUP", "INT", "KILL", "PIPE", "QUIT", "STOP", "TERM", "TRAP", "TSTP",
    "TTIN", "TTOU", "USR1", "USR2", "WINCH",
})
# fmt: on
"""What `signal` takes, without SIG."""

_MOST_KEYS = 1024
_LONGEST_KEY = 64
_MOST_ROWS = 1000
_MOST_COLS = 2000

_FORMS = (
    "a text (written as it is), or an object with one of `line`, `keys`, `paste`, `mouse`, `eof`, "
    "`signal`, `resize` or `text`, and `secret` beside it if it is one"
)


class Mouse(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One use of the mouse; rows and columns count from 0. A `click` is a press and a release; a
    `move` with a `button` drags."""

    row: Annotated[int, msgspec.Meta(ge=0, lt=_MOST_ROWS)]
    col: Annotated[int, msgspec.Meta(ge=0, lt=_MOST_COLS)]
    action: MouseAction
    button: Literal["left", "middle", "right"] | None = None
    mods: tuple[Literal["shift", "ctrl", "meta"], ...] = ()

    def __post_init__(self) -> None:
        if len(set(self.mods)) < len(self.mods):
            raise ValueError("`mods` names each of its keys once")
        if self.button is not None and self.action.startswith("scroll"):
            raise ValueError("a scroll has no button")


class InputForm(msgspec.Struct, frozen=True, kw_only=True):
    """One input, checked in form; only what belongs to its `kind` is set."""

    kind: InputKind
    text: str = ""
    keys: tuple[str, ...] = ()
    signal: str = ""
    rows: int = 0
    cols: int = 0
    mouse: Mouse | None = None
    secret: bool = False

    def __repr__(self) -> str:
        return f"InputForm(kind={self.kind!r}, secret={self.secret})"


def read_input(form: object) -> InputForm:
    """Read an input in any of its forms; raises `RpcError` (invalid_params) that says what it takes."""
    if isinstance(form, str):
        return InputForm(kind="text", text=form)
    if not isinstance(form, dict):
        raise _wrong(f"it is {_FORMS}")
    kinds = [key for key in form if key != "secret"]
    unknown = [key for key in kinds if key not in _READERS]
    if unknown:
        raise _wrong(f"unknown field {shown(unknown[0])}; it is {_FORMS}")
    if len(kinds) != 1:
        raise _wrong(f"it has {' and '.join(kinds) or 'no kind'}; it is {_FORMS}")
    secret = form.get("secret", False)
    if not isinstance(secret, bool):
        raise _wrong("`secret` is true or false")
    return _READERS[kinds[0]](form[kinds[0]], secret)


def _wrong(why: str) -> RpcError:
    return invalid_params(f"`input`: {why}", field="input")


def _text(kind: Literal["text", "line", "paste"], value: object, secret: bool) -> InputForm:
    if not isinstance(value, str):
        raise _wrong(f"`{kind}` is a text")
    return InputForm(kind=kind, text=value, secret=secret)


def _line(value: object, secret: bool) -> InputForm:
    """A line end at its end is the one that is written anyway."""
    if isinstance(value, str) and value.endswith("\n"):
        value = value[:-1].removesuffix("\r")
    return _text("line", value, secret)


def _keys(value: object, secret: bool) -> InputForm:
    if not isinstance(value, list) or not value:
        raise _wrong('`keys` is a list of key names, such as ["C-c", "Up", "Enter"]')
    if len(value) > _MOST_KEYS:
        raise _wrong(f"`keys` has at most {_MOST_KEYS} names; use `paste` for a text")
    for key in value:
        if not isinstance(key, str) or not 0 < len(key) <= _LONGEST_KEY:
            raise _wrong(f"each of `keys` is a key name of 1 to {_LONGEST_KEY} characters")
    return InputForm(kind="keys", keys=tuple(value), secret=secret)


def _mouse(value: object, secret: bool) -> InputForm:
    try:
        mouse = msgspec.convert(value, Mouse)
    except msgspec.ValidationError as wrong:
        raise _wrong(
            '`mouse` is {"row": n, "col": n, "action": "click" | "press" | "release" | "move" | '
            '"scroll_up" | "scroll_down"}, with "button": "left" | "middle" | "right" and "mods": '
            f'["shift", "ctrl", "meta"] beside them; {str(wrong)[:200]}'
        ) from None
    return InputForm(kind="mouse", mouse=mouse, secret=secret)


def _eof(value: object, secret: bool) -> InputForm:
    if value is not True:
        raise _wrong("`eof` is true")
    return InputForm(kind="eof", secret=secret)


def _signal(value: object, secret: bool) -> InputForm:
    name = value.upper().removeprefix("SIG") if isinstance(value, str) else ""
    if name not in SIGNALS:
        raise _wrong(f"`signal` is one of {', '.join(sorted(SIGNALS))}")
    return InputForm(kind="signal", signal=name, secret=secret)


def _resize(value: object, secret: bool) -> InputForm:
    if not isinstance(value, dict) or value.keys() != {"rows", "cols"}:
        raise _wrong('`resize` is {"rows": n, "cols": n}')
    for key, most in (("rows", _MOST_ROWS), ("cols", _MOST_COLS)):
        number = value[key]
        if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= most:
            raise _wrong(f"`resize.{key}` is an integer from 1 to {most}")
    return InputForm(kind="resize", rows=value["rows"], cols=value["cols"], secret=secret)


_READERS = {
    "text": lambda value, secret: _text("text", value, secret),
    "line": _line,
    "paste": lambda value, secret: _text("paste", value, secret),
    "keys": _keys,
    "mouse": _mouse,
    "eof": _eof,
    "signal": _signal,
    "resize": _resize,
}
