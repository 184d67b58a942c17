"""A process that outlives the daemon by one recovery, without a user manager that restarts it.

End of file of a pipe is the daemon's death. The guardian kills only processes of its own daemon, as
a new one may run, and never writes `handles.lock`. Imports: the standard library and `haftd.host`
only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from haftd.host.process.ancestry import helpers
from haftd.host.process.identity import send_signal
from haftd.host.recovery.journal import read_records
from haftd.host.recovery.recovery import recover

_START = "import sys; sys.path.insert(0, sys.argv[1]); from haftd.host.recovery.guardian import main; main(sys.argv[2:])"


class Guardian:
    """The daemon's side; `pidfd` becomes readable at the guardian's death."""

    def __init__(self, pid: int, pidfd: int, pipe: int) -> None:
        self.pid = pid
        self.pidfd = pidfd
        self._pipe = pipe

    @classmethod
    def start(
        cls, *, home: str, instance: str, journal: Path, lock: Path, bases: Sequence[Path] = ()
    ) -> Guardian:
        """Start this daemon's guardian; `lock` is the path of `recover.lock`. Raises OSError.

        The pipe exists by then: a death during the start is also recovered.
        """
        root = Path(__file__).parents[3]
        reader, writer = os.pipe()  # both close-on-exec
        try:
            null = os.open(os.devnull, os.O_RDWR)
            try:
                pid = os.posix_spawn(
                    sys.executable,
                    [
                        *(sys.executable, "-I", "-S", "-c", _START, str(root)),
                        *(home, instance, str(journal), str(lock), *map(str, bases)),
                    ],
                    {},
                    file_actions=[
                        (os.POSIX_SPAWN_DUP2, reader, 0),
                        (os.POSIX_SPAWN_DUP2, null, 1),
                        (os.POSIX_SPAWN_DUP2, null, 2),
                    ],
                    setsid=True,
                    setsigmask=[],
                )
            finally:
                os.close(null)
        except BaseException:
            os.close(writer)
            raise
        finally:
            os.close(reader)
        helpers.add(pid)
        return cls(pid, os.pidfd_open(pid), writer)

    def stop(self) -> None:
        """Kill and reap the guardian, also during its start."""
        if self._pipe < 0:
            return
        send_signal(self.pidfd, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED)
        helpers.discard(self.pid)
        os.close(self._pipe)
        os.close(self.pidfd)
        self._pipe = -1


def main(argv: Sequence[str]) -> None:
    """Wait for the daemon's death, then recover. `argv`: home, instance, journal, lock, parent
    cgroups of handles."""
    home, instance, journal, lock, *bases = argv
    for signum in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(signum, signal.SIG_IGN)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir("/")
    os.read(0, 1)
    recover(
        read_records(Path(journal)),
        home=home,
        instance=instance,
        bases=[Path(base) for base in bases],
        lock=Path(lock),
        patience_s=10.0,
    )
