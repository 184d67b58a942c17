"""`haft run`: a command as if started without haft; its handle outlives this client."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from functools import partial

from msgspec import UnsetType, to_builtins

from haft_protocol.states import Pending, Stopped

from ...errors import ConnectionLost, HaftError, RemoteError
from ...requests import drop_unset
from .. import show
from ..options import (
    Parser,
    UsageError,
    chosen_address,
    chosen_socket,
    command_for,
    is_remote,
    non_empty,
    open_address,
    report_silence,
    root_at,
    session,
    split_at_dashes,
)
from ..read_options import AwaitingApproval
from ..relay import STDIN, STDOUT, Relay
from ..remedies import explain_missing_program
from ..statuses import Status
from ..terminal.own_terminal import drop_late_messages
from ..terminal.pollable_client import PollableClient
from . import attach
from .spawn import (
    APPROVAL_MS,
    FOLDER_OPTIONS,
    MAX_GENERATED_IDS,
    UNREAD,
    VARIABLE_OPTIONS,
    generate_id,
    read_environment,
)

USAGE = "haft run [-d] [--rm] [--id ID] [options] -- COMMAND…"
EPILOG = r"""
Runs COMMAND in this folder and with this environment, in which haftd sets PAGER=cat and TERM, and on pipes
NO_COLOR. Its output, error output, input, signals and exit
status become those of `haft run`, as with `docker run`, so that it can be used in pipes and scripts.

In a terminal (standard input, output and error are all the same terminal) the command also gets a terminal, and keys go
to it; C-\ d detaches and leaves it running, as in `haft attach`. Otherwise, and in the background of a shell, it gets
pipes, with a separate standard error. -t and -T choose.

The command belongs to a handle of haftd: it keeps running when this client is killed, its terminal is closed, or
the connection is lost. With --host it runs on that machine, in its environment. `haft ps` lists it, `haft attach ID`
or `haft logs -f ID` returns to it, `haft abort ID` ends it. INT, TERM, HUP, QUIT, USR1, USR2 and WINCH are forwarded; TSTP stops the command and this client, CONT resumes
both. With a terminal, HUP only detaches.

exit status of run:
  0-255  the status of the command; 128 plus the number of the signal that ended it
  125    haft failed: no daemon, an invalid option, a refusal
  126    the command cannot be run
  127    the command was not found

examples:
  haft run -- make -j4
  haft run --rm -- sort < words > sorted
  id=$(haft run -d -- ./server) && haft logs -f "$id"
  haft run --id py -t -- python3
