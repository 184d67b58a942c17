r"""Keys typed while attached: text for the process, or commands to haft.

The input comes in chunks that may split a sequence or a character. The prefix is C-\ or the chosen
key, in each form that a terminal sends: the control character, and the codes of the keyboard
protocols that the process may have enabled. Text in a bracketed paste is always text. Only the
beginning of a sequence that may be a key is buffered, never an Escape alone.
"""

from __future__ import annotations

import codecs
import re
import sys
from enum import Enum


class Command(Enum):
    """Command to haft."""

    DETACH = "detach"
    HELP = "help"
    NOT_TEXT = "not text"
    """Bytes that are not UTF-8 were left out: the protocol carries text."""


Event = str | Command

_PASTE_BEGIN, _PASTE_END = b"\x1b[200~", b"\x1b[201~"

# The two forms of a key with modifiers: CSI code:shifted:base ; modifiers:event ; text u of the
# kitty protocol, and CSI 27 ; modifiers ; code ~ of xterm (modifyOtherKeys).
_KEY = re.compile(
    rb"\x1b\[(?:(?P<code>\d{1,7})(?::(?P<shifted>\d{0,7}))?(?::(?P<base>\d{0,7}))?"
    rb"(?:;(?P<mods>\d{0,7})(?::(?P<event>\d))?)?(?:;[\d:]{0,60})?u"
    rb"|27;(?P<other_mods>\d{1,7});(?P<other_code>\d{1,7})~)"
)
_UNFINISHED = re.compile(rb"\x1b\[\d[\d;:]{0,60}\Z")
_UNDECODED_BYTES = re.compile("[\udc80-\udcff]")

_SHIFT, _CTRL = 1, 4
_LOCKS = 64 | 128
_RELEASE, _REPEAT = b"3", b"2"
_MODIFIER_KEYS = range(57_441, 57_455)
_LOCK_KEYS = range(57_358, 57_361)


_CHOICES = "abcdefghijklmnopqrstuvwxyz\\]^_"
_TAKEN = "him[j"
"""With Ctrl, these are Backspace, Tab, Enter, Escape and the line feed."""


def prefix_key(name: str) -> str | None:
    """Return the key of a prefix such as `C-a` or `C-]`; None for an invalid or taken one."""
    key = name[2:].lower()
    is_valid = name[:2] in ("C-", "c-") and len(key) == 1 and key in _CHOICES and key not in _TAKEN
    return key if is_valid else None


