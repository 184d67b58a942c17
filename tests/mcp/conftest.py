"""Fixtures of the tests of `haft mcp`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.host import Host, Legacy, Modern
from tests.repository import make_repository
from tests.running_daemon import RunningDaemon

_numbers = itertools.count(1)
Open = Callable[..., Any]


@pytest.fixture(params=[Modern, Legacy], ids=["modern", "legacy"])
def era(request: pytest.FixtureRequest) -> type[Host]:
    """Each of the two eras."""
    kind: type[Host] = request.param
    return kind


@pytest.fixture
def root(short_tmp: Path) -> Path:
    return make_repository(short_tmp / f"repo{next(_numbers)}")


@pytest.fixture
def host(shared_daemon: RunningDaemon, root: Path) -> Iterator[Open]:
    """Start hosts in `root`; all are ended after the test."""
    hosts: list[Host] = []

    def start(era: type[Host], *arguments: str, **options: Any) -> Host:
        one = era(shared_daemon, "--root", str(root), *arguments, **options)
        hosts.append(one)
        return one

    yield start
    for one in hosts:
        with one:
            pass
