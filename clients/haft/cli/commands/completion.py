"""`haft completion`: print the completion of a shell."""

from __future__ import annotations

import argparse

from ...installation import COMPLETIONS, completion
from .. import show
from ..options import UsageError

EPILOG = """\
Handles, tools, sessions, options and their values are completed, with a description in zsh and fish. The daemon
is asked for them; none is started for it.

examples:
  source <(haft completion bash)                    for this bash; in ~/.bashrc for each
  haft completion zsh > ~/.zfunc/_haft              where fpath has ~/.zfunc, before compinit
  haft completion fish > ~/.config/fish/completions/haft.fish
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "shell", choices=list(COMPLETIONS), metavar="SHELL", help="bash, zsh or fish"
    )


def run(options: argparse.Namespace) -> int:
    if options.json:
        raise UsageError("completion has no --json: it prints a shell's script")
    show.write(completion(options.shell).read_bytes())
    return 0
