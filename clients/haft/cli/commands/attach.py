"""`haft attach`: join a handle's terminal to the person's own until detached.

A refusal precedes changes to the terminal and names an alternative; messages follow its
restoration.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys

from msgspec import UNSET, structs, to_builtins

from haft_protocol.states import HandleState, Pending, Stopped, Waiting

from ...errors import ConnectionLost, RemoteError
from .. import show
from ..options import UsageError, chosen_address, command_for, is_remote, open_address, session
from ..statuses import Status
from ..terminal.attachment import Attachment
from ..terminal.keyboard import prefix_key
from ..terminal.own_terminal import Overdue, OwnTerminal, drop_late_messages
from ..terminal.pollable_client import PollableClient
from ..typed_states import answer_example

EPILOG = r"""
Keys go to the program, except those after C-\ :
  C-\ d      detach; the program continues, and its terminal gets its old size back
  C-\ C-\    type C-\
  C-\ ?      show this
Where C-\ is hard to type, choose another key with --detach-key, or for good with HAFT_DETACH_KEY.

The program's terminal becomes as large as yours; the client that attached or resized last decides.
Other clients that read the handle miss nothing. A question that the handle asks is shown in the last
row and answered there. Your input is recorded in the audit log, except lines that a program reads
with its echo off, as sudo does: for a program that shows asterisks, give the password from another
terminal, with `haft apply ID --line - --secret`. When a signal ends it, attach exits with 128 plus
the signal's number.

examples:
  haft attach work
  haft attach editor --read-only          look on without typing or changing its size
  haft --session agent attach build       a handle of another session
"""

_INVALID_PARAMS = -32602


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the handle's name, as `haft ps` shows it")
    parser.add_argument(
        "-r", "--read-only", action="store_true", help="type nothing and change no size"
    )
    parser.add_argument(
        "--clipboard",
        action="store_true",
        help="let the program write to your clipboard (OSC 52), as vim and tmux do when they copy",
    )
    parser.add_argument(
        "--detach-key",
        metavar="KEY",
        help="the key that precedes a command to haft, such as C-a or C-] (default: HAFT_DETACH_KEY, else C-\\)",
    )


def run(options: argparse.Namespace) -> int:
    own, last = attach(options)
    return status_of(own, last)


def attach(options: argparse.Namespace) -> tuple[OwnTerminal | None, HandleState | None]:
    """Attach until the end or a detach, which are reported; return the terminal, unless the handle
    has stopped before, and the last state, unless the attach was detached."""
    if options.json:
        raise UsageError("attach has no --json: it is for a person; use `haft fetch --json`")
    _prefix(options)
    keys, screen = terminals(
        "attach", "use `haft apply` to type and `haft fetch --wait input` or `haft logs -f` to read"
    )
    named = session(options)
    connected = open_address(chosen_address(options), start=False)
    client = PollableClient(connected, session=named, name="haft attach")
    with client:
        state = _terminal_state(client, options)
        if isinstance(state, Stopped):
            show.show_line(to_builtins(_unasked(state)))
            logs = _command(options, "logs")
            show.line(f"{options.id}: it is not running; {logs} shows its output", "dim")
            return None, state
        own, last = join(options, client, (keys, screen))
    if last is not None and not _is_lost(own):
        with drop_late_messages():
            show.show_line(to_builtins(last))
    return own, last


def join(
    options: argparse.Namespace,
    client: PollableClient,
    terminal: tuple[int, int],
    *,
    inline: bool = False,
) -> tuple[OwnTerminal, HandleState | None]:
    """Join the handle `options.id` to the person's terminal; return the last state, or None after a
    detach, which is reported.

    With `inline` the output of a new handle follows the output of other commands, and a signal other than
    HUP is left to the caller.
    """
    own = OwnTerminal(*terminal)
    attached = Attachment(
        client,
        options.id,
        own,
        read_only=getattr(options, "read_only", False),
        clipboard=getattr(options, "clipboard", False),
        key=_prefix(options),
        inline=inline,
    )
    last: HandleState | None = None
    left = 0
    try:
        with own:
            try:
                last = attached.run()
            finally:
                attached.close()
        left = attached.leave()
    except Overdue:
        pass  # The line may be cut anywhere, so no message follows.
    except ConnectionLost as fault:
        raise ConnectionLost(
            f"{_loss(options, fault)}, so {options.id} is detached; "
            f"{_command(options, 'attach')} comes back if it still runs"
        ) from fault
    if _is_lost(own):
        return own, last
    is_forwarded = inline and own.ended_by not in (None, signal.SIGHUP)
    with drop_late_messages():
        if left:
            text = f"{options.id}: {left} typed characters were not sent to it"
            show.line(text, "yellow")
        if last is None and not is_forwarded:
            by = "" if own.ended_by is None else f" by {signal.Signals(own.ended_by).name}"
            _say_detached(options, f"detached{by}")
    return own, last


def _is_lost(own: OwnTerminal) -> bool:
    """True if no terminal takes a message."""
    return own.is_hung_up or own.has_dropped_output or own.is_stalled


def _loss(options: argparse.Namespace, fault: ConnectionLost) -> str:
    return str(fault) if is_remote(options) else "haftd has gone"


def status_of(own: OwnTerminal | None, last: HandleState | None) -> int:
    if last is not None:
        return Status.FAILED if show.failed(to_builtins(last)) else Status.DONE
    return 0 if own is None or own.ended_by is None else 128 + own.ended_by


def _prefix(options: argparse.Namespace) -> str:
    for name, key_name in (
        ("--detach-key", getattr(options, "detach_key", "")),
        ("HAFT_DETACH_KEY", os.environ.get("HAFT_DETACH_KEY", "")),
    ):
        if key_name:
            key = prefix_key(key_name)
            if key is None:
                raise UsageError(
                    f"{name} must be a key with Ctrl, such as C-a, C-] or C-\\, that types no other "
                    f"key (C-h, C-i, C-j, C-m and C-[ do), not {key_name!r}"
                )
            return key
    return "\\"


def terminals(command: str, alternative: str) -> tuple[int, int]:
    """Return the descriptors of the person's terminal. Raises `UsageError` with the alternative."""
    for stream, name in ((sys.stdin, "input"), (sys.stdout, "output")):
        if stream is None or not stream.isatty():
            raise UsageError(f"{command} needs a terminal as its standard {name}; {alternative}")
    return sys.stdin.fileno(), sys.stdout.fileno()


