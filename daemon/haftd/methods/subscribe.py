"""subscribe and unsubscribe: push messages about a session's handles, until the connection ends."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import UnsetType

from haft_protocol.errors import invalid_params, limit_exceeded, read_only
from haft_protocol.methods import SubscribeParams, SubscribeResult, UnsubscribeParams
from haftd.caller import Caller
from haftd.core.handles import Handle
from haftd.core.terminal_filter import TerminalReader
from haftd.inquiries.router import InquiryRouter
from haftd.subscriptions import MAX_SUBSCRIPTIONS, Subscriptions
from haftd.subscriptions.subscription import ALL

from .access import Access


def subscribe(
    access: Access,
    subscriptions: Subscriptions,
    router: InquiryRouter,
    caller: Caller,
    params: SubscribeParams,
) -> SubscribeResult:
    """Subscribe to these handles, all of the session, or all sessions.

    Raises `handle_not_found`, `limit_exceeded`.
    """
    session = access.session_of(caller, params)
    client = access.clients.of(caller)
    if client is None:
        raise AssertionError("the caller is not among the clients")
    only = not isinstance(params.handles, UnsetType)
    named = [*params.from_, *(() if isinstance(params.handles, UnsetType) else params.handles)]
    if named and session == ALL:
        raise invalid_params(
            "`handles` and `from` name handles of one session, and `session` is `*`",
            field="handles" if only else "from",
        )
    if params.backpressure:
        _check_backpressure(caller, params)
    handles = {id: access.find(caller, params, id) for id in named}
    _check_offsets(params, handles)
    followed = dict.fromkeys(handles.values())
    if not only:
        for handle in access.reachable(caller, session):
            if not (handle.stopped and handle.output_complete):
                followed[handle] = None
    if subscriptions.count(caller) >= MAX_SUBSCRIPTIONS:
        raise limit_exceeded(
            "max_subscriptions",
            MAX_SUBSCRIPTIONS,
            "This connection has reached its limit of subscriptions",
        )
    return SubscribeResult(
        subscriptions.open(
            client,
            session,
            followed,
            params.events,
            only=only,
            offsets=params.from_,
            terminal=None
            if isinstance(params.for_, UnsetType)
            else TerminalReader(params.clipboard),
            backpressure=params.backpressure,
            inquiries=router.open_kinds(None if session == ALL else session),
        )
    )


def _check_backpressure(caller: Caller, params: SubscribeParams) -> None:
    if caller.read_only:
        raise read_only("subscribe` with `backpressure")
    if isinstance(params.handles, UnsetType) or "bytes" not in params.events:
        raise invalid_params(
            "`backpressure` is only for the event `bytes` with named `handles`",
            field="backpressure",
        )


def _check_offsets(params: SubscribeParams, handles: Mapping[str, Handle]) -> None:
    for id, offset in params.from_.items():
        if not isinstance(params.handles, UnsetType) and id not in params.handles:
            raise invalid_params(f"`from` names `{id}`, which `handles` does not", field="from")
        end = handles[id].spool.end
        if offset > end:
            raise invalid_params(
                f"`from` is {offset} for `{id}`, but the output of its generation "
                f"{handles[id].generation} ends at {end}",
                field="from",
            )


def unsubscribe(
    subscriptions: Subscriptions, caller: Caller, params: UnsubscribeParams
) -> dict[str, object]:
    """End a subscription; no message follows the reply."""
    if not subscriptions.close(caller, params.subscription):
        raise invalid_params(
            f"this connection has no subscription `{params.subscription}`", field="subscription"
        )
    return {}
