"""Fixtures that tests over the wire share with those of the methods."""

from __future__ import annotations

from tests.methods.conftest import beside as beside
from tests.methods.conftest import room as room
