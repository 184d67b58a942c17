"""Questions at the terminal: shown on stderr, answered on stdin; only an explicit yes confirms."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

from haft_protocol.methods import HandleInfo
from haft_protocol.states import Stopped

from ..client import Haft
from . import show
from .options import UsageError

_MAX_NAMED = 20
_TRIES = 3

Answer = TypeVar("Answer")


def can_ask() -> bool:
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def ask(question: str) -> bool:
    show.line(f"{question} [y/N]", "bold")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def ask_choice(read: Callable[[str], Answer], explained: Sequence[str], unanswered: str) -> Answer:
    """Return a typed line as `read` converts it; `?` shows the lines `explained`.

    A line for which `read` raises `UsageError` is asked for again, twice. The end of the input
    raises one with the text `unanswered`.
    """
    wrong = 0
    while typed := sys.stdin.readline():
        line = typed.removesuffix("\n")
        try:
            return read(line)
        except UsageError as fault:
            if line.strip() == "?":
                for text in explained:
                    show.line(text)
                continue
            wrong += 1
            if wrong == _TRIES:
                raise
            show.line(f"{show.plain(str(fault))}; ? explains the choices", "yellow")
    raise UsageError(unanswered)


def ask_value(text: str, *, is_secret: bool) -> str:
    """Show the text; return the typed line, without an echo for a secret."""
    if is_secret:
        from getpass import getpass

        return getpass(f"{show.plain(text)}: ")
    show.line(f"{show.plain(text)}:", "bold")
    return sys.stdin.readline().strip()


def live_handles(haft: Haft) -> list[HandleInfo]:
    live = [info for info in haft.handles("*") if not isinstance(info.state, Stopped)]
    return sorted(live, key=lambda info: -info.age_s)


def handle_names(handles: Sequence[HandleInfo]) -> str:
    """Name handles in one line: `2 handles: work (shell), agent/build (run)`."""
    names = [
        f"{'' if info.state.session == 'default' else f'{info.state.session}/'}{info.state.id} "
        f"({info.state.tool})"
        for info in handles
    ]
    if len(names) > _MAX_NAMED:
        names[_MAX_NAMED:] = [f"and {len(names) - _MAX_NAMED} more"]
    return f"{len(handles)} handle{'' if len(handles) == 1 else 's'}: {', '.join(names)}"
