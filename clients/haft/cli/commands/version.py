"""`haft version`: the versions of this client and of the daemon at the chosen address, if one runs."""

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
    daemon_version: str | None = None
    try:
        with connect(options, start=False) as haft:
            daemon_version = haft.server.server.version
    except VersionMismatch as fault:
        # The reply to `initialize` has haftd's version in every version of the protocol.
        version, protocol = fault.version or "unknown", fault.protocol or "unknown"
        daemon_version = f"{version} (protocol {protocol})"
    except Misplaced:  # The address itself is invalid.
        raise
    except HaftError as fault:
        # No daemon on this machine is a result; a machine that cannot be reached is reported.
        if is_remote(options):
            show.line(f"haft version: {show.plain(str(fault), 1000)}", "yellow")
    if options.json:
        show.document(msgspec.json.encode({"haft": __version__, "haftd": daemon_version}))
    else:
        show.write(f"haft {__version__}\nhaftd {daemon_version or '(not running)'}\n")
    return 0
