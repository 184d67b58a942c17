"""Which runtimes there are."""

from __future__ import annotations

from typing import Literal

from .base import Runtime
from .fake import FakeRuntime
from .process import ProcessRuntime
from .terminal import TerminalRuntime

__all__ = ["Kind", "runtime_for"]

Kind = Literal["stdio", "pty", "fake"]

_RUNTIMES: dict[Kind, Runtime] = {
    "stdio": ProcessRuntime(),
    "pty": TerminalRuntime(),
    "fake": FakeRuntime(),
}


def runtime_for(kind: Kind) -> Runtime:
    """The runtime of that kind; one serves any number of handles."""
    return _RUNTIMES[kind]
