"""The process group that asked for a keyboard protocol (kitty's, or modifyOtherKeys)."""

from __future__ import annotations

from collections.abc import Callable

from haftd.host.process.ancestry import is_suspended
from haftd.host.tty import pseudo_terminal
from haftd.lazy_pattern import lazy_pattern

_REQUEST = lazy_pattern(
    rb"\x1b\[(?:(?P<kitty>[<=>])(?P<count>\d{0,4})[\d;:]{0,16}u|>4[\d;]{0,8}[mn])"
)
_UNFINISHED = lazy_pattern(rb"\x1b(?:\[(?:[<=>][\d;:]{0,20}+)?)?\Z")
_MAX_UNFINISHED = 24
_MAX_DEPTH = 16


class KeyboardOwner:
    """Owners of a terminal's keyboard protocol, which a killed process leaves on. kitty's requests
    are a stack."""

    __slots__ = ("_foreground", "_kitty", "_modify_other_keys", "_unfinished")

    def __init__(self, foreground: Callable[[], int | None]) -> None:
        self._foreground = foreground
        self._kitty: list[int | None] = []
        self._modify_other_keys: int | None = None
        self._unfinished = b""

    def note_output(self, data: bytes) -> None:
        if self._unfinished:
            data = self._unfinished + data
        elif b"\x1b" not in data:
            return
        begun = _UNFINISHED.search(data, max(0, len(data) - _MAX_UNFINISHED))
        self._unfinished = data[begun.start() :] if begun is not None else b""
        if not any(introducer in data for introducer in (b"\x1b[>", b"\x1b[<", b"\x1b[=")):
            return
        for request in _REQUEST.finditer(data):
            match request["kitty"]:
                case b">":
                    self._kitty = [*self._kitty, self._foreground()][-_MAX_DEPTH:]
                case b"=":
                    self._kitty[-1:] = [self._foreground()]
                case b"<":
                    del self._kitty[-max(1, int(request["count"] or b"1")) :]
                case _:
                    self._modify_other_keys = self._foreground()

    def is_left_over(self) -> bool:
        """True if the active protocol is stale: another group is in the foreground, the owner gone
        or suspended."""
        owner = self._kitty[-1] if self._kitty else self._modify_other_keys
        foreground = self._foreground()
        if owner is None or foreground is None or owner == foreground:
            return False
        return pseudo_terminal.is_empty_group(owner) or is_suspended(owner, owner)
