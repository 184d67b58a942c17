"""`haft questions`: list open questions of tools."""

from __future__ import annotations

import argparse

import msgspec
from msgspec import UnsetType

from haft_protocol.inquiries import Inquiry
from haft_protocol.methods import InquiriesListResult

from ...client import Haft
from .. import show
from ..options import connect, session

EPILOG = """\
Without --session (or HAFT_SESSION), the questions of all sessions are listed.

examples:
  haft questions
  haft answer tool_call.modify_file.call_7 yes
"""


def run(options: argparse.Namespace) -> int:
    with connect(options) as haft:
        encoded = list_inquiries(haft, options)
    if options.json:
        show.document(encoded)
        return 0
    inquiries = msgspec.json.decode(encoded, type=InquiriesListResult).inquiries
    if not inquiries:
        show.line("haft questions: there are no open questions")
        return 0
    show.table([("ID", "SESSION", "HANDLE", "QUESTION"), *map(_row, inquiries)], whole=("ID",))
    return 0


def list_inquiries(haft: Haft, options: argparse.Namespace) -> bytes:
    return haft.raw("inquiries/list", {"session": session(options) or "*"})


def _row(inquiry: Inquiry) -> tuple[str, str, str, str]:
    question = inquiry.question
    text = show.plain(f"{question.pre_amble or ''} {question.text}")
    return (
        show.plain(inquiry.inquiry_id, 120),
        inquiry.session,
        "" if isinstance(inquiry.handle, UnsetType) else inquiry.handle,
        f"{text} {show.takes(msgspec.to_builtins(question.answer_type))}",
    )
