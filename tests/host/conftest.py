"""Simulated kernels: without lists of children, and without rlimit tags."""

from __future__ import annotations

import pytest

from haftd.host.process import ancestry, rlimit_tag


@pytest.fixture(params=["lists", "scan"])
def lists(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run with and without the kernel's lists of children."""
    if request.param == "scan":
        monkeypatch.setattr(ancestry, "_has_child_lists", lambda: False)


@pytest.fixture
def no_brand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rlimit_tag, "limits_for", lambda _: None)
