"""fetch: read a handle's state and output, now or when `wait` holds."""

from __future__ import annotations

from haft_protocol.methods import FetchParams
from haftd.caller import Caller
from haftd.daemon import Daemon

from .approved import approved
from .reading import answer, new_from, plan

__all__ = ["fetch"]


def fetch(daemon: Daemon, caller: Caller, params: FetchParams) -> object:
    """Answer with the handle as `view` asks; output is new from `cursor`, else from the mark."""
    handle = daemon.find(caller, params, params.id)

    def check(params: FetchParams) -> None:
        plan(params, terminal=handle.terminal, default="none")

    def serve(params: FetchParams) -> object:
        reading = plan(params, terminal=handle.terminal, default="none")
        return answer(daemon, params, handle, reading, new_from(daemon, params, handle))

    return approved(daemon, caller, "fetch", handle, params, serve, check)
