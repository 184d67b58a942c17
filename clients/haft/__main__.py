"""`haft`: run one command; turn errors into one line and an exit status (`cli/statuses`).

Only the chosen command is loaded. A broken pipe is not reported.
"""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False  # `typing` takes 3 ms
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from .errors import RemoteError


_SYNONYMS = {
    "exec": "run",
    "start": "spawn",
    "kill": "abort",
    "rm": "abort",
    "list": "ps",
    "ls": "ps",
    "wait": "await",
    "send": "apply",
    "tail": "logs",
    "exit": "stop",
    "add": "run -d",
    "new": "shell",
    "new-session": "shell",
    "a": "attach",
    "attach-session": "attach",
    "list-sessions": "ps",
    "kill-session": "abort",
    "kill-server": "stop",
    "shutdown": "stop",
    "send-keys": "apply ID --keys",
    "capture-pane": "fetch ID --view screen",
    "follow": "logs -f",
    "inspect": "fetch",
    "info": "status",
    "top": "ps",
    "pause": "apply ID --signal STOP",
    "unpause": "apply ID --signal CONT",
    "resume": "apply ID --signal CONT",
}
"""Names of such commands in docker, tmux, pueue and shells, each with haft's name."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command of `arguments`, by default the process's; return the exit status."""
    if arguments is not None:
        return _status(list(arguments), is_program=False)
    try:
        from .interrupts import guard_imports, ignore_at_exit

        guard_imports()
        # Imports leave no garbage, for which they would be searched several times.
        gc.disable()
        status = _status(sys.argv[1:], is_program=True)
        ignore_at_exit()
        _exit_at_once(status)
    except KeyboardInterrupt:
        return 130
    return status


def _exit_at_once(status: int) -> None:
    """End the process without the interpreter's shutdown, a tenth of a short command.

    Return if the shutdown could do more: wait for a thread, call a function registered for the
    exit, report output that cannot be written.
    """
    gc.unfreeze()
    if "threading" in sys.modules or "atexit" in sys.modules:
        return
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        return
    os._exit(status)


def _status(arguments: list[str], *, is_program: bool) -> int:
    try:
        return _run(arguments, is_program=is_program)
    except KeyboardInterrupt:
        from .cli.statuses import Status

        return Status.INTERRUPTED
    except BrokenPipeError:
        # Raised by stdout only: socket errors have other names, stderr's are dropped.
        from .cli.show import discard_rest
        from .cli.statuses import Status

        discard_rest()
        return Status.BROKEN_PIPE


def _run(arguments: list[str], *, is_program: bool) -> int:
    from .import_stubs import load_argparse, load_msgspec

    load_argparse()
    import argparse

    if arguments[:1] == ["__complete"]:
        load_msgspec()
        from .cli.completion import print_candidates

        return print_candidates(arguments[1:])
    from .cli.options import UsageError
    from .cli.show import choose_colours
    from .errors import HaftError

    choose_colours("auto")

    options = argparse.Namespace(
        json=False, session=None, root=None, address=None, socket=None, name="haft"
    )
    try:
        run = _read(arguments, options)
        if is_program:
            gc.freeze()
            gc.enable()
        return run(options)
    except (HaftError, UsageError) as fault:
        return _report(options, fault)
    except UnicodeEncodeError as fault:
        # Text of the command line that is printed, or sent without the check of requests.
        return _report(options, UsageError(f"this text is not UTF-8: {fault.object!r}"))
    except KeyboardInterrupt:
        if ids := getattr(options, "waited_for", None):
            from .cli.options import command_for
            from .cli.show import line

            is_single = len(ids) == 1
            runs, them = (f"{ids[0]} runs", "it") if is_single else ("the handles run", "them")
            abort = command_for(options, f"abort {' '.join(ids)}")
            line(f"{options.name}: interrupted; {runs} on, {abort} ends {them}")
        elif withdrawn := getattr(options, "withdrawn", None):
            from .cli.show import line

            line(
                f"{options.name}: interrupted; {withdrawn} was not started: its start awaited approval"
            )
        raise
    except SystemExit:
        # argparse has shown its help.
        return 0


