"""fetch: read a handle's state and output, at once or when `wait` holds."""

from __future__ import annotations

from msgspec.structs import replace

from haft_protocol.methods import FetchParams
from haftd.caller import Caller

from .approval_gate import approved
from .base import HandleServices
from .read import answer, new_from, plan


def fetch(services: HandleServices, caller: Caller, params: FetchParams) -> object:
    """Return the handle by `view`; output from `cursor`, else from the read offset."""
    handle = services.access.find(caller, params, params.id)

    def check(params: FetchParams) -> None:
        plan(params, terminal=handle.terminal, default="none")

    def serve(params: FetchParams) -> object:
        reading = replace(
            plan(params, terminal=handle.terminal, default="none"), is_reader=not caller.read_only
        )
        return answer(
            services.supervisor,
            params,
            handle,
            reading,
            new_from(services.supervisor, params, handle),
        )

    return approved(services, caller, "fetch", handle, params, serve, check)
