"""Notices as Markdown (CommonMark) for a model or a person.

Text of a process or a question becomes neither structure nor invisible, and stays in its list item.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import UnsetType

from .states import Notice

__all__ = ["notices_markdown"]

_SPECIAL = re.compile(r"[\\`*_\[\]<>&|~$!]")

_MAX_CHARS = 2_000
_MAX_LINE_CHARS = 400


def notices_markdown(notices: Iterable[Notice]) -> str:
    """Return a list item per notice, with its level and the output lines in a fence."""
    return "".join(map(_item, notices))


def _item(notice: Notice) -> str:
    lines = () if isinstance(notice.lines, UnsetType) else notice.lines
    message = notice.message
    if lines:
        message = message.removesuffix(lines[0]).rstrip()
    head = f"- **{notice.level}** {_sentence(notice, message)}\n"
    if not lines:
        return head
    shown = [_printable(line, _MAX_LINE_CHARS) for line in lines]
    runs = re.findall("`+", "\n".join(shown))
    fence = "`" * max(3, 1 + max(map(len, runs), default=0))
    return head + "".join(f"  {line}\n" for line in (f"{fence}text", *shown, fence))


def _sentence(notice: Notice, message: str) -> str:
    """Return the escaped message; a leading handle's name becomes code."""
    name = f"`{notice.id}` "
    if not isinstance(notice.id, UnsetType) and message.startswith(name) and "`" not in notice.id:
        return name + _escaped(message.removeprefix(name))
    return _escaped(message)


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", _printable(" ".join(text.split()), _MAX_CHARS))


def _printable(text: str, max_chars: int) -> str:
    """Return one line, with invisible and reordering characters escaped."""
    text = text if len(text) <= max_chars else text[: max_chars - 1] + "…"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
