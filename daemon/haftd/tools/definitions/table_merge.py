"""Merge of tables by key; any other value replaces the lower one."""

from __future__ import annotations

from typing import Any


def merge(below: Any, above: Any) -> Any:
    if isinstance(below, dict) and isinstance(above, dict):
        merged = dict(below)
        for key, value in above.items():
            merged[key] = merge(below[key], value) if key in below else value
        return merged
    return above
