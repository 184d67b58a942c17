"""`haft __complete`: the words that fit at the cursor, for the completions of bash, zsh and
fish.

The commands' own parsers give the options and arguments. Ids and other names come from a running
daemon, which has 200 ms to answer. After a failure there are no candidates. Each line of the output
is `value<TAB>description`, or a value alone.
"""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import MsgspecError, UnsetType, to_builtins

from haft_protocol.questions import Boolean, Question, Select
from haft_protocol.states import Stopped, Waiting

from ..errors import HaftError
from . import COMMANDS, show
from .host_list import host_list
from .options import Parser, UsageError, chosen_address, session
from .parsers import command_parser, top_parser
from .tool_arguments import arguments_of

if TYPE_CHECKING:
    from haft_protocol.handles import HandleInfo
    from haft_protocol.inquiries import Inquiry

    from ..client import Haft

Candidates = Iterable[tuple[str, str]]
"""Values with a description, which may be empty."""

_ANSWER_S = 0.2
_MAX_DESCRIPTION = 60
_NAMED_KEYS = (
    "Enter Tab Escape Space Backspace Delete Insert Up Down Left Right Home End PageUp PageDown"
)
_KEYS = [
    *_NAMED_KEYS.split(),
    *(f"F{number}" for number in range(1, 13)),
    *(f"C-{key}" for key in "acdelruwz\\"),
]
_HELP = ("help", "show the options of a command")
_UNCOMPLETED = frozenset(["run --id", "spawn --id", "spawn --call-id", "shell id"])
"""Options and arguments whose `ID` is a new name: existing ids are no candidates."""


def print_candidates(arguments: Sequence[str]) -> int:
    """Print the candidates for the last WORD of `CURRENT WORD…`.

    WORD… is the command line from `haft` to the word at the cursor, inclusive; CURRENT repeats that
    word.
    """
    candidates: list[tuple[str, str]] = []
    with suppress(HaftError, UsageError, OSError, MsgspecError, UnicodeError):
        if arguments:
            candidates = [*complete(arguments[2:])]  # without CURRENT and `haft`
    lines = (
        f"{value}\t{show.plain(description, _MAX_DESCRIPTION)}\n" if description else f"{value}\n"
        for value, description in dict(candidates).items()
        if value.isprintable()
    )
    show.write("".join(lines))
    return 0


