"""Form of a method: a synchronous decision, a result, an `RpcError`, or a pending reply, a `HandleWait`
or a `DeferredReply`; and the parts of the daemon that methods on handles share, bound by
`methods.table`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import inf
from typing import Any

import msgspec
import trio
from msgspec.structs import replace

from haftd.audit import Audit
from haftd.caller import Caller
from haftd.core.handles import Handle
from haftd.core.truncation import BatchBudget
from haftd.executions.helpers import HelperRunner
from haftd.executions.starter import Starter
from haftd.executions.supervisor import Supervisor
from haftd.inquiries.router import InquiryRouter
from haftd.notices.output_watcher import OutputWatcher
from haftd.subscriptions import Subscriptions
from haftd.tools.catalogue import Catalogue

from .access import Access


def _leave_as_it_is(by_request: bool) -> None:
    pass


class HandleWait(msgspec.Struct, frozen=True):
    """Reply that awaits a condition of handles, without a task: `wait.register`. No function may
    wait."""

    handles: tuple[Handle, ...]
    holds: Callable[[], Any]
    """Return the condition's value, None until it holds; called at once, after each change of the
    handles, and at the time of `look_again`."""
    then: Callable[[Any], object]
    """Return the result for the condition's value, None at the deadline; the result may be pending.
    Raises `RpcError`."""
    deadline: float = inf
    look_again: Callable[[], float] | None = None
    """Return the time of the next evaluation, by trio's clock."""
    is_reader: bool = True
    """The reply reports the end to a session's reader, in place of a notice."""
    on_cancel: Callable[[bool], None] = _leave_as_it_is
    """Called instead of `then` for a cancelled call: with True if the client has cancelled it, with
    False if the connection has ended."""
    holds_in_batch: Callable[[], Any] | None = None
    """The condition in a batch, which replies as a whole; by default the same."""


class DeferredReply(msgspec.Struct, frozen=True):
    """Reply of a call that needs a task, which a disconnect or the client cancels."""

    run: Callable[[], Awaitable[object]]
    """Return the result, which may be pending. Raises `RpcError`."""
    run_encoding: Callable[[], Awaitable[object]] | None = None
    """The same for a result that is only encoded: its long texts are `EncodedText`."""
    run_in_batch: Callable[[BatchBudget], Awaitable[object]] | None = None
    """The same with the budget of a batch."""


PendingReply = HandleWait | DeferredReply
"""Compare the exact type of a result: `isinstance` takes four times as long for a msgspec struct."""


def then(reply: object, go_on: Callable[[Any], object]) -> object:
    """Continue with `go_on` when the result of `reply` is there; if it is already there, before returning."""
    if isinstance(reply, HandleWait):
        wait = reply
        return replace(wait, then=lambda value: then(wait.then(value), go_on))
    if isinstance(reply, DeferredReply):
        return after(reply, lambda result: then(result, go_on))
    return go_on(reply)


def after(reply: DeferredReply, go_on: Callable[[Any], object]) -> DeferredReply:
    """Return a deferred reply that continues with `go_on`."""
    run, run_in_batch = reply.run, reply.run_in_batch

    async def run_and_go_on() -> object:
        return go_on(await run())

    if run_in_batch is None:
        return DeferredReply(run_and_go_on)

    async def run_in_batch_and_go_on(budget: BatchBudget) -> object:
        return go_on(await run_in_batch(budget))

    return DeferredReply(run_and_go_on, run_in_batch=run_in_batch_and_go_on)


def in_turn(lock: trio.Lock, run: Callable[[], Awaitable[object]]) -> DeferredReply:
    """Return a reply that is made under the lock: a client's long lists are made one after another, in a
    batch as long as its replies have room."""

    async def run_alone() -> object:
        async with lock:
            return await run()

    async def run_in_batch(budget: BatchBudget) -> object:
        async with lock:
            budget.check()
            return await run()

    return DeferredReply(run_alone, run_in_batch=run_in_batch)


MethodHandler = Callable[[Caller, Any], object]
"""From caller and decoded params to a result or pending reply; raises `RpcError`."""


class HandleServices(msgspec.Struct, frozen=True):
    access: Access
    supervisor: Supervisor
    inquiries: InquiryRouter
    catalogue: Catalogue
    audit: Audit


class StartServices(HandleServices, frozen=True):
    starter: Starter
    helpers: HelperRunner
    subscriptions: Subscriptions
    watching: OutputWatcher
