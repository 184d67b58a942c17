"""`haftd`: the daemon in the foreground.

Exit status: 0 after a stop request, 75 if another daemon runs, 78 if the start is impossible.
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
    # May re-execute this process once; no state exists yet.
    instance = exec_with_tag(home, os.environ)
    # Slow imports. Imported modules leave little garbage; `app` starts the collector.
    gc.disable()
    # A thread that parses a long file releases the GIL at this interval; the event loop
    # needs the GIL about six times per small call.
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    from haftd.import_stubs import stub_unused_imports

    stub_unused_imports()
    from haftd.app import run

    sys.exit(run(options, paths, instance))


if __name__ == "__main__":
    main()
