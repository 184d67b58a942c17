"""Options of every command, and the parser.

Options may come before or after the command's name. A wrong command line is reported in one line,
with exit status 2.

An absent option is an absent attribute of the namespace, except `json`, `session`, `root`,
`address` (of --host) and `socket`, which are always there. So is `name`, which begins messages
(`haft run`), and `command` (`run`) once the command is known.
"""

from __future__ import annotations

import argparse
import os
import re
from functools import partial

from ..errors import HaftError
from . import show

TYPE_CHECKING = False  # `typing` takes 3 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, NoReturn

    from ..addresses import Address
    from ..blocking_connection import BlockingConnection
    from ..client import Haft
    from ..daemon_socket import Socket

    Explain = Callable[[argparse.Namespace, Sequence[str]], str | None]
    """A command's message about unexpected words."""

_PATIENCE_S = 10.0
"""Seconds allowed for a connection: twice what a busy machine was seen to take."""
_START_S = 30.0
"""Seconds allowed for a start of haftd: the first may compile some hundred modules to bytecode."""
_UNANSWERED_S = 4.0
"""Seconds without a reply, after which haftd is pinged on a second connection."""
_PING_S = 2.0
"""Seconds allowed for the reply to this ping."""

_START_REMEDY = "`haft run`, `haft spawn` or `haft shell` starts it"

DAEMON_ENDED = "haftd has ended, and all handles with it; `haft doctor` looks for problems"

MAX_WHOLE = 2_000_000_000
"""Default bound of whole numbers: more than is asked of any count, and as milliseconds 23 days, a
time limit that every system call takes."""

MAX_OFFSET = (1 << 53) - 1
"""The greatest offset of the protocol: numbers of JSON are exact up to there."""

_MIN_COLUMNS = 40
_DEEP = " " * 8
_DEEPER = "    "

# Compiled at first use, which most commands do without.
_WORD_OF_SHELL = r"""(?:'[^']*'|"[^"]*"|[^\s'"])+"""
_PIECE = r"[^ ,|]*[ ,|]*"
_TWO_COLUMNS = r"( +\S.*?) {2,}(\S.*)"
_MISSING = "the following arguments are required: "
_WANTS_MORE = r"argument (?:-\w/)?(--[\w-]+): expected (?:at least )?one argument"


class UsageError(Exception):
    """Wrong command line; the message names the fault."""


class UnknownId(UsageError):
    """No open question and no action that awaits approval has this id."""


class ApprovalTimedOut(HaftError):
    """An action, withdrawn as its approval was not given in time."""


class FolderGone(UsageError):
    """The working folder has been removed."""


class _Help(argparse.RawDescriptionHelpFormatter):
    """Wraps prose at the terminal's width, but not indented lines."""

    def __init__(self, prog: str) -> None:
        # Without a width argparse loads shutil at every added option.
        super().__init__(prog, max_help_position=28, width=max(show.columns(), _MIN_COLUMNS))

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        from textwrap import fill

        lines: list[str] = []
        prose: list[str] = []
        for line in [*text.splitlines(), ""]:
            if line[:1].strip():
                prose.append(line)
                continue
            if prose:
                lines.append(fill(" ".join(prose), width, break_on_hyphens=False))
                prose = []
            example = re.fullmatch(_TWO_COLUMNS, line)
            if len(line) > width and example is not None:
                # Where an example and its explanation do not fit on one line, the explanation goes
                # below.
                lines += [
                    *_folded_command(example[1], width),
                    fill(example[2], width, initial_indent=_DEEP, subsequent_indent=_DEEP),
                ]
            else:
                lines += _folded_command(line, width)
        return "\n".join(lines)

    def format_help(self) -> str:
        lines = super().format_help().splitlines()
        return "".join(f"{part}\n" for line in lines for part in _folded(line, self._width))


def _folded_command(line: str, width: int) -> list[str]:
    """Break a long command between its words, as a shell reads it; a word is never broken."""
    if len(line) <= width:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    first, *words = re.findall(_WORD_OF_SHELL, line)
    lines = [indent + first]
    for word in words:
        # Room for the backslash, which the last line does without.
        if len(f"{lines[-1]} {word}") + 2 <= width:
            lines[-1] += f" {word}"
        else:
            lines[-1] += " \\"
            lines.append(indent + _DEEPER + word)
    return lines


