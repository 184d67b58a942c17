"""`format: "text"` of tools/call: the reply as text for a model.

The bound covers all handles. A question has instructions, unless a candidate is asked.
"""

from __future__ import annotations

from msgspec import UNSET, UnsetType, structs

from haft_protocol.approvals import Approval
from haft_protocol.inquiries import Inquiry
from haft_protocol.methods import AwaitResult, CalledText, HandlesListResult
from haft_protocol.model_text import await_text, has_failed, list_text, notices_text, state_text
from haft_protocol.states import HandleState, Notice, Stopped, Waiting
from haftd.core.text import cut_text
from haftd.executions.supervisor import Supervisor

from .base import HandleServices

MAX_TEXT = 8_000
"""Bytes of output in one reply."""

_TAIL_LINES = 4
_MARGIN = 128


def called_text(
    services: HandleServices,
    session: str,
    reply: HandleState | AwaitResult | HandlesListResult,
    call_id: str,
    notices: tuple[Notice, ...],
    *,
    is_tail: bool = False,
) -> CalledText:
    """Return reply and notices as text; with `is_tail` only the output's last lines."""
    states: tuple[HandleState, ...] = ()
    inquiry: Inquiry | UnsetType = UNSET
    failed = False
    approvals = {
        approval.id: approval.approval_id
        for _, approval in services.inquiries.list_open(Approval, session)
    }
    if isinstance(reply, HandlesListResult):
        text = list_text(reply.handles, approvals)
    elif isinstance(reply, AwaitResult):
        share = MAX_TEXT // max(1, len(reply.completed) + len(reply.waiting))
        reply = structs.replace(
            reply,
            completed=tuple(_bounded(state, share) for state in reply.completed),
            waiting=tuple(_bounded(state, share) for state in reply.waiting),
        )
        states = (*reply.completed, *reply.waiting, *reply.pending)
        asked = {
            state.id: _inquiry_of(services.supervisor, session, state) for state in reply.waiting
        }
        text = await_text(
            reply,
            {id: inquiry for id, inquiry in asked.items() if inquiry is not None},
            approvals,
        )
        if len(states) == 1:
            # A wait for one handle has a read's detail.
            failed = has_failed(states[0])
            open_inquiry = asked.get(states[0].id)
            inquiry = UNSET if open_inquiry is None else open_inquiry
    else:
        state = _bounded(reply, MAX_TEXT)
        if is_tail:
            state = _last_lines(state)
        states = (state,)
        open_inquiry = _inquiry_of(services.supervisor, session, state)
        inquiry = UNSET if open_inquiry is None else open_inquiry
        failed = has_failed(state)
        text = state_text(state, inquiry=open_inquiry, approval=approvals.get(state.id))
    if notices:
        text += f"\n{notices_text(notices)}"
    return CalledText(
        text=text,
        call_id=call_id,
        failed=failed,
        states=tuple(_bare(state) for state in states),
        inquiry=inquiry,
    )


def _inquiry_of(supervisor: Supervisor, session: str, state: HandleState) -> Inquiry | None:
    if not isinstance(state, Waiting):
        return None
    for execution in supervisor.executions(session, state.id):
        if execution.is_unclaimed:
            return execution.inquiries.inquiry
    return None


def _bounded(state: HandleState, most: int) -> HandleState:
    for name in ("content", "result", "output"):
        text = getattr(state, name, UNSET)
        if name == "output" and isinstance(state, Stopped) and isinstance(state.result, str):
            most = max(most // 4, most - len(state.result.encode("utf-8", "replace")))
        # Truncation adds a line.
        if isinstance(text, str) and len(text.encode("utf-8", "replace")) > most + _MARGIN:
            cut, total, kept = cut_text(text, most)
            if kept < total:
                omitted = state.omitted + total - kept
                state = structs.replace(state, **{name: cut, "omitted": omitted})
    return state


def _last_lines(state: HandleState) -> HandleState:
    """Cut the output to its last lines, as requested: nothing counts as left out."""
    for name in ("content", "result", "output"):
        text = getattr(state, name, UNSET)
        if isinstance(text, str):
            lines = text.rstrip("\n").splitlines(keepends=True)
            last = "".join(lines[-_TAIL_LINES:])
            state = structs.replace(state, **{name: last, "omitted": 0})
    return structs.replace(state, truncated=UNSET) if isinstance(state, Stopped) else state


def _bare(state: HandleState) -> HandleState:
    bare: dict[str, object] = {"screen": UNSET}
    if isinstance(state, Stopped):
        for name in ("result", "content", "output"):
            if getattr(state, name) is not UNSET:
                bare[name] = ""
    else:
        bare["content"] = ""
    return structs.replace(state, **bare)
