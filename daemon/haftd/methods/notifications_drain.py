"""notifications/drain: the session's notices, once each, here or on a reply."""

from __future__ import annotations

import time
from functools import partial

from msgspec import UNSET

from haft_protocol.methods import DrainParams, NoticesResult
from haft_protocol.model_text import notices_markdown
from haftd.caller import Caller
from haftd.executions.supervisor import Supervisor
from haftd.notices.queues import NoticeQueues

from .access import Access


def notifications_drain(
    access: Access,
    supervisor: Supervisor,
    queues: NoticeQueues,
    caller: Caller,
    params: DrainParams,
) -> NoticesResult:
    session = access.session_of(caller, params)
    notices = queues.drain(session, time.time(), partial(supervisor.is_asked, caller))
    return NoticesResult(notices, UNSET if params.format == "json" else notices_markdown(notices))
