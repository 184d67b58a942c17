"""`haft spawn`: start a tool with this shell's environment and folder."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from haft_protocol.methods import ID_FORM

from ...errors import RemoteError
from ...requests import drop_unset
from .. import show
from ..options import Parser, UsageError, connect, is_remote, non_empty, split_at_dashes
from ..read_options import (
    WAIT_OF_A_PROGRAM,
    add_read_options,
    call_awaiting_approval,
    print_state,
    read_params,
)
from ..remedies import explain_refused_start
from ..replies import checked_state
from ..values import read_arguments

if TYPE_CHECKING:
    from ...client import Haft

_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
"""Characters of generated ids: no two of them look alike, as 1, l and i do."""
MAX_GENERATED_IDS = 20
"""Attempts to generate an id that no handle has."""
APPROVAL_MS = 250
"""How long a start that does not wait for output waits for an approval without a person: a remembered
one, or a program's."""
UNREAD = {"cursor": 0, "max_bytes": 0}
"""Params of a start whose reply is not shown: it has no output, and with a cursor neither output nor the
end is marked as read in the session."""
_END_S = 0.03
"""Longest wait for the end of a program that has just printed something: too short for a person to notice."""
FOLDER_OPTIONS = ("--cwd", "--chdir", "--workdir", "-C", "-w")
"""Options by which env (-C), docker (-w) and others take the folder; haft takes `--root`."""
VARIABLE_OPTIONS = ("--env", "-e")
"""Options by which docker takes variables; haft passes on the shell's variables."""
_COMMAND_TOOL = "run"

_ARGUMENT = re.compile(r"(?P<dashes>--)?(?P<key>[A-Za-z_][\w-]*)(?:=(?P<value>.*))?", re.DOTALL)

