from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haftd.core.spool import Budget, Spool
from haftd.core.text import STRIPPED, last_line


def spool(data: bytes) -> Spool:
    spool = Spool(1 << 16, 0, None, Budget(0))
    spool.append(data)
    return spool


@given(st.lists(st.sampled_from([b"\n", b"\r", b"$ ", b"a", "é".encode(), b" "]), max_size=80))
def test_the_last_line_follows_the_last_line_end(parts: list[bytes]) -> None:
    data = b"".join(parts)
    assert last_line(spool(data), STRIPPED) == re.split(rb"[\r\n]", data)[-1].decode()


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        (b"", ""),
        (b"one\r\n\x1b[1;32m~/src\x1b[0m$ ", "~/src$ "),
        (b"\x1b]0;title\x07Password: ", "Password: "),
        (b"x" * 5000, "x" * 1024),
        (b"x" * 5000 + b"\n", ""),
    ],
)
def test_the_last_line_is_bounded_and_without_escape_sequences(printed: bytes, shown: str) -> None:
    assert last_line(spool(printed), STRIPPED) == shown
