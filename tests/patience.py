"""Seconds that a test waits for a certain event before failing: generous, since the machine may
be busy."""

from __future__ import annotations

PATIENCE_S = 60.0