USAGE = "haft spawn TOOL [--id ID] [--arg KEY=VALUE]… [options] [-- COMMAND…]"
EPILOG = """\
Without --id the handle's id is generated from the tool's name, and shown with its state.
`key=value` is a string, which haftd reads as a number, true or false where the tool takes no string; `key:=json` is JSON. The words
after `--` become the argument `argv`, an array.

A tool whose definition asks for approval starts when `haft approve` permits it; --timeout-ms bounds the wait for that, too, and
counts anew from the start on. After it, and with --wait none, the command ends while the handle is pending.

examples:
  haft spawn run --id build --wait stopped --timeout-ms 600000 -- make -j4
  haft spawn run --id py --arg terminal:=true -- python3
  haft spawn run --id n --arg 'command=ls | wc -l'
  haft spawn run --id errors --stdin-from build -- grep -i error
  haft spawn shell --id sh
  haft spawn git_stage --id stage --args '{"paths": ["README.md"]}'
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tool", metavar="TOOL", help="the tool, as `haft tools` names it")
    parser.add_argument("--id", type=non_empty, help="the handle's id (by default generated)")
    parser.add_argument(
        "--arg", action="append", metavar="KEY=VALUE", help="one argument of the tool"
    )
    parser.add_argument(
        "--args", metavar="JSON", help="the tool's arguments as one JSON object (- reads stdin)"
    )
    parser.add_argument(
        "--call-id",
        type=non_empty,
        metavar="ID",
        help="the call's id: a second call with it starts nothing",
    )
    parser.add_argument(
        "--stdin-from", metavar="ID", help="the handle whose output becomes the tool's input"
    )
    parser.add_argument(
        "--clean-env", action="store_true", help="start in haftd's environment, not in this shell's"
    )
    add_read_options(parser, cursor=False, wait=WAIT_OF_A_PROGRAM)


def parse(parser: Parser, arguments: list[str], options: argparse.Namespace) -> None:
    words_before, options.words = split_at_dashes(arguments)
    parser.read(words_before, options)


def explain_unexpected(options: argparse.Namespace, words: Sequence[str]) -> str:
    """Return the error for words that the parser did not expect, with the command line that was
    probably meant.

    The first guess that fits is taken, the narrower ones first: `--env A=1` could also be arguments of the
    tool, and `key=value` a command.
    """
    tool, line = options.tool, shlex.join(words)
    name, is_joined, value = words[0].partition("=")
    rest = [value, *words[1:]] if is_joined else list(words[1:])
    if name in VARIABLE_OPTIONS and rest:
        return f"the environment is this shell's, as in: {shlex.quote(rest[0])} haft spawn {tool}"
    if name in FOLDER_OPTIONS and tool == _COMMAND_TOOL:
        folder = shlex.quote(rest[0]) if rest else "FOLDER"
        command = shlex.join(options.words or rest[1:]) or "COMMAND"
        return f"the folder is given by --root, as in: haft spawn run --root {folder} -- {command}"
    if arguments := _format_as_options(words):
        return f"an argument of the tool is given by --arg, as in: {arguments}"
    if tool == _COMMAND_TOOL:
        return f"write the command after --, as in: -- {line}"
    guesses = []
    if shutil.which(tool):
        guesses.append(f"a command is run by: haft run -- {shlex.join([tool, *words])}")
    if len(words) == 1 and re.fullmatch(ID_FORM, words[0]):
        guesses.append(f"the handle's id is given by --id, as in: haft spawn {tool} --id {line}")
    if guesses:
        return "; ".join(guesses)
    return f"only the tool `run` takes a command, after --, as in: haft run -- {line}"


def _format_as_options(words: Sequence[str]) -> str | None:
    """Return the words as options `--arg KEY=VALUE`, quoted for a shell; None unless all words are
    `key=value`, `--key=value` or `--key value`."""
    rest = list(words)
    pairs: list[str] = []
    while rest:
        match = _ARGUMENT.fullmatch(rest.pop(0))
        if match is None or (match["dashes"] and match["value"] is None and not rest):
            return None
        dashes, key, value = match.group("dashes", "key", "value")
        if value is None:
            if not dashes:
                return None
            value = rest.pop(0)
        pairs.append(f"--arg {shlex.quote(f'{key}={value}')}")
    return " ".join(pairs)


def run(options: argparse.Namespace) -> int:
    chosen_id = getattr(options, "id", None)
    source = getattr(options, "stdin_from", None)
    fields = drop_unset(
        tool=options.tool,
        args=read_arguments(
            getattr(options, "arg", []), getattr(options, "args", None), options.words
        ),
        call_id=getattr(options, "call_id", None),
        stdin_from=None if source is None else {"id": source},
        env=None if getattr(options, "clean_env", False) else read_environment(options),
        approval_timeout_ms=_approval_ms(options),
        **read_params(options),
    )
    with connect(options, start=True) as haft:
        for _ in range(MAX_GENERATED_IDS):
            options.id = chosen_id or generate_id(options.tool)
            try:
                reply = call_awaiting_approval(haft, options, "spawn", {**fields, "id": options.id})
                return print_state(haft, options, _print_until_end(haft, options, reply))
            except RemoteError as error:
                if chosen_id or error.kind != "handle_exists":
                    options.remedy = explain_refused_start(haft, options.tool, options.words, error)
                    raise
    raise UsageError(f"{MAX_GENERATED_IDS} generated ids were taken; choose one by --id")


def _approval_ms(options: argparse.Namespace) -> int | None:
    if getattr(options, "wait", None) == "none":
        return APPROVAL_MS
    timeout_ms: int | None = getattr(options, "timeout_ms", None)
    return timeout_ms


def _print_until_end(haft: Haft, options: argparse.Namespace, reply: bytes) -> bytes:
    """Return the state to print, encoded: `reply`, or the state after the end of a program that has
    printed something and ends within `_END_S`; then print the output in `reply`.

    Such output is often an error, and only the state after the end has the exit status and the hint at a
    sandbox. A program that asks a question counts as ended. Options for reading, and --json, leave `reply`
    as it is.
    """
    if options.json or read_params(options):
        return reply
    state = checked_state(reply)
    if state["state"] != "running" or state.get("waited") != "output":
        return reply
    try:
        encoded = haft.raw("await", {"all": [options.id], "timeout_secs": _END_S})
        awaited = msgspec.json.decode(encoded, type=_Awaited)
    except (RemoteError, msgspec.MsgspecError):
        return reply
    states = [*awaited.completed, *awaited.waiting]
    if not states:
        return reply
    # `await` returns only the output after the output of `reply`.
    show.write(show.text_of(state))
    return bytes(states[0])


class _Awaited(msgspec.Struct):
    completed: list[msgspec.Raw] = []
    waiting: list[msgspec.Raw] = []


def generate_id(tool: str) -> str:
    """Return a short handle id for this tool: `run-k7qx`."""
    base = re.sub(r"[^A-Za-z0-9_.-]", "-", tool).lstrip("_.-")[:40] or "handle"
    return f"{base}-{''.join(_LETTERS[byte % len(_LETTERS)] for byte in os.urandom(4))}"


def read_environment(
    options: argparse.Namespace, command: str = "haft spawn"
) -> dict[str, str] | None:
    """Return this shell's environment; None for another machine, where its paths lead nowhere.

    A variable that is not UTF-8 is left out, with a warning of `command` on stderr.
    """
    if is_remote(options):
        return None
    env: dict[str, str] = {}
    for name, value in os.environ.items():
        try:
            (name + value).encode()
        except UnicodeEncodeError:
            from ..words import show_bytes

            left_out = f"{name!r} is left out of the environment: it is not UTF-8"
            show.line(show_bytes(f"{command}: {left_out}"))
            continue
        env[name] = value
    return env
