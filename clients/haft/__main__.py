"""`haft`: find the command, run it, and turn what goes wrong into one line and an exit status.

Rules: only the command that was asked for is loaded. Ctrl-C ends it with 130 and a broken pipe
with 141, both without a word: those are the shell's own numbers for them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

__all__ = ["main"]

OK, FAILED, USAGE, NO_DAEMON, PROTOCOL = range(5)
INTERRUPTED, BROKEN_PIPE = 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit status."""
    try:
        status = _run(list(sys.argv[1:] if arguments is None else arguments))
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Only stdout raises it: the socket's errors have other names. Python flushes once more at
        # its end, and must find someone who takes it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return BROKEN_PIPE
    return status


def _run(arguments: list[str]) -> int:
    import argparse

    from .loading import load_msgspec

    load_msgspec()
    from .cli.options import UsageError
    from .errors import HaftError

    options = argparse.Namespace(json=False, session=None, root=None, socket=None, name="haft")
    try:
        return _read(arguments, options)(options)
    except (HaftError, UsageError) as fault:
        return _report(options.name, fault, options.json)
    except SystemExit as end:
        # argparse has shown its help.
        return end.code if isinstance(end.code, int) else OK


def _read(arguments: list[str], options: argparse.Namespace) -> Callable[[argparse.Namespace], int]:
    """Read the command line into `options`: those before the command, the command, what is its own;
    returns what runs it. `options.name` is what errors begin with."""
    import argparse
    from importlib import import_module

    from .cli import COMMANDS
    from .cli.options import Parser, UsageError, common

    top = Parser("haft", usage="haft [options] COMMAND …", about=_ABOUT, epilog=_overview(COMMANDS))
    common(top)
    top.add_argument("--version", action="store_true", help="show the versions")
    top.add_argument("command", nargs="?", metavar="COMMAND", help="see below")
    top.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    top.parse_args(arguments, options)
    name = "version" if getattr(options, "version", False) else getattr(options, "command", None)
    if name is None:
        raise UsageError(f"name a command: {', '.join(COMMANDS)}; see `haft --help`")
    if name not in COMMANDS:
        raise UsageError(f"there is no command {name!r}; see `haft --help`")
    options.name = f"haft {name}"
    module = import_module(f".cli.{name}_" if name == "await" else f".cli.{name}", __package__)
    parser = Parser(
        options.name,
        usage=getattr(module, "USAGE", None),
        about=COMMANDS[name][:1].upper() + COMMANDS[name][1:] + ".",
        epilog=module.EPILOG,
        beyond=getattr(module, "beyond", None),
    )
    module.configure(parser)
    common(parser)
    rest: list[str] = getattr(options, "rest", [])
    if hasattr(module, "parse"):
        module.parse(parser, rest, options)
    else:
        parser.read(rest, options)
    run: Callable[[argparse.Namespace], int] = module.run
    return run


def _report(name: str, fault: Exception, as_json: bool) -> int:
    from .cli import show
    from .cli.options import UsageError
    from .cli.words import in_our_words
    from .errors import Misplaced, ProtocolFault, RemoteError, ReplyTimeout, SetupFailed

    error: dict[str, object] = {"kind": "unreachable", "message": str(fault)}
    status = NO_DAEMON
    if isinstance(fault, UsageError | Misplaced):
        error["kind"], status = "usage", USAGE
    elif isinstance(fault, SetupFailed):
        error["kind"], status = "setup", FAILED
    elif isinstance(fault, RemoteError):
        error = {
            "code": fault.code,
            "kind": fault.kind,
            "message": fault.message,
            "data": fault.data,
        }
        status = PROTOCOL
    elif isinstance(fault, ReplyTimeout | ProtocolFault):
        error["kind"], status = "protocol", PROTOCOL
    show.line(f"{name}: {show.plain(in_our_words(str(fault)), 1000)}", "red")
    if as_json:
        import msgspec

        show.document(msgspec.json.encode({"error": error}))
    return status


_ABOUT = "Holds running tools for you: start one, read it, give it input, end it."


def _overview(commands: Mapping[str, str]) -> str:
    lines = "".join(f"  {name:10}{what}\n" for name, what in commands.items())
    return f"""\
commands:
{lines}
spawn, shell, tools and trust start a daemon when none answers; the others say that there is none.

exit status:
  0 done   1 the tool failed   2 usage   3 no daemon   4 the daemon refused or did not answer
  5 the time of an await ran out

examples:
  haft spawn run --id build -- make -j4
  haft logs build -f
  haft ps
  haft spawn --help
"""


if __name__ == "__main__":
    sys.exit(main())
