"""`haft answer`: answer a tool's question."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import msgspec
from msgspec import UnsetType

from haft_protocol.inquiries import Inquiry
from haft_protocol.methods import InquiriesListResult
from haft_protocol.questions import Secret

from ...client import Haft
from ...requests import drop_unset
from .. import show
from ..confirmation import ask_choice
from ..options import UnknownId, UsageError, command_for, connect, session
from ..values import explained_choices, read_answer, read_text
from .questions import list_inquiries

EPILOG = """\
ID is an id shown by `haft questions`, or the handle that asks. Without VALUE the question is
shown and you are asked for the answer, without echo if it is a secret; `-` reads a line of standard
input. A secret cannot be given as VALUE: other users can read command lines.

examples:
  haft answer tool_call.modify_file.call_7 yes
  haft answer deploy
  haft answer deploy yes --remember session
  pass show deploy | haft answer deploy -
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "id", metavar="ID", help="the question, as `haft questions` names it, or the handle"
    )
    parser.add_argument("value", nargs="?", metavar="VALUE", help="the answer")
    parser.add_argument(
        "--remember",
        choices=("turn", "session"),
        help="give the same answer to this question of this tool from now on",
    )


def run(options: argparse.Namespace) -> int:
    with connect(options) as haft:
        listed = msgspec.json.decode(list_inquiries(haft, options), type=InquiriesListResult)
        inquiry = _find(options, haft, listed.inquiries)
        answer = _read(haft, inquiry, getattr(options, "value", None))
        # With `question` the daemon refuses an answer to an earlier question.
        result = haft.raw(
            "inquiries/answer",
            {
                "inquiry_id": inquiry.inquiry_id,
                "session": inquiry.session,
                "question": inquiry.question.id,
                "answer": answer,
                **drop_unset(remember=getattr(options, "remember", None)),
            },
        )
    if options.json:
        show.document(result)
    else:
        show.line(_summary(inquiry, answer), "dim")
    return 0


def _summary(inquiry: Inquiry, answer: Any) -> str:
    """Describe the answer, unless it is a secret."""
    question = inquiry.question
    name = inquiry.inquiry_id if isinstance(inquiry.handle, UnsetType) else inquiry.handle
    if isinstance(question.answer_type, Secret):
        given = "with a secret"
    elif isinstance(answer, dict):
        given = " ".join(f"{key}={_value(value)}" for key, value in answer.items())
    else:
        given = _value(answer)
    return f"{inquiry.session}/{name}: answered {show.plain(given)} ({show.plain(question.text)})"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _find(options: argparse.Namespace, haft: Haft, inquiries: tuple[Inquiry, ...]) -> Inquiry:
    """Return the inquiry with this id, else the inquiry of the handle with this id."""
    name = options.id
    matches = [inquiry for inquiry in inquiries if name == inquiry.inquiry_id]
    matches = matches or [inquiry for inquiry in inquiries if name == inquiry.handle]
    if not matches:
        raise UnknownId(_without_question(options, haft))
    if len(matches) > 1:
        sessions = ", ".join(inquiry.session for inquiry in matches)
        raise UsageError(
            f"{name!r} has open questions in several sessions; name one with --session: {sessions}"
        )
    return matches[0]


def _without_question(options: argparse.Namespace, haft: Haft) -> str:
    name = options.id
    handles = haft.handles(session(options) or "*")
    state = next((info.state for info in handles if info.state.id == name), None)
    if state is None:
        return f"{name!r} has no open question; `haft questions` lists them"
    if state.state == "stopped":
        return f"{name!r} has ended and has no question"
    if state.needs == "decision":
        approve = command_for(options, f"approve {name}", state.session)
        return f"{name!r} awaits approval; {approve} decides"
    fetch = command_for(options, f"fetch {name} --wait input", state.session)
    return f"{name!r} is {state.state} and asks nothing yet; {fetch} waits for it"


def _read(haft: Haft, inquiry: Inquiry, value: str | None) -> Any:
    """Return the answer: VALUE, or the line that the user types."""
    question = inquiry.question
    secret = isinstance(question.answer_type, Secret)
    if value is not None:
        return read_answer(read_text(value, line=True, secret=secret), question)
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(
            f"there is no terminal to ask on; give the answer: haft answer {inquiry.inquiry_id} VALUE, or - for standard input"
        )
    text = show.plain(question.text, 1000)
    handles = haft.handles(inquiry.session)
    if info := next((each for each in handles if each.state.id == inquiry.handle), None):
        asks = f"{inquiry.session}/{info.state.id} ({info.state.tool}) asks"
        show.line(f"{asks}: {show.plain(info.command)}" if info.command else asks)
    if question.pre_amble:
        show.line(show.plain(question.pre_amble, 4000), "dim")
    show.line(f"{text} {show.takes(msgspec.to_builtins(question.answer_type))}", "bold")
    if secret:
        return read_text("-", secret=True)

    def read(line: str) -> Any:
        is_default = not line and question.default is not None
        return question.default if is_default else read_answer(line, question)

    return ask_choice(read, explained_choices(question), "no answer was given")
