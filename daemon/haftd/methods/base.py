"""Form of a method: a synchronous decision, a result, an `RpcError`, or a `DeferredReply`; and the
parts of the daemon that methods on handles share, bound by `methods.table`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from haftd.audit import Audit
from haftd.caller import Caller
from haftd.executions.helpers import HelperRunner
from haftd.executions.starter import Starter
from haftd.executions.supervisor import Supervisor
from haftd.inquiries.router import InquiryRouter
from haftd.notices.output_watcher import OutputWatcher
from haftd.subscriptions import Subscriptions
from haftd.tools.catalogue import Catalogue

from .access import Access


class DeferredReply(msgspec.Struct, frozen=True):
    """Reply that `run` awaits, in a task that a disconnect or the client cancels.

    A batch, which replies as a whole, awaits `run_in_batch` if given.
    """

    run: Callable[[], Awaitable[object]]
    run_in_batch: Callable[[], Awaitable[object]] | None = None


async def result_of(reply: object, *, in_batch: bool = False) -> object:
    while isinstance(reply, DeferredReply):
        reply = await (reply.run_in_batch if in_batch and reply.run_in_batch else reply.run)()
    return reply


MethodHandler = Callable[[Caller, Any], object]
"""From caller and decoded params to a result or `DeferredReply`; raises `RpcError`."""


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
