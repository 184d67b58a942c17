"""Numbers of examples that random laws draw in `make test` and in `make soak`."""

from __future__ import annotations

from hypothesis import settings

FEW, MANY = 12, 1_000
"""Those of a law that asks for no number."""


def examples(few: int) -> int:
    """Return `few` in the quick form, for a law that needs more than most, and at least `MANY` in
    the long form."""
    return max(few, settings().max_examples)
