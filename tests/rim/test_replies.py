"""What is known of a reply before it is made."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from haft_protocol.rpc import Request
from haftd.replies import shows_bytes


@pytest.mark.parametrize(
    ("params", "are_bytes"),
    [
        ({"id": "a", "view": "raw"}, True),
        ({"id": "a", "view": "paint"}, True),
        ({"id": "a", "view": "all"}, False),
        ({"id": "raw", "pattern": 'view": "raw"'}, False),
        ({"tool": "t", "arguments": {"view": "raw"}}, False),
        (["raw", {"view": "raw"}], False),
        (None, False),
    ],
)
def test_a_reply_is_bytes_where_its_own_view_says_so(params: Any, are_bytes: bool) -> None:
    """What a tool's own arguments are called has nothing to do with it: its result is a text, and
    is cut as one where a batch's replies are too long."""
    raw = None if params is None else msgspec.Raw(json.dumps(params).encode())
    assert shows_bytes(Request("m", raw, b"1")) == are_bytes
