"""`haft init`: write a commented definition of a tool."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path

import msgspec

from haft_protocol.paths import config_home

from ...errors import SetupFailed
from .. import show
from ..options import UsageError, chosen_root, require_local
from ..statuses import Status

EPILOG = """\
Writes ROOT/.haft/tools/NAME.toml, for calls in this folder and below; a person must trust it first (`haft trust`). With
--user, writes $XDG_CONFIG_HOME/haft/tools/NAME.toml, for calls everywhere. An existing file is left alone.
The definition works as it is; its comments show the usual fields. docs/definitions.md has all of them.

examples:
  haft init build
  haft init build --print | less
  haft init --user notes && haft reload
"""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
HAFTS_OWN = frozenset(
    [
        "run",
        "shell",
        "git_stage",
        "git_rebase",
        "user_shell",
        "ask_user",
        "describe_tools",
        "await",
        "handle_send",
        "handle_read",
        "handle_wait",
        "handle_stop",
        "handle_list",
    ]
)
"""Tools of the daemon: a project's definition of one is not read, a user's replaces it."""
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_TEMPLATE = """\
# A tool of haft. A line that begins with # and a letter is a setting with its value turned off.

[tools.{key}]
# The line that lists show to assistants.
summary = "Count the lines of files."
#description = "More, for a caller who asks: when to use it, what it prints."

# The program and its arguments. A template is one argument with any content; `each` gives one for each item.
# No shell runs it; for a script: command = {{ program = "wc -l {{{{ tool.arguments.files }}}}", shell = true }}
command = ["wc", "-l", "--", {{ each = "tool.arguments.files" }}]

# The working folder, from the root, and variables: a string sets one, false removes it.
#cwd = "src"
#env = {{ LC_ALL = "C.UTF-8", MAKEFLAGS = false }}

# true: the tool runs on under an id, as a server, a build or a REPL does, and is read and given input.
#stateful = true

# "pty" gives it a terminal.
#runtime = "pty"

# Past a limit, all of its processes are ended.
#limits = {{ wall_s = 600, memory = "2 GiB" }}

# "ask": a person allows each start. See `haft approvals`.
#run = "ask"

# Hints to hosts that ask for permission.
#annotations = {{ read_only = true, destructive = false }}

[tools.{key}.parameters]
files = {{ type = "array", items = {{ type = "string" }}, required = true, summary = "The files." }}
#mode = {{ type = "string", enum = ["fast", "thorough"], default = "fast" }}
"""


def definition(name: str) -> str:
    return _TEMPLATE.format(key=name if _BARE.fullmatch(name) else f'"{name}"')


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "tool", nargs="?", metavar="NAME", help="the name of the tool and the file (example)"
    )
    parser.add_argument("--user", action="store_true", help="for calls in every folder")
    parser.add_argument(
        "--print", action="store_true", help="print the definition and write nothing"
    )


def run(options: argparse.Namespace) -> int:
    name = getattr(options, "tool", "example")
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid tool name: it has up to 64 letters, digits and _ . -, and does not begin "
            "with . or -"
        )
    if name in HAFTS_OWN:
        raise UsageError(f"haft itself has a tool {name!r}; give yours another name")
    text = definition(name)
    if hasattr(options, "print"):
        if options.json:
            raise UsageError("--print and --json cannot be combined: the definition is TOML")
        show.write(text)
        return Status.DONE
    require_local(options, subject="init writes a file")
    is_user = hasattr(options, "user")
    folder = (
        Path(config_home(os.environ)) / "haft" if is_user else Path(chosen_root(options)) / ".haft"
    )
    path = folder / "tools" / f"{name}.toml"
    _write(path, text)
    if options.json:
        show.document(msgspec.json.encode({"path": str(path)}))
        return Status.DONE
    show.write(f"{path}\n")
    step = "`haft reload` makes a running daemon read it" if is_user else "`haft trust` lets it run"
    show.line(f"haft init: {step}; `haft tools {name}` shows the tool", "dim")
    return Status.DONE


def _write(path: Path, text: str) -> None:
    """Write a new file, readable by the user's umask but writable by the user alone."""
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with open(os.open(path, flags, 0o644), "w", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise SetupFailed(
            f"{path} exists already; give another NAME, or see the definition with --print"
        ) from None
    except OSError as fault:
        raise SetupFailed(f"{path} cannot be written: {fault.strerror}") from fault
