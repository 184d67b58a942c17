"""Command line of `haftd`. Few imports: they are repeated after the daemon's exec."""

from __future__ import annotations

import argparse
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_CONFIG = 78  # EX_CONFIG of sysexits.h
_WIDTH = 78
LOG_LEVELS = ("debug", "info", "warning", "error")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line; prints and exits like argparse."""
    parser = argparse.ArgumentParser(
        prog="haftd",
        description="The daemon that keeps tools running.",
        # Without a width argparse loads shutil, with lzma, at every added option.
        formatter_class=lambda prog: argparse.HelpFormatter(prog, width=_WIDTH),
    )
    parser.add_argument("--config", metavar="FILE", type=_absolute, help="the configuration file")
    parser.add_argument("--socket", metavar="PATH", type=_absolute, help="the Unix socket")
    parser.add_argument("--log-level", choices=LOG_LEVELS, default="info")
    parser.add_argument("--log-format", choices=("json", "console"), default=None)
    return parser.parse_args(list(argv))


def _absolute(text: str) -> str:
    # `..` is kept, as it may follow a link.
    return text if text.startswith("/") else os.path.join(os.getcwd(), text)  # noqa: PTH109, PTH118