def _folded(line: str, width: int) -> list[str]:
    """Break a long line after a space, a comma or a bar; lines of a command are left alone."""
    if len(line) <= width or line.endswith("\\") or "'" in line:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    lines = [indent]
    for piece in re.findall(_PIECE, line.lstrip()):
        if len(lines[-1] + piece.rstrip()) > width and lines[-1].strip():
            lines.append(indent + _DEEPER)
        lines[-1] += piece
    return [text.rstrip() for text in lines]


class _Colours(argparse.Action):
    """Takes effect at once: a later word may be a mistake that is reported in colour."""

    def __call__(self, parser: object, options: object, value: Any, option: object = None) -> None:
        show.choose_colours(value)


class Parser(argparse.ArgumentParser):
    def __init__(
        self,
        prog: str,
        *,
        usage: str | None = None,
        about: str = "",
        epilog: str | Callable[[], str] = "",
        explain_unexpected: Explain | None = None,
    ) -> None:
        super().__init__(
            prog=prog,
            usage=usage,
            description=about,
            formatter_class=_Help,
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
        )
        self._words: Sequence[str] = ()
        self._explain_unexpected = explain_unexpected
        self._epilog = epilog

    def read(self, words: Sequence[str], options: argparse.Namespace) -> None:
        """Read a command's words into `options`; options may be anywhere among them."""
        self._words = words
        _, left = self.parse_known_args(words, options)
        _, after = split_at_dashes(list(words))
        spare = [word for word in left if word != "--"]
        # argparse leaves optional positionals empty as soon as an option follows.
        loose = [word for word in spare if word == "-" or word[:1] != "-" or word in (after or ())]
        for action in self._get_positional_actions():
            if loose and action.nargs == "?" and not hasattr(options, action.dest):
                taken = loose[:1]
                setattr(options, action.dest, taken[0])
            elif loose and action.nargs in ("*", "+"):
                taken = loose[:]
                setattr(options, action.dest, [*getattr(options, action.dest, []), *taken])
            else:
                continue
            del loose[: len(taken)]
            for word in taken:
                spare.remove(word)
        if spare:
            remark = (
                None
                if self._explain_unexpected is None
                else self._explain_unexpected(options, spare)
            )
            option = next((word for word in spare if word.startswith("--")), "").partition("=")[0]
            meant = suggestion(option, self._option_string_actions) if option else ""
            self.error(remark or f"unrecognized arguments: {' '.join(spare)}{meant}")

    def option(self, name: str) -> argparse.Action | None:
        return self._option_string_actions.get(name)

    def options(self) -> list[argparse.Action]:
        return [action for action in self._get_optional_actions() if not _is_hidden(action)]

    def positionals(self) -> list[argparse.Action]:
        return [action for action in self._get_positional_actions() if not _is_hidden(action)]

    @property
    def explanation(self) -> str:
        return self._epilog if isinstance(self._epilog, str) else self._epilog()

    def format_help(self) -> str:
        self.epilog = self.explanation
        return super().format_help()

    def _print_message(self, message: str, file: object = None) -> None:
        show.write(message)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        if action.option_strings and arg_strings == ["--"]:
            # argparse drops a `--` from the words of an option, and so finds no value in
            # `--option=--`.
            value = self._get_value(action, "--")
            self._check_value(action, value)
            return value if action.nargs is None else [value]
        return super()._get_values(action, arg_strings)

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            names = [str(choice) for choice in action.choices]
            meant = suggestion(str(value), names)
            listed = f"; it is one of {', '.join(names)}"
            raise argparse.ArgumentError(action, f"there is no {value!r}{meant or listed}")

    def error(self, message: str) -> NoReturn:
        explained = self._explained(message)
        end = " See" if explained.endswith("?") else "; see"
        raise UsageError(f"{explained}{end} `{self.prog} --help`")

    def _explained(self, message: str) -> str:
        """Name the meaning of a missing word, and explain how to write a value that begins with a dash."""
        if message.startswith(_MISSING):
            name = message.removeprefix(_MISSING).partition(",")[0]
            meanings = [each.help for each in self.positionals() if each.metavar == name]
            return f"{name} is missing: {meanings[0]}" if any(meanings) else f"{name} is missing"
        message = message.replace(
            "invalid float value: ", "it must be a number such as 2 or 0.5, not "
        )
        match = re.fullmatch(_WANTS_MORE, message)
        if match is None:
            return message
        option = match[1]
        for word, following in zip(self._words, self._words[1:], strict=False):
            is_option = following.partition("=")[0] in self._option_string_actions
            if word == option and following[:1] == "-" and not is_option and following != "--":
                if self._option_string_actions[option].dest in ("id", "stdin_from"):
                    return f"{following!r} is not a handle: a handle's name begins with a letter or a digit"
                return f"{option} needs a value; for one that begins with a dash write {option}={following}"
        return f"{option} needs a value"


