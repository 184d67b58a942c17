"""A tool question in the form that backends get."""

from __future__ import annotations

from typing import Any

from haft_protocol.questions import AnswerType, Boolean, Question
from haftd.caller import Caller
from haftd.core.handles import Handle
from haftd.core.spool import Budget, Spool
from haftd.inquiries.kind import InquiryContext
from haftd.inquiries.pending_inquiry import PendingInquiry
from haftd.inquiries.tool_question import InquiryQueue
from haftd.tools.definitions.definition import QuestionPolicy


def pending(
    answer_type: AnswerType = Boolean(),  # noqa: B008
    call: str = "c",
    *,
    tool: str = "tool",
    context: Any = None,
    target: Any = None,
    **question: Any,
) -> PendingInquiry:
    """Return an open question with the id `q`; `target` is that of the tool's definition."""
    spool = Spool(0, 0, None, Budget(0))
    handle = Handle(id="h", tool=tool, session="s", generation=1, spool=spool, now=0.0)
    asked = Question(**{"id": "q", "text": "Well?", "answer_type": answer_type, **question})
    questions = {asked.id: QuestionPolicy(target)}
    caller = Caller("unix", 1)
    about = InquiryContext(caller=caller, call_id=call, context=context, questions=questions)
    return PendingInquiry(
        InquiryQueue(handle, None, about).make_question(asked), lambda ended: None
    )
