"""Bytes of keys, mouse and paste, encoded by the library in the terminal's modes."""

from __future__ import annotations

from typing import Any

from haft_protocol.inputs import Mouse
from haftd.runtimes.base import InputRefused
from haftd.runtimes.keys import KeyPress

CELL = (8, 16)
"""Width and height of a cell in pixels, as reported to the process."""

_MARKERS = ("\x1b[200~", "\x1b[201~")
_KEYS = {
    "Enter": "ENTER",
    "Tab": "TAB",
    "BTab": "TAB",
    "BSpace": "BACKSPACE",
    "Space": "SPACE",
    "Escape": "ESCAPE",
    "Up": "ARROW_UP",
    "Down": "ARROW_DOWN",
    "Left": "ARROW_LEFT",
    "Right": "ARROW_RIGHT",
    "Home": "HOME",
    "End": "END",
    "PPage": "PAGE_UP",
    "NPage": "PAGE_DOWN",
    "IC": "INSERT",
    "DC": "DELETE",
    "KPEnter": "NUMPAD_ENTER",
    "KP+": "NUMPAD_ADD",
    "KP-": "NUMPAD_SUBTRACT",
    "KP*": "NUMPAD_MULTIPLY",
    "KP/": "NUMPAD_DIVIDE",
    "KP.": "NUMPAD_DECIMAL",
    **{f"KP{n}": f"NUMPAD_{n}" for n in range(10)},
    **{f"F{n}": f"F{n}" for n in range(1, 21)},
}
_ONLY_SHIFTED = b"\x1b[27;2;"
"""modifyOtherKeys with shift alone: xterm sends the character."""

_TEXT_OF = {"Space": " ", **{f"KP{sign}": sign for sign in "0123456789+-*/."}}
_BUTTONS = {"left": "LEFT", "middle": "MIDDLE", "right": "RIGHT"}
_WHEEL = {"scroll_up": "FOUR", "scroll_down": "FIVE"}
_MODS = {"shift": 1, "ctrl": 2, "meta": 4}
_ACTIONS = {"release": "RELEASE", "move": "MOTION"}


class KeyEncoder:
    """The library's key encoder and event, freed with this object."""

    __slots__ = ("_core", "_encoder", "_event", "_out", "_size")

    def __init__(self, core: Any) -> None:
        self._core = core
        self._encoder = _owned(core, "GhosttyKeyEncoder", "key_encoder")
        self._event = _owned(core, "GhosttyKeyEvent", "key_event")
        self._out, self._size = core.ffi.new("char[128]"), core.ffi.new("size_t*")

    def encode(self, terminal: Any | None, press: KeyPress, *, protocol: bool = True) -> bytes:
        """Encode a key by the modes of `terminal`, if any, without the keyboard protocol unless
        `protocol`; empty for a key never reported. Raises `InputRefused`."""
        lib, ffi, event = self._core.lib, self._core.ffi, self._event
        yes, no = ffi.new("bool*", True), ffi.new("bool*", False)
        if terminal is not None:
            lib.ghostty_key_encoder_setopt_from_terminal(self._encoder, terminal)
        else:
            option = lib.GHOSTTY_KEY_ENCODER_OPT_ALT_ESC_PREFIX
            lib.ghostty_key_encoder_setopt(self._encoder, option, yes)
        if not protocol:
            option = lib.GHOSTTY_KEY_ENCODER_OPT_KITTY_FLAGS
            lib.ghostty_key_encoder_setopt(self._encoder, option, ffi.new("uint8_t*", 0))
            option = lib.GHOSTTY_KEY_ENCODER_OPT_MODIFY_OTHER_KEYS_STATE_2
            lib.ghostty_key_encoder_setopt(self._encoder, option, no)
        option = lib.GHOSTTY_KEY_ENCODER_OPT_IGNORE_KEYPAD_WITH_NUMLOCK
        lib.ghostty_key_encoder_setopt(self._encoder, option, no)
        text = press.char or _TEXT_OF.get(press.name, "")
        if press.char:
            key, shift = _key_of(lib, press.char), press.shift or press.char.isupper()
        else:
            key = getattr(lib, "GHOSTTY_KEY_" + _KEYS[press.name])
            shift = press.shift or press.name == "BTab"
        lib.ghostty_key_event_set_action(event, lib.GHOSTTY_KEY_ACTION_PRESS)
        lib.ghostty_key_event_set_key(event, key)
        lib.ghostty_key_event_set_mods(event, shift | press.ctrl << 1 | press.meta << 2)
        lib.ghostty_key_event_set_consumed_mods(event, int(shift and bool(press.char)))
        # The event borrows the text until the encoding call.
        utf8 = ffi.new("char[]", text.encode() or b"\0")
        lib.ghostty_key_event_set_utf8(event, utf8, len(text.encode()))
        small = text.lower() if len(text.lower()) == 1 else text
        lib.ghostty_key_event_set_unshifted_codepoint(event, ord(small) if text else 0)
        status = lib.ghostty_key_encoder_encode(self._encoder, event, self._out, 128, self._size)
        _check(self._core, status, "key")
        data = bytes(ffi.buffer(self._out, self._size[0]))
        if press.char and data.startswith(_ONLY_SHIFTED):
            return press.char.encode()
        return data


