"""`haft trust`: show the commands in the definitions of a root, and trust them.

Trust covers exactly the shown text, by its digest. Invisible characters and cursor movements are
escaped, long runs of spaces counted.
"""

from __future__ import annotations

import argparse
import difflib
import re
import shlex
import sys
import time
import unicodedata
from collections.abc import Iterator

import msgspec
from msgspec import UnsetType

from haft_protocol.trust import DefinedTool, DefinitionFile, TrustListResult, TrustShowResult

from ...client import Haft
from .. import show
from ..options import UsageError, chosen_address, connect, root_at
from ..statuses import Status

EPILOG = """\
ROOT is the folder that tools work in, this one by default; its definitions are the *.toml in
ROOT/.haft/tools and below it. Without that folder, the nearest folder above ROOT that has it is used,
as git finds its repository. A file that changes must be trusted again. Exit status 0 when all of it is
trusted, 1 when something is not, or when there is nothing to trust.

examples:
  haft trust
  haft trust ~/src/project
  haft trust --list
  haft trust --revoke ~/src/project
"""

_FOLDER = ".haft/tools"
_MAX_COMPARED = 2000
# Without width, though Python counts them as printable.
_WITHOUT_WIDTH = frozenset("\u115f\u1160\u2800\u3164\uffa0")
_BLANKS = re.compile(r" {24,}")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", nargs="?", metavar="ROOT", help="the folder (default: --root)")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--yes", action="store_true", help="trust the shown files without asking")
    mode.add_argument("--list", action="store_true", help="list the roots that are trusted")
    mode.add_argument("--revoke", action="store_true", help="revoke trust in the root")


def run(options: argparse.Namespace) -> int:
    if getattr(options, "list", False):
        with connect(options, start=True) as haft:
            return _list(haft, options)
    root = root_at(chosen_address(options), options, getattr(options, "folder", None))
    if root is None:
        raise UsageError("name the folder on the other machine: `haft trust /path/of/the/project`")
    with connect(options, start=True) as haft:
        if getattr(options, "revoke", False):
            return _revoke(haft, options, root)
        return _trust(haft, options, root)


def _list(haft: Haft, options: argparse.Namespace) -> int:
    encoded = haft.raw("trust/list")
    if options.json:
        show.document(encoded)
        return 0
    roots = msgspec.json.decode(encoded, type=TrustListResult).roots
    if not roots:
        show.line("haft trust: no root is trusted")
        return 0
    rows = [(_date(root.at), str(len(root.files)), _visible(root.root)) for root in roots]
    show.table([("SINCE", "FILES", "ROOT"), *rows])
    return 0


def _revoke(haft: Haft, options: argparse.Namespace, root: str) -> int:
    encoded = haft.raw("trust/revoke", {"root": root})
    if options.json:
        show.document(encoded)
        return 0
    result = msgspec.json.decode(encoded)
    outcome = "is no longer trusted" if result["was"] else "was not trusted"
    show.line(f"haft trust: {_visible(result['root'])} {outcome}")
    return 0


def _trust(haft: Haft, options: argparse.Namespace, root: str) -> int:
    encoded = haft.raw("trust/show", {"root": root})
    shown = msgspec.json.decode(encoded, type=TrustShowResult)
    sure = getattr(options, "yes", False)
    if options.json and not sure:
        show.document(encoded)
        return 0
    if not options.json:
        show.write("".join(f"{line}\n" for line in _page(shown)))
    waiting = [file for file in shown.files if file.state in ("new", "changed")]
    if not waiting and not options.json:
        refused = any(file.state == "refused" for file in shown.files)
        if not shown.files:
            outcome = (
                f"nothing can be trusted: there is no definition in {_visible(shown.root)}/{_FOLDER}, "
                f"nor in {_FOLDER} of a folder above it"
            )
        else:
            outcome = "nothing else can be trusted" if refused else "all of it is trusted already"
        show.line(f"haft trust: {outcome}")
        return Status.FAILED if refused or not shown.files else Status.DONE
    if not sure and not _confirm(len(waiting)):
        show.line("haft trust: nothing was trusted")
        return Status.FAILED
    granted = haft.raw("trust/grant", {"root": shown.root, "digest": shown.digest})
    if options.json:
        show.document(granted)
    else:
        show.line(f"haft trust: {_visible(shown.root)} is trusted as shown", "green")
    return 0


