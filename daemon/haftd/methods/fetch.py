"""fetch: read a handle's state and output, at once or when `wait` holds."""

from __future__ import annotations

from haft_protocol.methods import FetchParams
from haftd.caller import Caller

from .approval_gate import approved
from .base import HandleServices
from .conditions import Reading
from .read import answer, plan


def fetch(services: HandleServices, caller: Caller, params: FetchParams) -> object:
    """Return the handle by `view`; output from `cursor`, else from the read offset."""
    handle = services.access.find(caller, params, params.id)

    def plan_of(params: FetchParams) -> Reading:
        is_reader = not caller.read_only
        return plan(params, terminal=handle.terminal, default="none", is_reader=is_reader)

    reading = plan_of(params)
    if "fetch" not in handle.settings.policy:
        return answer(services.supervisor, caller, params, handle, reading)
    return approved(
        services,
        caller,
        "fetch",
        handle,
        params,
        lambda params: answer(services.supervisor, caller, params, handle, plan_of(params)),
        plan_of,
    )
