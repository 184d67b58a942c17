"""Key names as in tmux (`a`, `Enter`, `F5`, `C-x` or `^x`, `M-x`, `S-Up`), and the terminal's bytes
for them.

Only keys that every terminal sends alike in its initial state are encoded here. A keyboard protocol
is used on request only: another program would take its codes for text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from haftd.lazy_pattern import lazy_pattern

from .base import InputRefused


class KeyPress(msgspec.Struct, frozen=True):
    """A named key or a character."""

    name: str = ""
    """As in `_NAMES`; empty for a character."""
    char: str = ""
    ctrl: bool = False
    meta: bool = False
    shift: bool = False


_ALIASES: dict[str, tuple[str, ...]] = {
    "Enter": ("Return", "CR"),
    "Tab": (),
    "BTab": (),
    "BSpace": ("Backspace",),
    "Space": (),
    "Escape": ("Esc",),
    "Up": (),
    "Down": (),
    "Left": (),
    "Right": (),
    "Home": (),
    "End": (),
    "PPage": ("PageUp", "PgUp"),
    "NPage": ("PageDown", "PgDn"),
    "IC": ("Insert",),
    "DC": ("Delete",),
    "KPEnter": (),
    **{f"F{n}": () for n in range(1, 21)},
    **{f"KP{sign}": () for sign in "0123456789+-*/."},
}
_NAMES: dict[str, str] = {
    spelling.lower(): name for name, others in _ALIASES.items() for spelling in (name, *others)
}
_PLAIN: dict[str, bytes] = {
    "Enter": b"\r",
    "Tab": b"\t",
    "BTab": b"\x1b[Z",
    "BSpace": b"\x7f",
    "Space": b" ",
    "Escape": b"\x1b",
}
_SHOWN = "C-c, M-x, S-Tab, Enter, Escape, Tab, BSpace, Space, Up, Home, PPage, DC, F1 to F20"
_MAX_SHOWN = 40
_OF_A_PROTOCOL = lazy_pattern(rb"\x1b\[(?:\d+;\d+u|27;\d+;\d+~)")
_F3 = lazy_pattern(rb"\x1b\[13;(\d)~")


def _refuse(name: str) -> InputRefused:
    shown = ascii(name if len(name) <= _MAX_SHOWN else name[:_MAX_SHOWN] + "…")
    return InputRefused(
        f"{shown} is not the name of a key. A key is a single character or a name such as in {_SHOWN}; to type text, give it as a string or as a line.",
        malformed=True,
        quoted=shown,
    )


def read_key(name: str) -> KeyPress:
    """Parse a key name; raises `InputRefused`."""
    rest = name
    modifiers = set()
    while len(rest) > 1:
        if len(rest) > 2 and rest[1] == "-" and rest[0] in "CcMmSs":
            modifiers.add(rest[0].upper())
            rest = rest[2:]
        elif rest[0] == "^":
            modifiers.add("C")
            rest = rest[1:]
        else:
            break
    ctrl, meta, shift = ("C" in modifiers, "M" in modifiers, "S" in modifiers)
    if len(rest) == 1:
        if rest == " ":
            return KeyPress("Space", "", ctrl, meta, shift)
        if not rest.isprintable():
            raise _refuse(name)
        if shift and rest.isalpha():
            capital = rest.upper()
            # Some capitals have two characters (ß).
            rest, shift = (capital if len(capital) == 1 else rest), False
        return KeyPress("", rest, ctrl, meta, shift)
    named = _NAMES.get(rest.lower())
    if named is None:
        raise _refuse(name)
    if named == "Tab" and shift:
        named, shift = "BTab", False
    return KeyPress(named, "", ctrl, meta, shift)


def _control(char: str) -> bytes | None:
    if char == "?":
        return b"\x7f"
    if char in "/-":
        return b"\x1f"
    if not char.isascii():
        return None  # also with an ASCII capital, as the dotless i
    code = ord(char.upper())
    return bytes((code & 0x1F,)) if 0x40 <= code <= 0x5F else None


def _plain(press: KeyPress) -> bytes | None:
    data: bytes | None
    if press.char:
        data = _control(press.char) if press.ctrl else press.char.encode()
    elif press.name == "Space" and press.ctrl:
        data = b"\0"
    elif press.name == "BSpace" and press.ctrl:
        data = b"\b"
    else:
        # Control and shift do not change Enter, Tab and Escape here.
        data = _PLAIN.get(press.name)
    if data is None:
        return None
    return b"\x1b" + data if press.meta else data


def _common(name: str, press: KeyPress, data: bytes) -> bytes:
    """Correct the encoder's `data` where terminals differ. Raises `InputRefused`."""
    if _OF_A_PROTOCOL.fullmatch(data):
        raise InputRefused(
            f"A terminal has a code for the key {name!a} only with a keyboard protocol, which the "
            "program has not turned on; choose another key.",
            quoted=ascii(name),
        )
    if press.meta and press.name.startswith("KP") and not data.startswith(b"\x1b"):
        return b"\x1b" + data
    # As in terminfo for the tools' TERM.
    modified = _F3.fullmatch(data) if press.name == "F3" else None
    return b"\x1b[1;" + modified[1] + b"R" if modified else data


def are_plain(names: Sequence[str]) -> bool:
    """True if no name needs an encoder; raises `InputRefused`."""
    return all(_plain(read_key(name)) is not None for name in names)


def encode(
    names: Sequence[str], protocol: bool, swapped: bool, encoder: Callable[[KeyPress], bytes]
) -> tuple[bytes, ...]:
    """Encode `names`; raises `InputRefused` before the first. `protocol`: `encoder` encodes every
    key; `swapped`: the backspace key sends its other code."""
    presses = [read_key(name) for name in names]
    if not presses:
        raise InputRefused(
            "There is no key in `keys`; give at least one name, as in " + _SHOWN + ".",
            malformed=True,
        )
    encoded = []
    for name, press in zip(names, presses, strict=True):
        asked = protocol or (swapped and press.name == "BSpace")
        data = None if asked else _plain(press)
        if data is None:
            data = encoder(press) if protocol else _common(name, press, encoder(press))
        if not data:
            raise InputRefused(
                f"A terminal has no code for the key {name!a}; choose another.",
                quoted=ascii(name),
            )
        encoded.append(data)
    return tuple(encoded)


def on_pipe(name: str) -> bytes | str:
    """Return the effect of a key on a pipe: bytes, a signal's name, or `eof`. Raises `InputRefused`."""
    press = read_key(name)
    if press.ctrl and not press.meta:
        meaning = {"c": "INT", "\\": "QUIT", "z": "TSTP", "d": "eof"}.get(press.char.lower())
        if meaning is not None:
            return meaning
    if not press.ctrl and not press.meta:
        if press.char:
            return press.char.encode()
        if press.name in ("Enter", "KPEnter"):
            return b"\n"
        if press.name in ("Tab", "Space", "Escape"):
            return _PLAIN[press.name]
    raise InputRefused(
        f"The key {name!a} needs a terminal and this handle is on a pipe; start it with "
        "`terminal` true, or use text, C-c for an interrupt, C-d for the end of input.",
        quoted=ascii(name),
    )
