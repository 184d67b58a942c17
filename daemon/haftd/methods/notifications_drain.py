"""notifications/drain: the session's notices, once each, here or on a reply."""

from __future__ import annotations

import time

from msgspec import UNSET

from haft_protocol.methods import DrainParams, NoticesResult
from haft_protocol.model_text import notices_markdown
from haftd.caller import Caller
from haftd.notices.queues import NoticeQueues

from .access import Access


def notifications_drain(
    access: Access, queues: NoticeQueues, caller: Caller, params: DrainParams
) -> NoticesResult:
    notices = queues.drain(access.session_of(caller, params), time.time())
    return NoticesResult(notices, UNSET if params.format == "json" else notices_markdown(notices))
