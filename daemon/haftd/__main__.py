"""`haftd`: the daemon in the foreground.

Exit status: 0 after a request to stop, 75 if another daemon has the socket, 78 if the start is
impossible.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

from haft_protocol.paths import with_login_folder
from haftd.config.options import EXIT_CONFIG, ConfigError, find_paths, read_options
from haftd.host.process.identity import boot_id
from haftd.host.process.process_tag import exec_with_tag, home_of

_SWITCH_INTERVAL_S = 0.0005


def main() -> None:
    options = read_options(sys.argv[1:])
    try:
        env = with_login_folder(os.environ, os.getuid(), os.lstat)
        paths = find_paths(env, os.getuid(), options)
    except ConfigError as error:
        sys.stderr.write(f"haftd: {error}\n")
        sys.exit(EXIT_CONFIG)
    try:
        home = home_of(Path(paths.runtime.folder))
        boot_id()
    except OSError as error:
        sys.stderr.write(
            f"haftd: {error.filename}: {error.strerror}; without all of /proc no process could be "
            "told from another: mount it (`mount -t proc proc /proc`, ProcSubset=all)\n"
        )
        sys.exit(EXIT_CONFIG)
    # May execute this process again, once, before there is state to lose.
    instance = exec_with_tag(home, os.environ)
    # Slow imports come after that. Imported modules leave almost no garbage, so the collector runs
    # again once, when `app` serves.
    gc.disable()
    # A thread that parses a long file releases the GIL this often; the event loop needs it about
    # six times per small call.
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    from haftd.import_stubs import stub_unused_imports

    stub_unused_imports()
    from haftd.app import run

    sys.exit(run(options, paths, instance))


if __name__ == "__main__":
    main()