class MouseEncoder:
    """The library's mouse encoder and event, freed with this object."""

    __slots__ = ("_core", "_encoder", "_event", "_out", "_size")

    def __init__(self, core: Any) -> None:
        self._core = core
        self._encoder = _owned(core, "GhosttyMouseEncoder", "mouse_encoder")
        self._event = _owned(core, "GhosttyMouseEvent", "mouse_event")
        self._out, self._size = core.ffi.new("char[128]"), core.ffi.new("size_t*")

    def encode(self, terminal: Any, rows: int, cols: int, mouse: Mouse) -> tuple[bytes, ...]:
        """Encode a mouse action, one part a report. Raises `InputRefused`."""
        lib = self._core.lib
        size = self._core.init_sized("GhosttyMouseEncoderSize")
        size.cell_width, size.cell_height = CELL
        size.screen_width, size.screen_height = cols * CELL[0], rows * CELL[1]
        lib.ghostty_mouse_encoder_setopt_from_terminal(self._encoder, terminal)
        lib.ghostty_mouse_encoder_setopt(self._encoder, lib.GHOSTTY_MOUSE_ENCODER_OPT_SIZE, size)
        actions = ("press", "release") if mouse.action == "click" else (mouse.action,)
        reports = tuple(self._report(mouse, action) for action in actions)
        return tuple(report for report in reports if report)

    def _report(self, mouse: Mouse, action: str) -> bytes:
        lib, ffi, event = self._core.lib, self._core.ffi, self._event
        name = _WHEEL.get(action) or (mouse.button and _BUTTONS[mouse.button])
        if name is None and action != "move":
            name = "LEFT"
        if name is None:
            lib.ghostty_mouse_event_clear_button(event)
        else:
            lib.ghostty_mouse_event_set_button(event, getattr(lib, "GHOSTTY_MOUSE_BUTTON_" + name))
        which = getattr(lib, "GHOSTTY_MOUSE_ACTION_" + _ACTIONS.get(action, "PRESS"))
        lib.ghostty_mouse_event_set_action(event, which)
        lib.ghostty_mouse_event_set_mods(event, sum(_MODS[mod] for mod in mouse.mods))
        # The cell's middle.
        x, y = (
            (place + 0.5) * side for place, side in zip((mouse.col, mouse.row), CELL, strict=True)
        )
        lib.ghostty_mouse_event_set_position(event, {"x": x, "y": y})
        status = lib.ghostty_mouse_encoder_encode(self._encoder, event, self._out, 128, self._size)
        _check(self._core, status, "mouse action")
        return bytes(ffi.buffer(self._out, self._size[0]))


def encode_paste(core: Any, text: str, bracketed: bool) -> bytes:
    """Encode a paste, without paste codes and control characters that would end it or act as keys.
    Raises `InputRefused`."""
    for marker in _MARKERS:
        while marker in text:
            text = text.replace(marker, "")
    data = text.encode()
    room = len(data) + 64
    out, size = core.ffi.new("char[]", room), core.ffi.new("size_t*")
    buffer = core.ffi.new("char[]", data)
    status = core.lib.ghostty_paste_encode(buffer, len(data), bracketed, out, room, size)
    _check(core, status, "paste")
    return bytes(core.ffi.buffer(out, size[0]))


def _owned(core: Any, kind: str, name: str) -> Any:
    pointer = core.ffi.new(kind + "*")
    core.check(getattr(core.lib, f"ghostty_{name}_new")(core.ffi.NULL, pointer), f"{name}_new")
    return core.ffi.gc(pointer[0], getattr(core.lib, f"ghostty_{name}_free"))


def _check(core: Any, status: int, action: str) -> None:
    try:
        core.check(status, action)
    except core.GhosttyError:
        raise InputRefused(f"The terminal cannot encode this {action}; give it as text.") from None


def _key_of(lib: Any, char: str) -> int:
    """Return the library's key; other alphabets' capitals may have two characters, or be ASCII."""
    if char.isascii() and char.isalpha():
        return int(getattr(lib, f"GHOSTTY_KEY_{char.upper()}"))
    if char.isascii() and char.isdigit():
        return int(getattr(lib, f"GHOSTTY_KEY_DIGIT_{char}"))
    return int(lib.GHOSTTY_KEY_UNIDENTIFIED)
