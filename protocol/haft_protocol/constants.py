"""Constants for clients that read the wire without types."""

from __future__ import annotations

__all__ = ["PROTOCOL", "VIEWS", "WAITS"]

PROTOCOL = 1

VIEWS = ("delta", "answer", "all", "tail", "screen", "raw", "paint")
"""Members of `handles.View`."""

WAITS = ("none", "output", "input", "pattern", "quiet", "stopped")
"""Members of `handles.Wait`."""
