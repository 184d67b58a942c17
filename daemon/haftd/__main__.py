"""`haftd`: the daemon in the foreground.

Exits 0 when asked to stop, 75 when another daemon has the socket, 78 for what it cannot start with.
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

_GIVES_WAY_S = 0.0005


def main() -> None:
    """Run the daemon with the process's arguments and environment."""
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
    # Executes this process again, once, before anything else is there to be lost.
    instance = exec_with_tag(home, os.environ)
    # What takes a while to import comes here: the execution above would waste it.
    # It leaves no garbage worth looking for again and again; `app` looks once, when it serves.
    gc.disable()
    # A thread that reads a long file gives way to the loop that often, and the loop asks it to each
    # time that it comes back from the kernel: some six times for one small call.
    sys.setswitchinterval(_GIVES_WAY_S)
    from haftd.import_stubs import stub_unused_imports

    stub_unused_imports()
    from haftd.app import run

    sys.exit(run(options, paths, instance))


if __name__ == "__main__":
    main()