def _read(arguments: list[str], options: argparse.Namespace) -> Callable[[argparse.Namespace], int]:
    """Parse the command line into `options`; return the command's function. `options.name` begins
    error messages."""
    from .cli import COMMANDS
    from .cli.options import UsageError, suggestion
    from .cli.parsers import command_module, command_parser, top_parser

    top = top_parser()
    top.parse_args(arguments, options)
    name = "version" if getattr(options, "version", False) else getattr(options, "command", None)
    rest: list[str] = getattr(options, "rest", [])
    start = len(arguments) - len(rest)
    if arguments[start - 2 : start] == [name, "--"]:
        rest = ["--", *rest]
    if name == "help":
        if not rest or rest[0].startswith("-") or rest[0] == "help":
            top.print_help()
            top.exit()
        name, rest = rest[0], ["--help"]
    if name is None:
        raise UsageError("name a command, as in `haft run -- make`; `haft --help` lists all")
    if name not in COMMANDS:
        synonym = _SYNONYMS.get(name.lower())
        meant = f"; did you mean {synonym!r}?" if synonym else suggestion(name.lower(), COMMANDS)
        meant = meant or "; see `haft --help`"
        raise UsageError(f"there is no command {name!r}{meant}")
    options.command = name
    options.name = f"haft {name}"
    module = command_module(name)
    parser = command_parser(name)
    if hasattr(module, "parse"):
        module.parse(parser, rest, options)
    else:
        parser.read(rest, options)
    run: Callable[[argparse.Namespace], int] = module.run
    return run


def _report(options: argparse.Namespace, fault: Exception) -> int:
    from .cli import show
    from .cli.options import DAEMON_ENDED
    from .cli.statuses import status_of
    from .cli.words import in_our_words, show_bytes
    from .errors import ConnectionLost, NotRunning, NotUnicode, RemoteError

    kind, status = status_of(fault)
    if isinstance(fault, ConnectionLost) and _has_daemon_ended(options):
        fault = ConnectionLost(DAEMON_ENDED)
    message = show_bytes(str(fault))
    if isinstance(fault, NotRunning) and fault.remedy:
        message = f"{message}; {fault.remedy}"
    if isinstance(fault, NotUnicode):
        message = show_bytes(f"`{fault.field}` is not UTF-8: {fault.text!r}")
    error: dict[str, object] = {"kind": kind, "message": message}
    if isinstance(fault, RemoteError):
        error = {"code": fault.code, "kind": kind, "message": fault.message, "data": fault.data}
    text = in_our_words(message)
    if isinstance(fault, NotUnicode) and fault.field == "root" and options.root is None:
        text = "the name of this folder is not UTF-8"
        text = in_our_words(f"{text}: {fault.text!r}; name another with --root")
    text = show.plain(text, 1000)
    if isinstance(fault, RemoteError) and fault.kind == "handle_not_found":
        options.remedy = _explain_other_session(options, fault)
    if remedy := getattr(options, "remedy", None):
        # The daemon's advice on a missing program holds for one that was meant.
        text = text.partition(" Install it, ")[0].rstrip(".")
        text = f"{text}; {show.plain(remedy, 1000)}"
    show.line(f"{options.name}: {text}", "red")
    if isinstance(fault, show.OutputFailed):
        show.discard_rest()
    elif options.json:
        from .json_exchange import encode

        try:
            show.document(encode({"error": error}))
        except show.OutputFailed as unwritten:
            # The first error decides the exit status.
            _report(options, unwritten)
    return getattr(options, "failure_status", status)


def _explain_other_session(options: argparse.Namespace, fault: RemoteError) -> str | None:
    """Name the command for each handle of this id in other sessions, those still running if there
    are any; None if there is no handle. Waits up to a second for the daemon's list."""
    import json
    import shlex

    from .cli.options import command_in, connect_plainly
    from .errors import HaftError

    name = fault.data.get("id") if isinstance(fault.data, dict) else None
    try:
        with connect_plainly(options) as haft:
            haft.patience, haft.silence = 1.0, None
            listed = json.loads(haft.raw("handles/list", {"session": "*"}))["handles"]
        found = [(each["session"], each["state"]) for each in listed if each["id"] == name]
    except (HaftError, KeyError, TypeError, ValueError):
        return None
    live = [session for session, state in found if state != "stopped"]
    words = f"{options.command} {shlex.quote(str(name))}"
    commands = [
        command_in(options, session, words) for session in live or [session for session, _ in found]
    ]
    state = "runs" if live else "has ended"
    return (
        f"one of this name {state} in another session: {' or '.join(commands)}" if found else None
    )


def _has_daemon_ended(options: argparse.Namespace) -> bool:
    """True if no daemon listens on this machine; False for another machine's."""
    from .blocking_connection import BlockingConnection
    from .cli.options import chosen_address
    from .daemon_socket import open_daemon
    from .errors import ConnectionLost, HaftError, NotRunning
    from .json_exchange import JsonExchange
    from .local_address import Local

    try:
        address = chosen_address(options)
        if isinstance(address, Local):
            # A killed process's socket may take connections for a moment.
            connected = open_daemon(address.socket, timeout=1.0)
            with BlockingConnection(connected, JsonExchange(), name="haft", patience=1.0) as haft:
                haft.raw("ping")
    except (NotRunning, ConnectionLost):
        return True
    except HaftError:
        pass
    return False


if __name__ == "__main__":
    sys.exit(main())