class Keyboard:
    def __init__(self, prefix: str = "\\") -> None:
        """Take the key that, with Ctrl, precedes a command; see `prefix_key`."""
        self._key = ord(prefix)
        self._control = bytes([self._key & 0x1F])
        self._key_or_paste = re.compile(re.escape(self._control) + rb"|\x1b\[200~|" + _KEY.pattern)
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._held = b""
        self._prefix = b""
        """Bytes of a pressed prefix, passed on unless the next key makes it a command."""
        self._pasting = False
        self._for_program = bytearray()
        self._events: list[Event] = []

    def feed(self, data: bytes) -> list[Event]:
        """Parse typed bytes; return texts and commands in order. Bytes after `DETACH` are dropped."""
        data, self._held = self._held + data, b""
        self._events = []
        at = 0
        while at < len(data):
            if self._pasting:
                at = self._read_paste(data, at)
            elif self._prefix:
                at = self._read_after_prefix(data, at)
            else:
                at = self._read_plain(data, at)
            if self._events and self._events[-1] is Command.DETACH:
                break
        self._emit_text()
        return self._events

    def _read_plain(self, data: bytes, at: int) -> int:
        match = self._key_or_paste.search(data, at)
        if match is None:
            return self._pass_rest(data, at, _UNFINISHED.search(data, at))
        self._for_program += data[at : match.start()]
        if match[0] == _PASTE_BEGIN:
            self._pasting = True
            self._for_program += _PASTE_BEGIN
        elif match[0] == self._control or self._is_prefix(match):
            self._prefix = match[0]
        else:
            self._for_program += match[0]
        return match.end()

    def _read_after_prefix(self, data: bytes, at: int) -> int:
        match = _KEY.match(data, at)
        if match is None:
            if _UNFINISHED.match(data, at):
                self._held = data[at:]
                return len(data)
            self._end_prefix(data[at : at + 1], chr(data[at]))
            return at + 1
        if _is_silent(match):
            # The release of the prefix or of a modifier is passed on with the prefix, or dropped
            # with it.
            self._prefix += match[0]
        else:
            is_prefix = self._is_prefix(match)
            self._end_prefix(match[0], chr(self._control[0]) if is_prefix else _character(match))
        return match.end()

    def _end_prefix(self, key: bytes, meaning: str) -> None:
        prefix, self._prefix = self._prefix, b""
        if meaning == "d":
            self._add_command(Command.DETACH)
        elif meaning == "?":
            self._add_command(Command.HELP)
        elif meaning == chr(self._control[0]):
            self._for_program += prefix
        else:
            self._for_program += prefix + key

    def _read_paste(self, data: bytes, at: int) -> int:
        end = data.find(_PASTE_END, at)
        if end < 0:
            partial = next((n for n in range(5, 0, -1) if data.endswith(_PASTE_END[:n])), 0)
            self._for_program += data[at : len(data) - partial]
            self._held = data[len(data) - partial :]
            return len(data)
        self._pasting = False
        self._for_program += data[at : end + len(_PASTE_END)]
        return end + len(_PASTE_END)

    def _pass_rest(self, data: bytes, at: int, unfinished: re.Match[bytes] | None) -> int:
        end = len(data) if unfinished is None else unfinished.start()
        self._for_program += data[at:end]
        self._held = data[end:]
        return len(data)

    def _is_prefix(self, match: re.Match[bytes]) -> bool:
        """True for a press of the prefix that a keyboard protocol has encoded."""
        if match.lastindex is None:
            return False
        code, mods = _numbers(match)
        is_key = code == self._key or match["base"] == b"%d" % self._key
        return is_key and mods == _CTRL and match["event"] not in (_RELEASE, _REPEAT)

    def _add_command(self, command: Command) -> None:
        self._emit_text()
        self._events.append(command)

    def _emit_text(self) -> None:
        text = self._decoder.decode(bytes(self._for_program))
        self._for_program.clear()
        kept = _UNDECODED_BYTES.sub("", text)
        if kept:
            self._events.append(kept)
        if kept != text:
            self._events.append(Command.NOT_TEXT)


def _numbers(match: re.Match[bytes]) -> tuple[int, int]:
    """Return a key's code and modifier bits, without Caps Lock and Num Lock."""
    code = int(match["code"] or match["other_code"] or 0)
    mods = int(match["mods"] or match["other_mods"] or 1) - 1
    return code, mods & ~_LOCKS


def _is_silent(match: re.Match[bytes]) -> bool:
    """True for a release, a repeat or a modifier."""
    code, _ = _numbers(match)
    return match["event"] in (_RELEASE, _REPEAT) or code in _MODIFIER_KEYS or code in _LOCK_KEYS


def _character(match: re.Match[bytes]) -> str:
    """Return the character of a key; empty with a modifier other than Shift."""
    code, mods = _numbers(match)
    if mods & ~_SHIFT:
        return ""
    if mods and match["shifted"]:
        code = int(match["shifted"])
    elif mods and code == ord("/"):
        return "?"  # without a shifted code: a guess by the US layout
    if code > sys.maxunicode:
        return ""
    return chr(code) if not mods or code == ord("?") else chr(code).upper()


_ESCAPE_SEQUENCES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|.?)", re.DOTALL)


class AnswerLine:
    """Line in which a person answers a question, edited at its end only."""

    def __init__(self) -> None:
        self.text = ""

    def feed(self, text: str) -> tuple[str | None, str]:
        """Take typed text; return the answer when Enter is pressed, else None, and the text after Enter."""
        text = _ESCAPE_SEQUENCES.sub("", text)
        for place, char in enumerate(text):
            if char in "\r\n":
                answer, self.text = self.text, ""
                return answer, text[place + 1 :]
            if char in "\x7f\b":
                self.text = self.text[:-1]
            elif char in "\x15\x03":
                self.text = ""
            elif char.isprintable():
                self.text += char
        return None, ""
