"""Kernels that are not this one: without lists of children, and where no brand can be set."""

from __future__ import annotations

import pytest

from haftd.host.process import ancestry, rlimit_tag


@pytest.fixture(params=["lists", "scan"])
def lists(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel lists children, or it does not."""
    if request.param == "scan":
        monkeypatch.setattr(ancestry, "_kernel_lists", lambda: False)


@pytest.fixture
def no_brand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rlimit_tag, "limits_for", lambda _: None)
