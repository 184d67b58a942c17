"""Messages of an attachment, without a terminal and without a daemon."""

from __future__ import annotations

from typing import Any, cast

import pytest

from haft.cli.terminal.attachment import Attachment
from haft.cli.terminal.terminal_modes import notice
from haft_protocol.questions import Boolean, Question


class Own:
    def __init__(self, size: tuple[int, int] | None) -> None:
        self.written = b""
        self._size = size

    def size(self) -> tuple[int, int] | None:
        return self._size

    def write(self, data: bytes) -> None:
        self.written += data


@pytest.mark.parametrize("size", [None, (3, 20), (50, 200)])
def test_messages_are_drawn_within_the_persons_screen_or_one_of_the_usual_size(
    size: tuple[int, int] | None,
) -> None:
    rows, cols = size or (24, 80)
    own = Own(size)
    attachment = Attachment(cast(Any, None), "h", cast(Any, own), read_only=False)
    assert attachment._scroll_up() == b"\x1b[%d;1H" % rows + b"\n" * rows
    text = "word " * cols
    attachment._notify(text, bell=False)
    assert own.written == notice(text, rows, cols)
    own.written = b""
    attachment._question = Question(id="q", text=text, answer_type=Boolean())
    attachment._draw_over()
    shown = own.written
    assert shown.startswith(b"\x1b[?6l") and shown.endswith(b"\x1b[?25h")
    assert shown.count(b"\x1b[2K") == min(rows, 5, notice(text, rows, cols).count(b"\x1b[2K"))
