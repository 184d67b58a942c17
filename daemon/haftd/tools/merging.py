"""A later table over an earlier one, key by key: how definitions are laid over each other.

Rules: pure; neither side is changed. What is no table replaces what it is laid over.
"""

from __future__ import annotations

from typing import Any


def merge(below: Any, above: Any) -> Any:
    """What `above` says, and what it leaves of `below`."""
    if isinstance(below, dict) and isinstance(above, dict):
        merged = dict(below)
        for key, value in above.items():
            merged[key] = merge(below[key], value) if key in below else value
        return merged
    return above