"""

_FAILED, _NOT_RUN, _NOT_FOUND = 125, 126, 127
_REASONS = {
    "program": _NOT_FOUND,
    "permission": _NOT_RUN,
    "format": _NOT_RUN,
    "interpreter": _NOT_RUN,
    "size": _NOT_RUN,
}
_DECODE = """\
for word do
shift
case $word in *'\\'*) word=$(printf '%b.' "$word") && word=${word%.};; esac
set -- "$@" "$word"
done
exec "$@"
"""
"""A program of any shell: execute the arguments; those with a backslash are escaped as for `printf %b`."""
_ESCAPES = {0xDC00 + byte: f"\\0{byte:03o}" for byte in range(0x80, 0x100)}
_MAX_SIZE = 1000


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--name", "--id", dest="id", type=non_empty, metavar="ID", help="the handle's name"
    )
    parser.add_argument(
        "-d", "--detach", action="store_true", help="print the handle's name, and do not wait"
    )
    parser.add_argument(
        "--rm", action="store_true", help="remove the handle and its output when it ends"
    )
    parser.add_argument("-t", "--terminal", action="store_true", help="give it a terminal")
    parser.add_argument("-T", "--no-terminal", action="store_true", help="give it pipes")
    parser.add_argument(
        "-i", "--interactive", action="store_true", help="accepted: input is always forwarded"
    )


def parse(parser: Parser, arguments: list[str], options: argparse.Namespace) -> None:
    options.failure_status = _FAILED
    own, options.words = split_at_dashes(arguments)
    parser.read(own, options)
    if options.words is not None and not options.words:
        raise UsageError("there is no command after --")


def explain_unexpected(options: argparse.Namespace, words: Sequence[str]) -> str | None:
    """Name the option or command that replaces one of env or docker."""
    name, is_joined, value = words[0].partition("=")
    rest = [value, *words[1:]] if is_joined else words[1:]
    command = shlex.join(options.words or rest[1:]) or "COMMAND"
    if name in FOLDER_OPTIONS:
        folder = shlex.quote(rest[0]) if rest else "FOLDER"
        return f"give the folder with --root, as in: haft run --root {folder} -- {command}"
    if name in VARIABLE_OPTIONS:
        variable = shlex.quote(rest[0]) if rest else "NAME=VALUE"
        return f"to set variables, use env: haft run -- env {variable} {command}"
    if options.words is not None or words[0].startswith("-"):
        return None
    return f"write the command after --, as in: haft run -- {shlex.join(words)}"


def run(options: argparse.Namespace) -> int:
    if options.json:
        raise UsageError("run has no --json: its output is the command's; use `haft spawn --json`")
    if not options.words:
        raise UsageError("name a command, as in: haft run -- make")
    terminal = _gets_terminal(options)
    args: dict[str, object] = {
        "argv": as_text(options.words),
        "terminal": terminal,
    }
    if terminal and not hasattr(options, "detach"):
        size = os.get_terminal_size(STDIN)
        if size.lines and size.columns:
            args |= {
                "rows": min(size.lines, _MAX_SIZE),
                "cols": min(size.columns, _MAX_SIZE),
            }
    fields = {
        "tool": "run",
        "args": args,
        **drop_unset(env=read_environment(options, "haft run")),
        "wait": "none",
        **UNREAD,
        "split_stderr": True,
        "retain": not hasattr(options, "rm"),
    }
    try:
        return _started(options, fields, terminal=terminal)
    except RemoteError as refused:
        if refused.kind == "spawn_failed":
            reason = str((refused.data or {}).get("reason"))
            options.failure_status = _REASONS.get(reason, _FAILED)
            is_here = not is_remote(options) and os.path.exists(options.words[0])  # noqa: PTH110
            if reason == "program" and is_here:
                options.failure_status = _NOT_RUN
            elif reason == "program":
                options.remedy = explain_missing_program(options.words)
        if refused.kind == "limit_exceeded" and (refused.data or {}).get("limit") == "max_values":
            raise UsageError(
                f"the command has {len(options.words):,} arguments, and one message has room for about 100,000 "
                "(`max_values`); pass fewer at a time, as xargs does"
            ) from refused
        raise


def as_text(words: Sequence[str]) -> list[str]:
    r"""Return a command whose arguments are UTF-8, as the protocol's are, and which executes `words`.

    >>> as_text(["ls", "a"]), as_text(["ls", "caf\udce9"])[-2:]
    (['ls', 'a'], ['ls', 'caf\\0351'])
    """
    try:
        "".join(words).encode()
    except UnicodeEncodeError:
        return ["sh", "-c", _DECODE, "haft", *map(_escaped, words)]
    return list(words)


def _escaped(word: str) -> str:
    data = os.fsencode(word.replace("\\", "\\\\"))
    return data.decode("utf-8", "surrogateescape").translate(_ESCAPES)


def _gets_terminal(options: argparse.Namespace) -> bool:
    wanted, refused = hasattr(options, "terminal"), hasattr(options, "no_terminal")
    if wanted and refused:
        raise UsageError("-t and -T cannot be combined")
    if wanted and not hasattr(options, "detach"):
        attach.terminals("run -t", "leave out -t, or use -d")
    on_terminals = all(
        stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)
    )
    return wanted or (
        on_terminals and not refused and not hasattr(options, "detach") and _is_in_foreground()
    )


def _is_in_foreground() -> bool:
    """Return False for a job in the background, which may not take its terminal."""
    try:
        return os.tcgetpgrp(STDIN) == os.getpgrp()
    except OSError:
        return False


def _started(options: argparse.Namespace, fields: dict[str, object], *, terminal: bool) -> int:
    id = getattr(options, "id", None)
    address = chosen_address(options)
    chosen, root = session(options), root_at(address, options)
    for _ in range(MAX_GENERATED_IDS):
        options.id = id or generate_id(os.path.basename(options.words[0]) or "run")  # noqa: PTH119
        client = PollableClient(
            open_address(address, start=True), session=chosen, root=root, name="haft run"
        )
        report_silence(client, options)
        try:
            with client:
                return _joined(options, client, {**fields, "id": options.id}, terminal=terminal)
        except RemoteError as refused:
            if id or refused.kind != "handle_exists":
                raise
        except ConnectionLost as fault:
            raise ConnectionLost(
                f"{fault}; `haft ps` shows whether {options.id} is still running"
            ) from fault
    raise UsageError(f"{MAX_GENERATED_IDS} generated ids were taken; choose one with --id")


def _joined(
    options: argparse.Namespace,
    client: PollableClient,
    fields: dict[str, object],
    *,
    terminal: bool,
) -> int:
    """Start the command, and act as its process until the end."""
    if hasattr(options, "detach"):
        options.waited_for = [options.id]
        state = client.finish(client.start("spawn", **fields, approval_timeout_ms=APPROVAL_MS))
        if isinstance(state, Pending):
            show.show_line(to_builtins(state))
        try:
            show.write(f"{options.id}\n")
        except show.OutputFailed as fault:
            raise show.OutputFailed(f"{fault}; {options.id} keeps running") from fault
        return Status.DONE
    if terminal:
        # HUP only detaches, and the others leave the terminal as it is until it is taken.
        with Relay(
            client,
            options.id,
            resume=_resumption(options),
            command_for=partial(command_for, options),
            forwarded=("INT", "TERM", "QUIT"),
        ) as starting:
            with AwaitingApproval(client, options, options.id):
                starting.start(client.start("spawn", **fields))
            starting.forward_signals()
        return _in_terminal(options, client)
    relay = Relay(
        client,
        options.id,
        resume=_resumption(options),
        command_for=partial(command_for, options),
    )
    client.hear(relay.hear)
    with relay:
        # The subscription follows at once: the command may be over before the reply to the spawn.
        spawned = client.start("spawn", **fields)
        followed = client.start(
            "subscribe",
            events=["state", "bytes"],
            handles=[options.id],
            backpressure=True,
            **{"from": {options.id: 0}},
        )
        with AwaitingApproval(client, options, options.id):
            relay.start(spawned)
        client.finish(followed)
        last = relay.run()
    _mark_read(options, client)
    return _status(last)


def _resumption(options: argparse.Namespace) -> list[str]:
    """Return the command that resumes the handle after a stop."""
    chosen = {
        "--host": options.address,
        "--socket": chosen_socket(options),
        "--session": session(options),
    }
    return [
        *(sys.executable, "-P", "-m", "haft", "apply"),
        *(f"{name}={value}" for name, value in chosen.items() if value),
        *("--signal", "CONT", "--wait", "none", "--", options.id),
    ]


def _in_terminal(options: argparse.Namespace, client: PollableClient) -> int:
    own, last = attach.join(options, client, (STDIN, STDOUT), inline=True)
    if isinstance(last, Stopped):
        with drop_late_messages():
            _mark_read(options, client)
            return _status(last)
    if own.ended_by in (None, signal.SIGHUP):
        return Status.DONE if own.ended_by is None else 128 + signal.SIGHUP
    name = signal.Signals(own.ended_by).name.removeprefix("SIG")
    client.apply(options.id, {"signal": name}, wait="none", cursor=0, max_bytes=0)
    return 128 + own.ended_by


def _mark_read(options: argparse.Namespace, client: PollableClient) -> None:
    """Read the shown end for the session, which else has a notice of it; no output is read."""
    with contextlib.suppress(HaftError):
        client.finish(client.start("fetch", id=options.id, max_bytes=0))


def _status(state: Stopped) -> int:
    """Return the exit status that a shell would have; report an end that haftd has caused."""
    if state.ended_by.by != "exit":
        show.show_line(to_builtins(state))
    status = exit_status(state)
    return _FAILED if status is None else status


def exit_status(state: Stopped) -> int | None:
    """Return the status that a shell has for this end; None if the program never ran."""
    if isinstance(state.exit, UnsetType):
        return None
    if not isinstance(state.exit.code, UnsetType):
        return state.exit.code
    return 128 + signal_number(str(state.exit.signal))


def signal_number(name: str) -> int:
    """Return the number of a signal as the daemon names it.

    >>> signal_number("TERM"), signal_number("RTMIN+3"), signal_number("33")
    (15, 37, 33)
    """
    if name.isdigit():
        return int(name)
    base, _, more = name.partition("+")
    return signal.Signals[f"SIG{base}"] + int(more or 0)
