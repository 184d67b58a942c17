"""What a runtime starts and what that loses is ours to find, as it is the daemon's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.subreaper import subreaper


@pytest.fixture(autouse=True)
def adopting() -> Iterator[None]:
    with subreaper():
        yield