def non_empty(text: str) -> str:
    """Return an argument's value; refuse an empty one, such as an unset variable."""
    if not text:
        raise argparse.ArgumentTypeError("it is empty; give a value, or omit it")
    return text


def whole(minimum: int = 0, maximum: int = MAX_WHOLE) -> Callable[[str], int]:
    """Return the reader of a whole number within bounds."""

    def read(text: str) -> int:
        number = int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text) else None
        if number is None or not minimum <= number <= maximum:
            raise argparse.ArgumentTypeError(
                f"it must be a whole number from {minimum} to {maximum:,}, not {text!r}"
            )
        return number

    return read


def seconds(text: str) -> float:
    if re.fullmatch(r"[0-9]{1,10}(\.[0-9]*)?|\.[0-9]+", text) is None:
        raise argparse.ArgumentTypeError(
            f"it must be a number of seconds such as 90 or 0.5, not {text!r}"
        )
    return float(text)


def _is_hidden(action: argparse.Action) -> bool:
    return action.help == argparse.SUPPRESS


def suggestion(word: str, candidates: Iterable[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word, list(candidates), n=1, cutoff=0.7)
    return f"; did you mean {close[0]!r}?" if close else ""


def common(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("common options")
    group.add_argument("--json", action="store_true", help="one JSON document on stdout")
    group.add_argument(
        "--color",
        action=_Colours,
        choices=show.WHEN,
        metavar="WHEN",
        help="auto (in a terminal, unless NO_COLOR is set), always or never",
    )
    group.add_argument(
        "--session",
        type=non_empty,
        metavar="NAME",
        help="the session (default: HAFT_SESSION, else `default`)",
    )
    group.add_argument(
        "--root",
        type=non_empty,
        metavar="FOLDER",
        help="the folder that tools work in (default: this one)",
    )
    group.add_argument(
        "--host",
        dest="address",
        type=non_empty,
        metavar="ADDRESS",
        help="another machine: ssh://user@box, ws://box:port (default: HAFT_HOST, else --socket)",
    )
    group.add_argument(
        "--socket",
        type=non_empty,
        metavar="PATH",
        help="the daemon's socket (default: HAFT_SOCKET, else the user's socket)",
    )


def session(options: argparse.Namespace) -> str | None:
    named: str | None = options.session
    if named:
        return unicode(named, "--session")
    return unicode(os.environ.get("HAFT_SESSION", ""), "HAFT_SESSION") or None


def unicode(text: str, name: str) -> str:
    """Return the text if it can be encoded; `name` names its source in the error."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{name} is not UTF-8: {text!r}") from None
    return text


def connect(options: argparse.Namespace, *, start: bool = False) -> Haft:
    """Connect for a command.

    With `start`, start a daemon if none answers; a command that needs existing handles goes
    without.
    """
    from ..import_stubs import load_msgspec

    # `..client` imports msgspec, which would load typing_extensions.
    load_msgspec()
    from ..client import Haft

    address = chosen_address(options)
    root = root_at(address, options) if start else _known_root(address, options)
    named = session(options)
    haft = Haft(open_address(address, start=start), session=named, root=root, name="haft")
    report_silence(haft, options)
    return haft


def connect_plainly(options: argparse.Namespace) -> BlockingConnection:
    """Connect for a command that reads results without their types, and so without msgspec."""
    from ..blocking_connection import BlockingConnection
    from ..json_exchange import JsonExchange

    address = chosen_address(options)
    named, root = session(options), _known_root(address, options)
    connected = open_address(address, start=False)
    haft = BlockingConnection(connected, JsonExchange(), session=named, root=root, name="haft")
    report_silence(haft, options)
    return haft


def report_silence(haft: BlockingConnection, options: argparse.Namespace) -> None:
    haft.silence = _UNANSWERED_S, partial(report_unresponsive, options)


def report_unresponsive(options: argparse.Namespace) -> None:
    """Report a daemon of this machine that leaves a ping on a second connection unanswered."""
    from ..errors import ReplyTimeout

    if is_remote(options):
        return
    try:
        with connect_plainly(options) as other:
            other.silence = None
            other.raw("ping", timeout=_PING_S)
    except ReplyTimeout:
        show.line(
            f"{options.name}: haftd does not answer; still waiting. Ctrl-C ends the wait; "
            "`haft doctor` looks for the reason",
            "yellow",
        )
    except HaftError:
        # The command's own connection reports an end.
        pass


def open_address(address: Address, *, start: bool) -> Socket:
    """Connect to the daemon at `address`, or `start` one there; raise `NotRunning`."""
    from ..connection import open_connection
    from ..errors import NotRunning
    from ..local_address import Local

    if not isinstance(address, Local):
        return open_connection(address, autostart=start)
    try:
        return open_connection(address, autostart=start, timeout=_START_S if start else _PATIENCE_S)
    except NotRunning as fault:
        if start:
            raise
        raise NotRunning(str(fault), remedy=_START_REMEDY) from fault


def chosen_address(options: argparse.Namespace) -> Address:
    """Return the daemon's address by --host, HAFT_HOST and --socket; raise `InvalidAddress`."""
    from ..address_choice import chosen_address as choose

    return choose(options.address, chosen_socket(options), os.environ)


def is_remote(options: argparse.Namespace) -> bool:
    from ..local_address import Local

    return not isinstance(chosen_address(options), Local)


def require_local(options: argparse.Namespace, *, subject: str) -> None:
    """Raise `UsageError` if another machine is chosen.

    `subject` begins the message, and "of this machine" follows: "setup writes files".
    """
    from ..addresses import Ssh
    from ..local_address import Local

    address = chosen_address(options)
    if isinstance(address, Local):
        return
    there = (
        f"run `{address.login} {options.name}` for that one, or "
        if isinstance(address, Ssh)
        else ""
    )
    here = "leave --host out" if options.address else "unset HAFT_HOST"
    raise UsageError(
        f"{subject} of this machine, and the chosen host is {address.name}: {there}{here}"
    )


def split_at_dashes(arguments: list[str]) -> tuple[list[str], list[str] | None]:
    """Return the words before the first `--`, and those after it, which are another command's; None
    without a `--`."""
    if "--" not in arguments:
        return arguments, None
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def chosen_socket(options: argparse.Namespace) -> str | None:
    return None if options.socket is None else _absolute(options.socket)


def _absolute(path: str) -> str:
    # `resolve` would follow links, and pathlib costs 5 ms.
    return os.path.abspath(path)  # noqa: PTH100


def root_at(address: Address, options: argparse.Namespace, folder: str | None = None) -> str | None:
    """Return the root for a daemon at `address`: on another machine only a named folder."""
    from ..local_address import Local

    if isinstance(address, Local):
        return chosen_root(options, folder)
    named: str | None = folder or options.root
    if named is not None and not named.startswith("/"):
        raise UsageError(
            f"{named!r} is not an absolute path, which a folder of {address.name} needs"
        )
    return named


def _known_root(address: Address, options: argparse.Namespace) -> str | None:
    """Return the root for a command that starts nothing and so needs no folder."""
    try:
        return root_at(address, options)
    except FolderGone:
        return None


def _daemon_options(options: argparse.Namespace) -> str:
    """Return the words that repeat this command's --host and --socket, with a space at the end."""
    import shlex

    named = (("--host", options.address), ("--socket", options.socket))
    return "".join(f"{option} {shlex.quote(value)} " for option, value in named if value)


def command_for(options: argparse.Namespace, words: str, found_in: str | None = None) -> str:
    """Return a command for the same daemon and session, as a message shows it.

    `found_in`: the session of a handle that was looked for in all.
    """
    import shlex

    named = session(options) or (None if found_in == "default" else found_in)
    is_implied = not named or named == os.environ.get("HAFT_SESSION")
    where = "" if is_implied else f"--session {shlex.quote(named or '')} "
    return f"`haft {_daemon_options(options)}{where}{words.strip()}`"


def command_in(options: argparse.Namespace, session: str, words: str) -> str:
    """Return a command for the same daemon and the named session, as a message shows it."""
    import shlex

    return f"`haft {_daemon_options(options)}--session {shlex.quote(session)} {words}`"


def chosen_root(options: argparse.Namespace, folder: str | None = None) -> str:
    """Return the absolute path of `folder`, else of the root option, else the working folder."""
    try:
        return _absolute(folder or options.root or ".")
    except OSError:
        raise FolderGone("the current folder is gone; name one with --root") from None
