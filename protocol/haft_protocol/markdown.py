"""Notices as Markdown, for a host that puts them before a model or a person as text.

Rules: pure. A list item a notice, the lines of a program's output in a fence of its own. Whatever a
program or a question says is text in it: no word of theirs becomes structure, is hidden, or leaves
its item. Follows CommonMark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import UnsetType

from .states import Notice

__all__ = ["notices_markdown"]

_SPECIAL = re.compile(r"[\\`*_\[\]<>&|~$!]")
"""What means something within a line of Markdown, or of its usual extensions."""

_LONGEST = 2_000
_LONGEST_LINE = 400


def notices_markdown(notices: Iterable[Notice]) -> str:
    """The notices in their order, each with its level; empty where there are none."""
    return "".join(map(_item, notices))


def _item(notice: Notice) -> str:
    lines = () if isinstance(notice.lines, UnsetType) else notice.lines
    message = notice.message
    if lines:
        # They follow as they are, so the sentence need not end with the first of them.
        message = message.removesuffix(lines[0]).rstrip()
    head = f"- **{notice.level}** {_sentence(notice, message)}\n"
    if not lines:
        return head
    shown = [_seen(line, _LONGEST_LINE) for line in lines]
    runs = re.findall("`+", "\n".join(shown))
    fence = "`" * max(3, 1 + max(map(len, runs), default=0))
    return head + "".join(f"  {line}\n" for line in (f"{fence}text", *shown, fence))


def _sentence(notice: Notice, message: str) -> str:
    """The message; a handle's name at its beginning is code, as it is ours."""
    name = f"`{notice.id}` "
    if not isinstance(notice.id, UnsetType) and message.startswith(name) and "`" not in notice.id:
        return name + _escaped(message.removeprefix(name))
    return _escaped(message)


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", _seen(" ".join(text.split()), _LONGEST))


def _seen(text: str, longest: int) -> str:
    """The text on one line, without what is not seen or changes the order of what is."""
    text = text if len(text) <= longest else text[: longest - 1] + "…"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