def complete(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the candidates for the last of `words`, which are those after `haft`."""
    current = words[-1] if words else ""
    line = _Line(words[:-1])
    for value, description in line.candidates(current):
        if value.startswith(current):
            yield value, description


class _Line:
    """Words before the cursor, parsed without errors: the line is unfinished."""

    def __init__(self, words: Sequence[str]) -> None:
        self.parser = top_parser()
        self.command: str | None = None
        self._is_help = False
        """True for `haft help COMMAND`."""
        self.parsed: dict[str, list[str]] = {}
        """Values by an option's long form (`--session`) or an argument's name (`id`)."""
        self._open: argparse.Action | None = None
        """The last option, if it takes a value: the next word is that value if `nargs` is None,
        else may be."""
        self._behind: list[str] | None = None
        """The words after `--`."""
        for word in words:
            self._take(word)

    def candidates(self, current: str) -> Candidates:
        if self._behind is not None:
            return _programs(current) if not self._behind else _files(current)
        option, equals, value = current.partition("=")
        if equals and (action := self._option(option)) is not None:
            return ((f"{option}={v}", text) for v, text in self._values(action, value))
        if self._open is not None and self._open.nargs is None:
            return self._values(self._open, current)
        if current.startswith("-"):
            return () if self._is_help else self._options()
        if self._open is not None:
            return self._values(self._open, current)
        if self.command is None:
            return COMMANDS.items() if self._is_help else [*COMMANDS.items(), _HELP]
        if self._is_help:
            return ()
        positional = self._positional()
        return () if positional is None else self._values(positional, current)

    def _take(self, word: str) -> None:
        if self._behind is not None:
            self._behind.append(word)
        elif self._open is not None and (self._open.nargs is None or word[:1] != "-"):
            self._keep(self._open, word)
            if self._open.nargs not in ("+", "*"):
                self._open = None
        elif word == "--" and self.command is not None:
            self._behind, self._open = [], None
        elif word[:1] == "-" and word != "-":
            name, equals, value = word.partition("=")
            action = self._option(name)
            self._open = None
            if action is not None:
                self.parsed.setdefault(_name(action), [])
                if equals:
                    self._keep(action, value)
                elif action.nargs != 0:
                    self._open = action
        elif self.command is None:
            if word == "help" and not self._is_help:
                self._is_help = True
                self.parser = Parser("haft help")
            else:
                self.command = word
                self.parser = command_parser(word) if word in COMMANDS else Parser("haft")
        elif (positional := self._positional()) is not None:
            self._keep(positional, word)

    def _keep(self, action: argparse.Action, value: str) -> None:
        self.parsed.setdefault(_name(action), []).append(value)

    def _option(self, name: str) -> argparse.Action | None:
        return self.parser.option(name)

    def _positional(self) -> argparse.Action | None:
        for action in self.parser.positionals():
            if action.nargs in ("+", "*") or _name(action) not in self.parsed:
                return action
        return None

    def _options(self) -> Candidates:
        for action in self.parser.options():
            if isinstance(action, argparse._AppendAction) or _name(action) not in self.parsed:
                yield action.option_strings[-1], action.help or ""

    def _values(self, action: argparse.Action, current: str) -> Candidates:
        if action.choices is not None:
            return ((str(choice), "") for choice in action.choices)
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        if metavar == "ID" and f"{self.command} {_name(action)}" not in _UNCOMPLETED:
            used = self.parsed.get(_name(action), ())
            return (pair for pair in self._ids() if pair[0] not in used)
        if metavar in ("ANSWER", "VALUE"):
            return self._answers()
        if metavar == "TOOL":
            return self._tools()
        if metavar == "KEY=VALUE":
            return self._tool_arguments()
        if metavar == "NAME":
            source = {"--session": self._sessions, "--signal": _signals}.get(_name(action))
            return () if source is None else source()
        if metavar == "KEY":
            return ((key, "") for key in _KEYS)
        if metavar in ("FOLDER", "ROOT"):
            return _files(current, folders=True)
        if metavar in ("PATH", "FILE"):
            return _files(current)
        if metavar in _WORDS:
            return _WORDS[metavar]()
        return ()

    def _ids(self) -> Candidates:
        if self.command == "approve":
            listed = self._ask(
                lambda haft: haft.call("approvals/list", session=self._last("--session") or "*")
            )
            return [(a.approval_id, f"{a.id}: {a.tool}") for a in listed.approvals]
        if self.command == "answer":
            return [(i.inquiry_id, i.question.text) for i in self._inquiries()]
        only_live = self.command in ("abort", "apply", "attach", "await")
        return [
            (
                info.state.id,
                f"{show.state_word(to_builtins(info.state))}, {info.state.tool}: {info.command}",
            )
            for info in sorted(self._handles(), key=_urgency)
            if not (only_live and isinstance(info.state, Stopped))
        ]

    def _handles(self) -> Sequence[HandleInfo]:
        infos: Sequence[HandleInfo] = self._ask(lambda haft: haft.handles())
        return infos

    def _inquiries(self) -> Sequence[Inquiry]:
        listed = self._ask(
            lambda haft: haft.call("inquiries/list", session=self._last("--session") or "*")
        )
        inquiries: Sequence[Inquiry] = listed.inquiries
        return inquiries

    def _sessions(self) -> Candidates:
        listed = self._ask(lambda haft: haft.sessions())
        return [
            (each.session, f"{each.live} live, {each.stopped} stopped") for each in listed.sessions
        ]

    def _tools(self) -> Candidates:
        listed = self._ask(lambda haft: haft.tools())
        return [
            (
                # `tool` is the tool's own name where `name` had to be changed for a provider of
                # models.
                t.name if isinstance(t.tool, UnsetType) else t.tool,
                t.description.strip().partition("\n")[0],
            )
            for t in listed.tools
        ]

    def _tool_arguments(self) -> Candidates:
        """Yield `name=value` for each property of the tool's schema.

        The value is left open unless the schema lists the values.
        """
        name = self.parsed.get("tool", [""])[0]
        listed = self._ask(lambda haft: haft.tools())
        tool = next((t for t in listed.tools if name in (t.name, t.tool)), None)
        present = {
            pair.partition("=")[0].removesuffix(":") for pair in self.parsed.get("--arg", ())
        }
        arguments = arguments_of({} if tool is None else tool.parameters)
        for name, argument in sorted(arguments.items(), key=lambda item: not item[1].is_required):
            if name in present:
                continue
            values = [v for v in argument.schema.get("enum", ()) if isinstance(v, str)]
            text = argument.meaning
            if values:
                yield from ((f"{name}={value}", text) for value in values)
            elif argument.schema.get("type") == "boolean":
                yield from ((f"{name}={value}", text) for value in ("true", "false"))
            else:
                yield f"{name}{argument.sign}", text

    def _answers(self) -> Candidates:
        target = self.parsed.get("id", [""])[0]
        return _options_of(self._question(target))

    def _question(self, target: str) -> Question | None:
        if self.command == "answer":
            for inquiry in self._inquiries():
                if target in (inquiry.inquiry_id, inquiry.handle):
                    return inquiry.question
            return None
        for info in self._handles():
            if info.state.id == target and isinstance(info.state, Waiting):
                return info.state.question
        return None

    def _ask(self, call: Callable[[Haft], Any]) -> Any:
        from ..client import Haft
        from ..connection import open_connection

        options = argparse.Namespace(
            address=self._last("--host"),
            socket=self._last("--socket"),
            session=self._last("--session"),
        )
        chosen = session(options)
        connected = open_connection(chosen_address(options), timeout=_ANSWER_S)
        with Haft(connected, session=chosen, name="haft") as haft:
            haft.patience = _ANSWER_S
            return call(haft)

    def _last(self, name: str) -> str | None:
        values = self.parsed.get(name)
        return values[-1] if values else None


def _name(action: argparse.Action) -> str:
    return action.option_strings[-1] if action.option_strings else action.dest


def _urgency(info: HandleInfo) -> tuple[int, float]:
    """Return the sort key: handles that wait for a person, live handles, then stopped handles,
    latest first."""
    state = info.state
    if isinstance(state, Stopped):
        return 2, info.age_s - state.elapsed_ms / 1000
    return (0 if state.needs != "nothing" else 1), info.age_s


def _options_of(question: Question | None) -> Candidates:
    answer_type = None if question is None else question.answer_type
    if isinstance(answer_type, Boolean):
        return [("yes", ""), ("no", "")]
    if isinstance(answer_type, Select):
        return [(str(option), "") for option in answer_type.options]
    return ()


def _signals() -> Candidates:
    return ((each.name.removeprefix("SIG"), "") for each in signal.Signals)


def _hosts() -> Candidates:
    from ..mcp.hosts import HOSTS

    return ((name, "") for name in HOSTS)


# Candidates by the metavar of the option or argument.
_WORDS: dict[str, Callable[[], Candidates]] = {
    "HOST": _hosts,
    "ADDRESS": lambda: ((address, "") for _, address in host_list(None, os.environ)),
    "ACTION": lambda: ((name, "") for name in ("install", "uninstall", "import")),
    "COMMAND": COMMANDS.items,
    "PAGE": COMMANDS.items,
}


def _files(current: str, *, folders: bool = False) -> Iterator[tuple[str, str]]:
    folder, name = os.path.split(current)  # pathlib costs 5 ms
    with os.scandir(os.path.expanduser(folder) or ".") as entries:  # noqa: PTH111
        for entry in sorted(entries, key=lambda entry: entry.name):
            is_folder = entry.is_dir()
            # A hidden entry is a candidate only after a typed dot, as in a shell.
            if (folders and not is_folder) or (entry.name[:1] == "." != name[:1]):
                continue
            yield os.path.join(folder, entry.name) + "/" * is_folder, ""  # noqa: PTH118


def _programs(current: str) -> Iterator[tuple[str, str]]:
    if not current or "/" in current:
        yield from _files(current)
        return
    for folder in os.environ.get("PATH", "").split(":"):
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(current) and os.access(entry.path, os.X_OK):
                    yield entry.name, ""
