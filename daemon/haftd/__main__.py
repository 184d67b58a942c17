"""`haftd`: the daemon in the foreground.

Exit status: 0 after a stop request, 75 if another daemon runs, 78 if the start is impossible.
"""

from __future__ import annotations

import os
import sys

from haft_protocol.paths import PathError, runtime_folder, with_login_folder
from haftd.config.command_line import EXIT_CONFIG, parse
from haftd.host.process.machine import boot_id
from haftd.host.process.own_tag import exec_with_tag, make_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_SWITCH_INTERVAL_S = 0.0005


def main() -> None:
    words = parse(sys.argv[1:])
    env = with_login_folder(os.environ, os.getuid(), os.lstat)
    try:
        home = make_home(runtime_folder(env, os.getuid(), socket=words.socket))
        boot_id()
    except PathError as error:
        _refuse(str(error))
    except OSError as error:
        _refuse(
            f"{error.filename}: {error.strerror}; without all of /proc, processes cannot be identified: mount it (`mount -t proc proc /proc`, ProcSubset=all)"
        )
    # May re-execute this process once; no state exists yet.
    instance = exec_with_tag(home, os.environ)
    import gc

    # Imports leave little garbage; `app` starts the collector.
    gc.disable()
    # A thread that parses releases the GIL at this interval; the event loop needs the GIL about six
    # times per small call.
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    from haftd.import_stubs import stub_unused_imports

    stub_unused_imports()
    from haftd.app import run
    from haftd.config.options import ConfigError, Options, find_paths

    options = Options(**vars(words))
    try:
        paths = find_paths(env, os.getuid(), options)
    except ConfigError as error:
        _refuse(str(error))
    sys.exit(run(options, paths, instance))


def _refuse(reason: str) -> NoReturn:
    sys.stderr.write(f"haftd: {reason}\n")
    sys.exit(EXIT_CONFIG)


if __name__ == "__main__":
    main()
