"""Parsers of the command line and of each command, for reading, help, completion and manual pages;
a command's module is imported when its parser is requested."""

from __future__ import annotations

import argparse
from importlib import import_module

from . import COMMANDS, PLAIN, STARTERS
from .options import Parser, common

TYPE_CHECKING = False  # `typing` takes 3 ms
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

ABOUT = "Keeps tools running for you: start one, read its output, send it input, end it."


def _overview() -> str:
    from .statuses import table

    starters = f"{', '.join(STARTERS[:-1])} and {STARTERS[-1]}"
    lines = "".join(f"  {name:12}{summary}\n" for name, summary in COMMANDS.items())
    return f"""\
commands:
{lines}
`haft help COMMAND` shows the options of one. {starters} start a
daemon when none answers; the others say that there is none.

exit status:
{table()}
run exits with the status of its command, see `haft help run`; shell with the status of the shell.

examples:
  haft spawn run --id build -- make -j4
  haft logs build -f
  haft ps
  haft help spawn
"""


def top_parser() -> Parser:
    top = Parser("haft", usage="haft [options] COMMAND …", about=ABOUT, epilog=_overview)
    common(top)
    top.add_argument("-V", "-v", "--version", action="store_true", help="show the versions")
    top.add_argument("command", nargs="?", metavar="COMMAND", help="see below")
    top.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return top


def command_module(name: str) -> ModuleType:
    if name not in PLAIN:
        from ..import_stubs import load_msgspec

        load_msgspec()
    stem = "await_" if name == "await" else name
    return import_module(f".commands.{stem}", __package__)


def command_parser(name: str) -> Parser:
    module: Any = command_module(name)
    parser = Parser(
        f"haft {name}",
        usage=getattr(module, "USAGE", None),
        about=COMMANDS[name][:1].upper() + COMMANDS[name][1:] + ".",
        epilog=module.EPILOG,
        explain_unexpected=getattr(module, "explain_unexpected", None),
    )
    if configure := getattr(module, "configure", None):
        configure(parser)
    common(parser)
    return parser
