"""Manual pages in man(7), made from the same parsers and texts as the help.

Source: groff_man(7). `mandoc -Tlint` accepts each page.
"""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from textwrap import wrap

from .. import __version__
from . import COMMANDS
from .options import Parser
from .parsers import ABOUT, command_parser, top_parser
from .statuses import Status, table

_WIDTH = 60
_HEADING = re.compile(r"(\w[\w ]*):")
_SPECIAL = str.maketrans(
    {"\\": r"\e", "-": r"\-", "^": r"\(ha", "~": r"\(ti", "`": r"\(ga", "'": r"\(aq"}
)
_ENVIRONMENT = (
    ("HAFT_HOST", "the address of a daemon on another machine"),
    ("HAFT_SSH", "the ssh program with its options, instead of ssh"),
    ("HAFT_TOKEN_FILE", "the token of a daemon at a WebSocket"),
    ("HAFT_SOCKET", "the daemon's socket"),
    ("HAFT_SESSION", "the session of commands without --session"),
    ("XDG_RUNTIME_DIR", "the socket is in its folder haft"),
    ("XDG_CONFIG_HOME, XDG_STATE_HOME", "configuration; logs, trust and kept output"),
    ("NO_COLOR", "if not empty: no colours without --color"),
)


def pages() -> dict[str, str]:
    return {"haft": "", **{f"haft-{command}": command for command in COMMANDS}}


def page(name: str) -> str:
    """Return a page of section 1; raise KeyError for an unknown name."""
    command = pages()[name]
    parser = command_parser(command) if command else top_parser()
    summary = COMMANDS[command] if command else ABOUT[:1].lower() + ABOUT[1:].rstrip(".")
    lines = [
        f'.TH {_line(name.upper())} 1 {_date()} "haft {__version__}" "User Commands"',
        ".SH NAME",
        _text(f"{name} - {summary}"),
        ".SH SYNOPSIS",
        *_synopsis(parser),
        ".SH DESCRIPTION",
        *(_description(parser) or [_text(parser.description or "")]),
        *_options(parser),
        *_sections(parser.explanation),
    ]
    if command:
        if "\nexit status" not in (parser.explanation):
            lines += [".SH EXIT STATUS", *_statuses()]
        lines += [".SH SEE ALSO", ".BR haft (1)"]
    else:
        commands = ((f"haft-{each}(1)", text) for each, text in COMMANDS.items())
        lines += [".SH COMMANDS", *_definitions(commands)]
        lines += [".SH ENVIRONMENT", *_definitions(_ENVIRONMENT)]
    return "\n".join(line for line in lines if line) + "\n"


def _date() -> str:
    """Return the date of the texts: of a reproducible build, else of this file."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    moment = float(seconds) if seconds else Path(__file__).stat().st_mtime
    return time.strftime("%Y-%m-%d", time.gmtime(moment))


def _line(text: str) -> str:
    """Quote a line for roff, so that a control character at its beginning makes no request."""
    quoted = text.translate(_SPECIAL)
    return rf"\&{quoted}" if quoted[:1] in (".", "'") else quoted


def _text(text: str) -> str:
    """Quote prose for roff, in lines that its formatter joins again."""
    return "\n".join(map(_line, wrap(text, _WIDTH, break_on_hyphens=False, break_long_words=False)))


def _synopsis(parser: Parser) -> Iterator[str]:
    usage = " ".join(parser.format_usage().split()).removeprefix("usage: ")
    words = usage.split(" ")
    count = len(parser.prog.split())
    yield f".B {_line(' '.join(words[:count]))}"
    if words[count:]:
        yield _text(" ".join(words[count:]))


def _description(parser: Parser) -> list[str]:
    """Return the paragraphs before the first heading of the epilog."""
    return [*_prose(_blocks(parser.explanation)[0][1])]


def _sections(epilog: str) -> Iterator[str]:
    for heading, lines in _blocks(epilog)[1:]:
        if heading in ("commands",):
            continue
        yield f".SH {heading.upper()}"
        if heading == "exit status":
            yield from _statuses()
        else:
            yield from _prose(lines)


def _blocks(epilog: str) -> list[tuple[str, list[str]]]:
    """Split a text at its headings; the first block has none."""
    blocks: list[tuple[str, list[str]]] = [("", [])]
    for line in epilog.splitlines():
        if match := _HEADING.fullmatch(line):
            blocks.append((match[1], []))
        else:
            blocks[-1][1].append(line)
    return blocks


def _prose(lines: Sequence[str]) -> Iterator[str]:
    """Yield paragraphs; indented lines stay as they are."""
    is_first = True
    for kind, group in groupby(lines, _kind):
        block = list(group)
        if kind == "verbatim":
            yield from (".EX", *map(_line, block), ".EE")
        elif kind == "prose":
            if not is_first:
                yield ".PP"
            yield _text(" ".join(line.strip() for line in block))
        is_first = is_first and kind == "blank"


def _kind(line: str) -> str:
    if not line.strip():
        return "blank"
    return "verbatim" if line.startswith(" ") else "prose"


def _options(parser: Parser) -> Iterator[str]:
    yield ".SH OPTIONS"
    yield from _definitions(
        (_invocation(action), action.help or "")
        for action in [*parser.positionals(), *parser.options()]
        if action.help or action.option_strings
    )


def _invocation(action: argparse.Action) -> str:
    if not action.option_strings:
        return str(action.metavar or action.dest)
    value = ""
    if action.nargs != 0:
        value = f" {{{','.join(map(str, action.choices))}}}" if action.choices else ""
        value = f" {action.metavar or value.strip() or action.dest.upper()}"
    return ", ".join(f"{name}{value}" for name in action.option_strings)


def _definitions(entries: Iterable[tuple[str, str]]) -> Iterator[str]:
    for term, text in entries:
        yield ".TP"
        yield f".B {_line(term)}"
        yield _text(text.replace("%%", "%") or "No further options.")


def _statuses() -> Iterator[str]:
    for line in table().splitlines():
        status, _, meaning = line.strip().partition(" ")
        yield ".TP"
        yield f".B {Status(int(status)).value}"
        yield _text(meaning.strip())
