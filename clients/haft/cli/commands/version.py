"""`haft version`: the versions of this client and of the answering daemon."""

from __future__ import annotations

import argparse

import msgspec

from ... import __version__
from ...errors import HaftError, Misplaced, VersionMismatch
from .. import show
from ..options import connect, is_remote

EPILOG = ""


def configure(parser: argparse.ArgumentParser) -> None:
    pass


def run(options: argparse.Namespace) -> int:
    daemon: str | None = None
    try:
        with connect(options, start=False) as haft:
            daemon = haft.server.server.version
    except VersionMismatch as fault:
        # Fields common to every version of the protocol.
        daemon = f"{fault.version or 'unknown'} (protocol {fault.protocol or 'unknown'})"
    except Misplaced:
        raise
    except HaftError as fault:
        if is_remote(options):
            show.line(f"haft version: {show.plain(str(fault), 1000)}", "yellow")
    if options.json:
        show.document(msgspec.json.encode({"haft": __version__, "haftd": daemon}))
    else:
        show.write(f"haft {__version__}\nhaftd {daemon or '(not running)'}\n")
    return 0
