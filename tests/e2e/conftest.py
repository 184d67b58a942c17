"""Fixtures that tests over the wire share with those of the methods."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.e2e.session_clients import AskedClient, joined, serving
from tests.methods.conftest import beside as beside
from tests.methods.conftest import room as room
from tests.running_daemon import RunningDaemon


@pytest.fixture(scope="module")
def asker(request: pytest.FixtureRequest) -> Iterator[RunningDaemon]:
    """A daemon with the module's definitions, `TOOLS`."""
    with serving(request.module.TOOLS) as daemon:
        yield daemon


@pytest.fixture
def join(
    asker: RunningDaemon, request: pytest.FixtureRequest
) -> Iterator[Callable[..., AskedClient]]:
    """Connect the module's `CLIENT`s to a session of their own."""
    with joined(asker, request.module.CLIENT) as join:
        yield join