def _confirm(files: int) -> bool:
    """Read an explicit yes. Raises `UsageError` without a terminal."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout and sys.stdout.isatty()):
        raise UsageError("nothing was trusted: review it in a terminal, or give --yes")
    subject = "this file" if files == 1 else f"these {files} files"
    show.line(f"trust {subject} to run the commands shown? [y/N]", "bold")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _page(shown: TrustShowResult) -> Iterator[str]:
    yield _visible(shown.root)
    for file in shown.files:
        yield ""
        yield from _file(file, shown)
    for name in shown.gone:
        yield ""
        yield f"{_FOLDER}/{_visible(name)}: it was trusted and no longer exists"


def _file(file: DefinitionFile, shown: TrustShowResult) -> Iterator[str]:
    name = _visible(file.file.removeprefix(shown.root.rstrip("/") + "/"))
    if file.state == "refused":
        yield f"{name}: it cannot be trusted: {_visible(str(file.why))}"
        return
    when = "" if isinstance(shown.at, UnsetType) else f" on {_date(shown.at)}"
    state = {"new": "new", "trusted": "trusted", "changed": f"changed since it was trusted{when}"}
    yield f"{name} ({state[file.state]})"
    for tool in file.tools:
        yield from _tool(tool, whole=file.state != "trusted")
    for problem in file.problems:
        key = f"{_visible(problem.key)}: " if problem.key else ""
        yield f"  wrong: {key}{_visible(problem.message)}"
    text = "" if isinstance(file.text, UnsetType) else file.text
    if file.state != "trusted" and not file.tools:
        yield "  it defines no tool; its text:"
        yield from _block(text, "  | ")
    if not isinstance(file.was, UnsetType):
        yield "  what has changed:"
        yield from _changes(file.was, text)


def _tool(tool: DefinedTool, *, whole: bool) -> Iterator[str]:
    yield f"  {_visible(tool.name)}"
    if not isinstance(tool.unused, UnsetType):
        yield f"    {_visible(tool.unused)}"
    if not isinstance(tool.shell, UnsetType):
        yield f"    runs in {_visible(tool.shell)}:"
        yield from _block(" ".join(tool.runs), "      | ")
    elif tool.runs:
        yield f"    runs: {' '.join(_visible(_quoted(word)) for word in tool.runs)}"
    if not whole:
        return
    asks = ", ".join(f"{action}: {mode}" for action, mode in tool.asks.items())
    yield f"    asks first: {_visible(asks) or 'never'}"
    if tool.describes_itself:
        yield "    also runs to describe itself when tools are listed, without asking"
    for key, value in tool.says.items():
        if isinstance(value, str) and "\n" in value.strip("\n"):
            yield f"    {_visible(key)}:"
            yield from _block(value, "      | ")
        else:
            yield f"    {_visible(key)} = {_visible(msgspec.json.encode(value).decode())}"


def _quoted(word: str) -> str:
    """Quote a word as for a shell; a template stays."""
    return word if word.startswith("{each = ") else shlex.quote(word)


def _changes(before: str, after: str) -> Iterator[str]:
    old, new = before.splitlines(), after.splitlines()
    if max(len(old), len(new)) > _MAX_COMPARED:
        yield "  too long to be compared; its text now:"
        yield from _block(after, "  | ")
        return
    count = 0
    for line in list(difflib.unified_diff(old, new, lineterm="", n=2))[2:]:
        count += 1
        yield f"  {line[:1]} {_visible(line[1:])}" if line[:2] != "@@" else "  ..."
    if not count:
        yield "  only the ends of its lines"


def _block(text: str, margin: str) -> Iterator[str]:
    empty = 0
    for line in [*text.splitlines(), None]:
        if line is not None and not line.strip():
            empty += 1
            continue
        if empty > 2:
            yield f"{margin}({empty} empty lines)"
        elif line is not None:
            yield from [margin.rstrip()] * empty
        empty = 0
        if line is not None:
            yield margin + _visible(line)


def _visible(text: str) -> str:
    """Escape invisible or misleading characters."""
    if not text.isascii() or not text.isprintable():
        text = "".join(c if _is_visible(c) else ascii(c)[1:-1] for c in text)
    return _BLANKS.sub(lambda match: f" ({len(match[0])} spaces) ", text)


def _is_visible(char: str) -> bool:
    if char in _WITHOUT_WIDTH or not char.isprintable():
        return False
    return char.isascii() or unicodedata.category(char)[0] != "M"


def _date(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
