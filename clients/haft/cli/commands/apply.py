"""`haft apply`: give a handle input, or an answer."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence

import msgspec

from haft_protocol.errors import handle_stopped
from haft_protocol.questions import Secret
from haft_protocol.states import HandleState, Stopped, Waiting

from ...client import Haft
from ...errors import RemoteError
from .. import show
from ..options import UsageError, command_for, connect
from ..read_options import (
    WAIT_OF_A_PROGRAM,
    add_read_options,
    call_awaiting_approval,
    print_state,
    read_params,
)
from ..typed_states import answer_example, state_of
from ..values import (
    SECRET_IN_ARGUMENT,
    read_answer,
    read_json,
    read_place,
    read_size,
    read_text,
)

EPILOG = """\
`-` instead of TEXT or ANSWER reads standard input: one line for --line and for an answer, otherwise
all of it. --secret keeps the input out of logs, and with it `-` asks for the text on a terminal, without
echo: others can read command lines, so TEXT and ANSWER are never secrets. --secret alone asks for the answer to a question that asks for a secret. `haft answer ID` answers
the same questions, and shows them first. A TEXT that begins with a dash needs an equals
sign: --line=-x.

examples:
  haft apply py --line 'print(6 * 7)'
  haft apply stage --line y --wait input
  haft apply editor --keys Escape : w q Enter
  haft apply server --signal HUP
  haft apply deploy yes                             answers the question it asks
  haft apply login --line - --secret
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the handle's name, as `haft ps` shows it")
    parser.add_argument("answer", nargs="?", metavar="ANSWER", help="the answer to its question")
    form = parser.add_argument_group("input, one of").add_mutually_exclusive_group()
    form.add_argument("--text", metavar="TEXT", help="text, written unchanged")
    form.add_argument(
        "--line", metavar="TEXT", help="text, with the line end that the program expects"
    )
    form.add_argument(
        "--keys", nargs="+", metavar="KEY", help="keys, as tmux names them: C-c Up Enter F5"
    )
    form.add_argument("--paste", metavar="TEXT", help="as a paste")
    form.add_argument(
        "--click", metavar="ROW,COL", help="click the left mouse button there; both count from 0"
    )
    form.add_argument("--eof", action="store_true", help="end of input")
    form.add_argument("--signal", metavar="NAME", help="a signal: INT TERM HUP …")
    form.add_argument("--resize", metavar="ROWSxCOLS", help="a new size for its terminal")
    form.add_argument("--input", metavar="JSON", help="input as in the protocol")
    parser.add_argument("--secret", action="store_true", help="keep the input out of logs")
    add_read_options(parser, cursor=True, wait=WAIT_OF_A_PROGRAM)


def explain_unexpected(options: argparse.Namespace, words: Sequence[str]) -> str | None:
    """Suggest the quoting of a line written as in a shell."""
    if not hasattr(options, "answer") or any(word.startswith("--") for word in words):
        return None
    typed = " ".join([options.answer, *words])
    return f"apply takes one ANSWER; to type a line, use --line {shlex.quote(typed)}"


def run(options: argparse.Namespace) -> int:
    secret = getattr(options, "secret", False)
    form = _form(options, secret)
    answer = getattr(options, "answer", None)
    if form is None and answer is None and secret:
        # Prompted for on a terminal, once the question is known.
        answer = "-" if sys.stdin is not None and sys.stdin.isatty() else None
    if (form is None) == (answer is None):
        raise UsageError("give one input, or an answer; see `haft apply --help`")
    if isinstance(form, dict) and secret:
        form["secret"] = True
    with connect(options) as haft:
        if answer is None:
            _refuse_secret_answer(haft, options)
            content: dict[str, object] = {"input": form}
        else:
            content = _answer(haft, options, answer)
        fields = {"id": options.id, **content, **read_params(options)}
        try:
            return print_state(
                haft, options, call_awaiting_approval(haft, options, "apply", fields)
            )
        except RemoteError as refused:
            if refused.kind == "invalid_answer" and answer is None:
                options.remedy = _answering(haft, options)
            raise


def _form(options: argparse.Namespace, secret: bool) -> object:
    """Return the input as the protocol has it; None if no option gives one.

    It is a string or an object; --input may have any JSON, which the daemon checks.
    """
    forms = {
        name: getattr(options, name)
        for name in ("text", "line", "keys", "paste", "click", "eof", "signal", "resize", "input")
        if hasattr(options, name)
    }
    match forms:
        case {"text": text}:
            # On the wire a plain text is a string, a secret an object.
            read = read_text(text, secret=secret)
            return {"text": read} if secret else read
        case {"line": text}:
            return {"line": read_text(text, line=True, secret=secret)}
        case {"paste": text}:
            return {"paste": read_text(text, secret=secret)}
        case {"click": place}:
            return {"mouse": {**read_place(place), "action": "click"}}
        case {"resize": size}:
            return {"resize": read_size(size)}
        case {"input": document}:
            return read_json(document, "--input")
    return forms or None


def _refuse_secret_answer(haft: Haft, options: argparse.Namespace) -> None:
    """Refuse an argument that would answer a question for a secret, as any plain text does."""
    if all(getattr(options, name, "-") == "-" for name in ("text", "input")):
        return
    state = _state(haft, options.id)
    if isinstance(state, Waiting) and isinstance(state.question.answer_type, Secret):
        raise UsageError(SECRET_IN_ARGUMENT)


def _state(haft: Haft, id: str) -> HandleState:
    return state_of(haft.raw("fetch", {"id": id, "cursor": 0, "max_bytes": 0}))


def _answering(haft: Haft, options: argparse.Namespace) -> str | None:
    """Name the command that answers the handle's question; None if it no longer asks.

    `haft answer` asks for a secret by itself, while this command needs --secret.
    """
    state = _state(haft, options.id)
    if not isinstance(state, Waiting):
        return None
    words = f"answer {options.id} {answer_example(state.question)}"
    return f"answer it: {command_for(options, words)}"


def _answer(haft: Haft, options: argparse.Namespace, text: str) -> dict[str, object]:
    """Return the answer to the handle's question as the call's `input`, with the question's id.

    The question is read first, as it decides what the text means. It may end meanwhile: by its id
    the daemon does not type the text, perhaps a secret, into the process.
    """
    handle, keeps_secret = options.id, getattr(options, "secret", False)
    state = _state(haft, handle)
    if isinstance(state, Stopped):
        ended = handle_stopped(handle, msgspec.to_builtins(state))
        raise RemoteError(ended.code, ended.kind, ended.message, ended.data)
    if not isinstance(state, Waiting):
        raise UsageError(f"{handle} asks nothing; send it input with --line, --text or --keys")
    asks_secret = isinstance(state.question.answer_type, Secret)
    if keeps_secret and not asks_secret:
        raise UsageError(f"{handle} does not ask for a secret; the answer would be logged")
    if asks_secret and text == "-" and sys.stdin is not None and sys.stdin.isatty():
        show.line(show.plain(state.question.text, 1000), "bold")
    answer = read_answer(read_text(text, line=True, secret=asks_secret), state.question)
    return {"input": answer, "question": state.question.id}
