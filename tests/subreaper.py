"""Sub-reaper mode for the time of a test."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

from haftd.host.process.ancestry import become_subreaper

_SET, _GET = 36, 37  # PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER


@contextmanager
def subreaper() -> Iterator[None]:
    """Adopt orphans for the block, and restore the process afterwards."""
    prctl = ctypes.CDLL(None).prctl
    before = ctypes.c_int()
    prctl(_GET, ctypes.byref(before), 0, 0, 0)
    become_subreaper()
    try:
        yield
    finally:
        prctl(_SET, before.value, 0, 0, 0)
