"""notifications/drain: what the session has not seen, without a call on whose reply it would ride.

Rules: what is handed out here is handed out once, as on a reply.
"""

from __future__ import annotations

import time

from msgspec import UNSET

from haft_protocol.markdown import notices_markdown
from haft_protocol.methods import DrainParams, NoticesResult
from haftd.caller import Caller
from haftd.notices.queues import NoticeQueues

from .access import Access


def notifications_drain(
    access: Access, queues: NoticeQueues, caller: Caller, params: DrainParams
) -> NoticesResult:
    """Hand out what the session has not seen."""
    notices = queues.drain(access.session_of(caller, params), time.time())
    return NoticesResult(notices, UNSET if params.format == "json" else notices_markdown(notices))
