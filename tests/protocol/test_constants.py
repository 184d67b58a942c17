"""The constants equal the types that they repeat."""

from __future__ import annotations

from typing import get_args

from haft_protocol.constants import VIEWS, WAITS
from haft_protocol.handles import View, Wait


def test_views_and_waits_are_those_of_the_types() -> None:
    assert get_args(View) == VIEWS
    assert get_args(Wait) == WAITS
