"""`haft status`: show the daemon's figures."""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Sequence

import msgspec
from msgspec import UnsetType

from haft_protocol.approvals import Approval
from haft_protocol.methods import ApprovalsListResult, Problem, StatusResult

from .. import show
from ..options import connect
from .approvals import waiting

EPILOG = """\
examples:
  haft status
  haft status --json | jq .memory
"""


def explain_unexpected(options: argparse.Namespace, words: Sequence[str]) -> str | None:
    """Report a handle's name, for which the command is `fetch`."""
    if len(words) > 1 or words[0].startswith("-"):
        return None
    return f"status shows the daemon's; for the status of a handle: haft fetch {shlex.join(words)}"


def run(options: argparse.Namespace) -> int:
    with connect(options) as haft:
        encoded = haft.raw("daemon/status")
        if options.json:
            show.document(encoded)
            return 0
        listed = waiting(haft, options)
    status = msgspec.json.decode(encoded, type=StatusResult)
    approvals = msgspec.json.decode(listed, type=ApprovalsListResult).approvals
    lines = [*_lines(status), *map(_approval_line, approvals)]
    show.write("".join(show.folded(f"{name:12}{text}", 12) for name, text in lines))
    return 0


def _approval_line(approval: Approval) -> tuple[str, str]:
    subject = f"{approval.action} of {approval.id} ({approval.tool})"
    text = f"{subject}; `haft approve {approval.approval_id}` decides"
    return "approval", show.plain(text, 600)


def problem_line(problem: Problem) -> str:
    place = (
        problem.file if isinstance(problem.line, UnsetType) else f"{problem.file}:{problem.line}"
    )
    key = f" {problem.key}:" if problem.key else ""
    return show.plain(f"{place}:{key} {problem.message}", 600)


def _lines(status: StatusResult) -> list[tuple[str, str]]:
    counts = ", ".join(f"{n} {state}" for state, n in status.handles.items() if n)
    lines = [
        (
            "haftd",
            f"{status.version}, pid {status.pid}, {status.state}, up {show.duration(status.uptime_s)}",
        ),
        ("socket", status.socket),
        ("handles", counts or "none"),
        ("sessions", f"{status.sessions}, {show.counted(status.connections, 'connection')}"),
        ("contained", "by cgroup" if status.containment == "cgroup" else "by process records"),
        (
            "uses",
            (
                f"{show.amount(status.memory)}, {show.duration(status.cpu_s)} of processor, "
                f"{show.counted(status.descriptors, 'descriptor')}, {show.counted(status.threads, 'thread')}, "
                f"{show.amount(status.spooled)} spooled on disk"
            ),
        ),
    ]
    if not isinstance(status.cache, UnsetType):
        lines.append(("cache", f"this daemon's program is in {status.cache}, which can be emptied"))
    if not isinstance(status.websocket, UnsetType):
        lines.append(("websocket", f"ws://{status.websocket.host}:{status.websocket.port}/"))
    for name, figures in (("recovered", status.recovered), ("refused", status.refused)):
        if not isinstance(figures, UnsetType) and any(figures.values()):
            lines.append((name, ", ".join(f"{n} {kind}" for kind, n in figures.items() if n)))
    for question in status.questions:
        subject = (
            f"{question.handle} ({question.tool})"
            if isinstance(question.handle, str)
            else f"session {question.session}"
        )
        waited = show.duration(max(0.0, time.time() - question.since))
        rest = "" if question.asked else f"; `haft answer {question.inquiry_id}` answers it"
        text = f"{question.question} of {subject}, open for {waited}{rest}"
        lines.append(("question", show.plain(text, 600)))
    if status.unconfirmed:
        lines.append(("not ended", ", ".join(map(str, status.unconfirmed))))
    for problem in status.problems:
        level = "problem" if isinstance(problem.level, UnsetType) else problem.level
        lines.append((level, problem_line(problem)))
    return lines
