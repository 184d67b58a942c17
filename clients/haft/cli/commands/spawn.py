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
from ..options import Parser, UsageError, connect, is_remote, non_empty, words_behind
from ..read_options import (
    WAIT_OF_A_PROGRAM,
    add_read_options,
    call_awaiting_approval,
    finish,
    read_params,
)
from ..remedies import of_refused_start
from ..replies import checked_state
from ..values import read_arguments

if TYPE_CHECKING:
    from ...client import Haft

_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
"""Without look-alikes."""
APPROVAL_MS = 250
"""Time for a decision without a person: remembered, or by a program."""
UNREAD = {"cursor": 0, "max_bytes": 0}
"""Params of a start whose output is not shown: neither that nor the end is read for the session."""
_TRIES = 20
_END_S = 0.03
"""Time for the end of a program that has printed something."""
_OF_A_READ = ("wait", "pattern", "timeout_ms", "quiet_ms", "view", "max_bytes")
FOLDER_OPTIONS = ("--cwd", "--chdir", "--workdir", "-C", "-w")
"""Options of env and docker in place of `--root`."""
VARIABLE_OPTIONS = ("--env", "-e")
_COMMAND_TOOL = "run"

_ARGUMENT = re.compile(r"(?P<dashes>--)?(?P<key>[A-Za-z_][\w-]*)(?:=(?P<value>.*))?", re.DOTALL)

USAGE = "haft spawn TOOL [--id ID] [--arg KEY=VALUE]… [options] [-- COMMAND…]"
EPILOG = """\
Without --id the handle's name is made from the tool's, and shown with its state.
`key=value` is a text, read as a number, true or false where the tool takes no text; `key:=json` is JSON. What stands behind `--`
becomes the argument `argv`, a list.

A tool whose definition asks first starts when `haft approve` allows it; --timeout-ms counts from then on. With
--wait none the handle is left pending.

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
    parser.add_argument("--id", type=non_empty, help="the handle's name (by default generated)")
    parser.add_argument(
        "--arg", action="append", metavar="KEY=VALUE", help="one argument of the tool"
    )
    parser.add_argument(
        "--args", metavar="JSON", help="its arguments as one object (- reads stdin)"
    )
    parser.add_argument(
        "--call-id",
        type=non_empty,
        metavar="ID",
        help="a repeated call with it starts nothing twice",
    )
    parser.add_argument("--stdin-from", metavar="ID", help="the handle whose output is its input")
    parser.add_argument(
        "--clean-env", action="store_true", help="the daemon's environment, not this shell's"
    )
    add_read_options(parser, cursor=False, wait=WAIT_OF_A_PROGRAM)


def parse(parser: Parser, arguments: list[str], options: argparse.Namespace) -> None:
    own, options.words = words_behind(arguments)
    parser.read(own, options)


def explain_unexpected(options: argparse.Namespace, words: Sequence[str]) -> str:
    """Return the error for a command, an id or arguments in place of options."""
    tool, spoken = options.tool, shlex.join(words)
    name, is_joined, value = words[0].partition("=")
    rest = [value, *words[1:]] if is_joined else list(words[1:])
    if name in VARIABLE_OPTIONS and rest:
        return f"the environment is this shell's, as in: {shlex.quote(rest[0])} haft spawn {tool}"
    if name in FOLDER_OPTIONS and tool == _COMMAND_TOOL:
        folder = shlex.quote(rest[0]) if rest else "FOLDER"
        command = shlex.join(options.words or rest[1:]) or "COMMAND"
        return f"the folder is given by --root, as in: haft spawn run --root {folder} -- {command}"
    if arguments := _as_arguments(words):
        return f"an argument of the tool is given by --arg, as in: {arguments}"
    if tool == _COMMAND_TOOL:
        return f"a command stands behind --, as in: -- {spoken}"
    meant = []
    if shutil.which(tool):
        meant.append(f"a command is run by: haft run -- {shlex.join([tool, *words])}")
    if len(words) == 1 and re.fullmatch(ID_FORM, words[0]):
        meant.append(f"the handle's name is given by --id, as in: haft spawn {tool} --id {spoken}")
    if meant:
        return "; ".join(meant)
    return f"only the tool `run` takes a command, behind --, as in: haft run -- {spoken}"


def _as_arguments(words: Sequence[str]) -> str | None:
    """Return the words as a tool's arguments if each is `key=value`, `--key=value` or `--key
    value`."""
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
    id = getattr(options, "id", None)
    source = getattr(options, "stdin_from", None)
    fields = drop_unset(
        tool=options.tool,
        args=read_arguments(
            getattr(options, "arg", []), getattr(options, "args", None), options.words
        ),
        call_id=getattr(options, "call_id", None),
        stdin_from=None if source is None else {"id": source},
        env=None if getattr(options, "clean_env", False) else environment(options),
        approval_timeout_ms=APPROVAL_MS if getattr(options, "wait", None) == "none" else None,
    )
    with connect(options, start=True) as haft:
        for _ in range(_TRIES):
            options.id = id or made_up_id(options.tool)
            full = {**fields, "id": options.id, **read_params(options)}
            try:
                started = call_awaiting_approval(haft, options, "spawn", full)
                return finish(haft, options, _with_end(haft, options, started))
            except RemoteError as refused:
                if id or refused.kind != "handle_exists":
                    options.remedy = of_refused_start(haft, options.tool, options.words, refused)
                    raise
    raise UsageError(f"{_TRIES} made-up names were taken; name the handle with --id")


def _with_end(haft: Haft, options: argparse.Namespace, started: bytes) -> bytes:
    """Return the state after the end of a program that ends just after its first output, which is
    often an error: its end has the status, and the hint at a sandbox. A question counts as an end,
    as the reply to `await` has the output before it."""
    if options.json or any(hasattr(options, name) for name in _OF_A_READ):
        return started
    state = checked_state(started)
    if state["state"] != "running" or state.get("waited") != "output":
        return started
    try:
        reply = haft.raw("await", {"all": [options.id], "timeout_secs": _END_S})
        awaited = msgspec.json.decode(reply, type=_Awaited)
    except (RemoteError, msgspec.MsgspecError):
        return started
    last = [*awaited.completed, *awaited.waiting]
    if not last:
        return started
    show.write(show.text_of(state))
    return bytes(last[0])


class _Awaited(msgspec.Struct):
    completed: list[msgspec.Raw] = []
    waiting: list[msgspec.Raw] = []


def made_up_id(tool: str) -> str:
    """Return a short handle id for this tool: `run-k7qx`."""
    base = re.sub(r"[^A-Za-z0-9_.-]", "-", tool).lstrip("_.-")[:40] or "handle"
    return f"{base}-{''.join(_LETTERS[byte % len(_LETTERS)] for byte in os.urandom(4))}"


def environment(options: argparse.Namespace, command: str = "haft spawn") -> dict[str, str] | None:
    """Return this shell's environment; None for another machine, where its paths lead nowhere."""
    if is_remote(options):
        return None
    environment: dict[str, str] = {}
    for name, value in os.environ.items():
        try:
            (name + value).encode()
        except UnicodeEncodeError:
            from ..words import show_bytes

            left_out = f"{name!r} is left out of the environment: it is not UTF-8"
            show.line(show_bytes(f"{command}: {left_out}"))
            continue
        environment[name] = value
    return environment
