"""`haft approvals`: list actions that await approval."""

from __future__ import annotations

import argparse

import msgspec

from haft_protocol.approvals import Approval
from haft_protocol.methods import ApprovalsListResult

from ...client import Haft
from .. import show
from ..options import connect, session

EPILOG = """\
Without --session (or HAFT_SESSION), the actions of all sessions are listed. `haft approve ID`
shows one in full.

examples:
  haft approvals
  haft approve 3f9a1c07 --allow
"""


def run(options: argparse.Namespace) -> int:
    with connect(options) as haft:
        encoded = waiting(haft, options)
    if options.json:
        show.document(encoded)
        return 0
    approvals = msgspec.json.decode(encoded, type=ApprovalsListResult).approvals
    if not approvals:
        show.line("haft approvals: nothing awaits approval")
        return 0
    head = ("ID", "SESSION", "HANDLE", "TOOL", "ACTION", "ARGUMENTS")
    show.table([head, *map(_row, approvals)], whole=("ID",))
    return 0


def waiting(haft: Haft, options: argparse.Namespace) -> bytes:
    return haft.raw("approvals/list", {"session": session(options) or "*"})


def _row(approval: Approval) -> tuple[str, ...]:
    arguments = show.plain(msgspec.json.encode(approval.arguments).decode(), 80)
    # `approval.id` is the handle's.
    return (
        approval.approval_id,
        approval.session,
        approval.id,
        approval.tool,
        approval.action,
        arguments,
    )
