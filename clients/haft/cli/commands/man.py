"""`haft man`: show a manual page, also where `man` does not find it."""

from __future__ import annotations

import argparse
import subprocess
import sys
from shutil import which

from .. import COMMANDS, show
from ..manual import page, pages
from ..options import UsageError, suggestion
from ..statuses import Status

EPILOG = """\
In a terminal the page is shown by `man`, else its source is printed.

examples:
  haft man
  haft man spawn
  haft man spawn > haft-spawn.1
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("page", nargs="?", metavar="PAGE", help="a command, or haft")


def run(options: argparse.Namespace) -> int:
    if options.json:
        raise UsageError("man has no --json: it shows a page")
    name = getattr(options, "page", "haft")
    names = pages()
    full = name if name in names else f"haft-{name}"
    if full not in names:
        meant = suggestion(name.removeprefix("haft-"), COMMANDS)
        raise UsageError(
            f"there is no page {name!r}{meant or '; `haft --help` lists the commands'}"
        )
    text = page(full)
    if sys.stdout is None or not sys.stdout.isatty() or which("man") is None:
        show.write(text)
        return Status.DONE
    return subprocess.run(["man", "-l", "-"], input=text.encode(), check=False).returncode