def _terminal_state(client: PollableClient, options: argparse.Namespace) -> HandleState:
    """Fetch the state and require a terminal; the read offset stays."""
    handle: str = options.id
    state = client.fetch(handle, cursor=0, max_bytes=0)
    if isinstance(state, Pending):
        raise UsageError(
            f"{handle} is not running yet: it awaits approval; decide with {_command(options, 'approve')}, then attach"
        )
    if isinstance(state, Stopped):
        return state
    try:
        return client.fetch(handle, view="screen", cursor=0, max_bytes=0)
    except RemoteError as refused:
        if refused.code != _INVALID_PARAMS:
            raise
        if isinstance(state, Waiting):
            example = _command(options, "answer", answer_example(state.question))
            raise UsageError(
                f"{handle} runs without a terminal and asks a question; answer it: {example}"
            ) from None
        fetch, follow, apply = (
            command_for(options, words)
            for words in (
                f"fetch {handle} --wait output",
                f"logs -f {handle}",
                f"apply {handle} --line …",
            )
        )
        raise UsageError(
            f"{handle} runs without a terminal; read it with {fetch} or {follow}, "
            f"send it input with {apply}"
        ) from None


def _unasked(state: Stopped) -> Stopped:
    """Drop the fields about output, which was not requested."""
    return structs.replace(state, omitted=UNSET, truncated=UNSET)


def _say_detached(options: argparse.Namespace, how: str) -> None:
    show.line(f"{options.id}: {how}; {_command(options, 'attach')} comes back", "dim")


def _command(options: argparse.Namespace, name: str, value: str = "") -> str:
    return command_for(options, f"{name} {options.id} {value}")
