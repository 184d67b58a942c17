"""subscribe and unsubscribe: be told what happens to a session's handles, without asking.

Rules: decided at once; what is to be told follows as notifications. It ends with the connection.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import UnsetType

from haft_protocol.errors import invalid_params, limit_exceeded
from haft_protocol.methods import SubscribeParams, SubscribeResult, UnsubscribeParams
from haftd.caller import Caller
from haftd.core.handles import Handle
from haftd.subscriptions import MAX_SUBSCRIPTIONS, Subscriptions

from .access import Access


def subscribe(
    access: Access, subscriptions: Subscriptions, caller: Caller, params: SubscribeParams
) -> SubscribeResult:
    """Tell the caller's connection of these handles, or of all that live in the session and that
    are started in it from now on. Raises `handle_not_found`, `limit_exceeded`."""
    session = access.session_of(caller, params)
    client = access.clients.of(caller)
    if client is None:
        raise AssertionError("a caller that is read is among the clients")
    only = not isinstance(params.handles, UnsetType)
    named = [*params.from_, *(() if isinstance(params.handles, UnsetType) else params.handles)]
    found = {id: access.find(caller, params, id) for id in named}
    _check_offsets(params, found)
    if not only:
        for one in access.reachable(caller, session):
            if not (one.stopped and one.output_complete):
                found.setdefault(one.id, one)
    if subscriptions.count(caller) >= MAX_SUBSCRIPTIONS:
        raise limit_exceeded(
            "max_subscriptions",
            MAX_SUBSCRIPTIONS,
            "This connection has as many subscriptions as it may have",
        )
    return SubscribeResult(
        subscriptions.open(
            client, session, found.values(), params.events, only=only, offsets=params.from_
        )
    )


def _check_offsets(params: SubscribeParams, found: Mapping[str, Handle]) -> None:
    for id, offset in params.from_.items():
        if not isinstance(params.handles, UnsetType) and id not in params.handles:
            raise invalid_params(f"`from` names `{id}`, which `handles` does not", field="from")
        end = found[id].spool.end
        if offset > end:
            raise invalid_params(
                f"`from` says {offset} for `{id}`, but the output of its generation "
                f"{found[id].generation} ends at {end}",
                field="from",
            )


def unsubscribe(
    subscriptions: Subscriptions, caller: Caller, params: UnsubscribeParams
) -> dict[str, object]:
    """End a subscription of this connection; nothing of it is sent after the reply."""
    if not subscriptions.close(caller, params.subscription):
        raise invalid_params(
            f"this connection has no subscription `{params.subscription}`", field="subscription"
        )
    return {}
