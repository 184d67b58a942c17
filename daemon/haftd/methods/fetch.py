"""fetch: read a handle's state and output, at once or when `wait` holds."""

from __future__ import annotations

from haft_protocol.methods import FetchParams
from haftd.caller import Caller
from haftd.core.handles import Handle

from .approval_gate import approved
from .base import HandleServices
from .read import answer, plan


def fetch(services: HandleServices, caller: Caller, params: FetchParams) -> object:
    """Return the handle by `view`; output from `cursor`, else from the read offset."""
    handle = services.access.find(caller, params, params.id)
    if "fetch" not in handle.settings.policy:
        return _fetch(services, caller, handle, params)
    return approved(
        services,
        caller,
        "fetch",
        handle,
        params,
        lambda params: _fetch(services, caller, handle, params),
        lambda params: plan(params, terminal=handle.terminal, default="none"),
    )


def _fetch(services: HandleServices, caller: Caller, handle: Handle, params: FetchParams) -> object:
    reading = plan(params, terminal=handle.terminal, default="none", is_reader=not caller.read_only)
    return answer(services.supervisor, caller, params, handle, reading)
