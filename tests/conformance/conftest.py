"""A runtime's processes and leaks are this process's, as in the daemon."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from haftd.host.launch.gate import best_gate
from tests.subreaper import subreaper


@pytest.fixture(autouse=True)
def adopting() -> Iterator[None]:
    best_gate()  # opened once a process, and kept: no test's leak
    with subreaper():
        yield
