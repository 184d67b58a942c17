"""What every command understands, and how it is read.

Rules: an option stands before or behind the command; a mistake is one line and exit status 2.
"""

from __future__ import annotations

import argparse
import os
from typing import NoReturn

from ..client import Haft
from ..connecting import find_socket

__all__ = ["Parser", "UsageError", "chosen_socket", "common", "connect", "session", "words_behind"]


_PATIENCE_S = 10.0
"""How long a daemon may take to start: twice what a busy machine needed. One that ends is not
waited for."""


class UsageError(Exception):
    """The command line is wrong; the message says how."""


class _Help(argparse.RawDescriptionHelpFormatter):
    """Keeps the examples as they are written."""

    def __init__(self, prog: str) -> None:
        # Without a width argparse loads shutil for it, at every option that is added.
        width = os.environ.get("COLUMNS", "")
        super().__init__(
            prog,
            max_help_position=28,
            width=int(width) if width.isdecimal() and len(width) < 6 else 100,
        )


class Parser(argparse.ArgumentParser):
    """An argparse parser whose errors are exceptions."""

    def __init__(
        self, prog: str, *, usage: str | None = None, about: str = "", epilog: str = ""
    ) -> None:
        super().__init__(
            prog=prog,
            usage=usage,
            description=about,
            epilog=epilog,
            formatter_class=_Help,
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
        )

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see `{self.prog} --help`")


def common(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command."""
    group = parser.add_argument_group("common options")
    group.add_argument("--json", action="store_true", help="one JSON document on stdout")
    group.add_argument(
        "--session", metavar="NAME", help="the session (else HAFT_SESSION, else `default`)"
    )
    group.add_argument("--root", metavar="FOLDER", help="the folder tools work in (else this one)")
    group.add_argument(
        "--socket", metavar="PATH", help="the daemon's socket (else HAFT_SOCKET, else the user's)"
    )


def session(options: argparse.Namespace) -> str | None:
    """The session that was named, by option or environment."""
    named: str | None = options.session
    return named or os.environ.get("HAFT_SESSION") or None


def connect(options: argparse.Namespace, *, start: bool = True) -> Haft:
    """Connect for a command; with `start` a daemon is started when none answers."""
    return Haft.connect(
        find_socket(chosen_socket(options)),
        autostart=start,
        session=session(options),
        root=_root(options),
        name="haft",
        timeout=_PATIENCE_S,
    )


def words_behind(arguments: list[str]) -> tuple[list[str], list[str] | None]:
    """Split at the first `--`: what is behind it is a command of its own, not options."""
    if "--" not in arguments:
        return arguments, None
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def chosen_socket(options: argparse.Namespace) -> str | None:
    """The socket that was named by an option."""
    return None if options.socket is None else _absolute(options.socket)


def _absolute(path: str) -> str:
    # Not pathlib's `resolve`, which follows links, and not pathlib: 5 ms of every command.
    return os.path.abspath(path)  # noqa: PTH100


def _root(options: argparse.Namespace) -> str:
    try:
        return _absolute(options.root or ".")
    except OSError:
        raise UsageError("the folder this runs in is gone; name one with --root") from None
