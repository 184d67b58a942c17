"""`haft approve`: allow, deny, skip or change an action that awaits approval."""

from __future__ import annotations

import argparse
import re
import sys

import msgspec

from haft_protocol.approvals import Approval
from haft_protocol.methods import ApprovalsListResult

from ...client import Haft
from ...requests import drop_unset
from .. import show
from ..confirmation import ask_choice
from ..options import UnknownId, UsageError, connect
from ..values import read_json
from .approvals import waiting

EPILOG = """\
ID is an id shown by `haft approvals`, or the handle. Without a decision the action is shown
and you are asked for it on the terminal.

examples:
  haft approve 3f9a1c07
  haft approve 3f9a1c07 --allow --remember session
  haft approve 3f9a1c07 --deny --reason "not on a Friday"
  haft approve 3f9a1c07 --edit '{"path": "/tmp/x"}'
  haft approve 3f9a1c07 --edit '{"text": "the result that is handed out"}'
"""

_EFFECTS = {
    "allow": "do it; a result is released",
    "deny": "do not do it; the call fails",
    "skip": "do not do it; the call does not fail",
}
_WORDS = {"yes": "allow", "no": "deny", "skip": "skip"}
_ANSWERS = _WORDS | {word[0]: decision for word, decision in _WORDS.items()}
_MAX_INDENT = 40
_MAX_NAMES = 8
"""Variables shown, one line of them; haftd lists first those that choose the code that runs."""
_APPROVAL_ID = re.compile(r"[0-9a-f]{8}")
_DONE = {"allow": "allowed", "deny": "denied", "skip": "skipped", "edit": "allowed, as edited"}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "id", metavar="ID", help="the action, as `haft approvals` names it, or the handle"
    )
    decision = parser.add_mutually_exclusive_group()
    for name, text in _EFFECTS.items():
        decision.add_argument(
            f"--{name}", action="store_const", const=name, dest="decision", help=text
        )
    decision.add_argument(
        "--edit",
        metavar="JSON",
        help="do it with these arguments, all of them: those left out take their defaults; for a result, "
        "with this `text`",
    )
    parser.add_argument(
        "--remember",
        choices=("turn", "session"),
        help="decide the same for this tool and action from now on",
    )
    parser.add_argument("--reason", metavar="TEXT", help="the reason that the caller gets")


def run(options: argparse.Namespace) -> int:
    edit = getattr(options, "edit", None)
    arguments = None if edit is None else read_json(edit, "--edit")
    if arguments is not None and not isinstance(arguments, dict):
        raise UsageError("--edit must be a JSON object")
    with connect(options) as haft:
        listed = msgspec.json.decode(waiting(haft, options), type=ApprovalsListResult)
        approval = _find(options.id, listed.approvals)
        decision = "edit" if edit is not None else getattr(options, "decision", None)
        decision = decision or _read(approval, haft)
        result = haft.raw(
            "approvals/decide",
            drop_unset(
                approval_id=approval.approval_id,
                session=approval.session,
                decision=decision,
                arguments=arguments,
                remember=getattr(options, "remember", None),
                reason=getattr(options, "reason", None),
            ),
        )
    if options.json:
        show.document(result)
    else:
        show.line(f"{approval.session}/{approval.id}: {approval.action} {_DONE[decision]}", "dim")
    return 0


def _find(name: str, approvals: tuple[Approval, ...]) -> Approval:
    matches = [approval for approval in approvals if name == approval.approval_id]
    if not matches and not _APPROVAL_ID.fullmatch(name):
        # Not for such a name: a tool that sees the id of an approval could call a handle by it, and
        # the decision given twice would be about that handle's.
        matches = [approval for approval in approvals if name == approval.id]
    if not matches:
        raise UnknownId(f"no action {name!r} awaits approval; `haft approvals` lists those that do")
    if len(matches) > 1:
        ids = ", ".join(approval.approval_id for approval in matches)
        raise UsageError(f"several actions of {name!r} await approval; name one: {ids}")
    return matches[0]


def _read(approval: Approval, haft: Haft) -> str:
    """Show the approval and read a decision: `yes`, `no`, `skip` or its first letter."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(
            f"there is no terminal to ask on; give --allow, --deny, --skip or --edit: haft approve {approval.approval_id} --allow"
        )
    failed = " (it has failed)" if approval.failed is True else ""
    show.line(
        f"{approval.tool}: {approval.action} {approval.session}/{approval.id}{failed}", "bold"
    )
    handles = haft.handles(approval.session)
    info = next((each for each in handles if each.state.id == approval.id), None)
    if info is not None and info.command:
        show.line(f"command: {show.plain(info.command)}")
    if isinstance(approval.root, str):
        show.line(f"folder: {show.plain(approval.root)}")
    show.line("text:" if approval.action == "result" else "arguments:")
    for line in approval.rendered.splitlines():
        indent = len(line) - len(line.lstrip(" "))
        show.line(f"{' ' * min(indent, _MAX_INDENT)}{show.plain(line, 4000)}")
    if isinstance(approval.env, tuple):
        more = len(approval.env) - _MAX_NAMES
        names = show.plain(", ".join(approval.env[:_MAX_NAMES]))
        show.line(f"variables that differ from haftd's: {names}{f' and {more} more' * (more > 0)}")
    show.line("allow it? [y]es, [n]o, [s]kip", "bold")
    explained = [f"{word}, {word[0]}: {_EFFECTS[name]}" for word, name in _WORDS.items()]
    return ask_choice(_decision, explained, "nothing was decided")


def _decision(line: str) -> str:
    decision = _ANSWERS.get(line.strip().lower())
    if decision is None:
        raise UsageError("nothing was decided: answer y, n or s")
    return decision
