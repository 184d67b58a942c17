"""Values that the daemon is composed of."""

from __future__ import annotations

import site

import pytest

from haftd.composition import _installation


@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_users_site_packages_are_part_of_the_installation(
    monkeypatch: pytest.MonkeyPatch, is_enabled: bool
) -> None:
    """Python looks there before the installation, so a tool could plant a module for the next start."""
    monkeypatch.setattr(site, "ENABLE_USER_SITE", is_enabled)
    monkeypatch.setattr(site, "USER_SITE", "/home/me/.local/lib/python3/site-packages")
    assert (str(site.USER_SITE) in list(_installation())) is is_enabled
