"""`haft version`: show the versions of this client and of the daemon at the chosen address, if
one runs.
"""

from __future__ import annotations

import argparse

import msgspec

from ... import __version__
from ...errors import HaftError, InvalidAddress, NotRunning, VersionMismatch
from .. import show
from ..options import connect, is_remote

EPILOG = ""
_PATIENCE_S = 5.0


def run(options: argparse.Namespace) -> int:
    daemon_version: str | None = None
    why = "not running"
    try:
        with connect(options, start=False) as haft:
            haft.patience, haft.silence = _PATIENCE_S, None
            daemon_version = haft.server.server.version
    except VersionMismatch as fault:
        # Every version of the protocol has haftd's version in the reply to `initialize`.
        version, protocol = fault.version or "unknown", fault.protocol or "unknown"
        daemon_version = f"{version} (protocol {protocol})"
    except InvalidAddress:  # The address itself is invalid.
        raise
    except HaftError as fault:
        # No daemon on this machine is a result; any other failure is reported.
        if is_remote(options) or not isinstance(fault, NotRunning):
            why = "does not answer"
            show.line(f"haft version: {show.plain(str(fault), 1000)}", "yellow")
    if options.json:
        show.document(msgspec.json.encode({"haft": __version__, "haftd": daemon_version}))
    else:
        show.write(f"haft {__version__}\nhaftd {daemon_version or f'({why})'}\n")
    return 0
