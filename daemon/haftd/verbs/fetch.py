"""fetch: read a handle's state and output, now or when `wait` holds."""

from __future__ import annotations

from msgspec import UnsetType

from haft_protocol.methods import FetchParams
from haftd.caller import Caller
from haftd.daemon import Daemon

from .reading import answer, plan

__all__ = ["fetch"]


def fetch(daemon: Daemon, caller: Caller, params: FetchParams) -> object:
    """Answer with the handle as `view` asks; output is new from `cursor`, else from the mark."""
    handle = daemon.find(caller, params, params.id)
    since = handle.mark if isinstance(params.cursor, UnsetType) else params.cursor
    reading = plan(params, terminal=handle.terminal, default="none")
    return answer(daemon, params, handle, reading, since)
