"""A real sshd on the loopback interface, with a configuration, keys and a port of its own, and a daemon behind it."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S
from tests.running_daemon import RunningDaemon

_TRIES = 5


class Box:
    """Another machine, as far as clients can see: an address, a daemon, and the client's environment."""

    def __init__(self, folder: Path, program: str) -> None:
        self.folder = folder
        self.daemon = RunningDaemon(folder / "daemon")
        self.user = pwd.getpwuid(os.getuid()).pw_name
        self.port = 0
        self.sshd: subprocess.Popen[str] | None = None
        self._program = program
        for name in ("host", "key", "stranger"):
            generate = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(generate, check=True)
        shutil.copy(folder / "key.pub", folder / "authorized_keys")
        (folder / "local").mkdir(mode=0o700)

    @property
    def address(self) -> str:
        return f"ssh://{self.user}@127.0.0.1:{self.port}"

    @property
    def path(self) -> str:
        return f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"

    def ssh(self, *options: str, known: str = "known_hosts", key: str = "key") -> str:
        """Return `HAFT_SSH` for this machine; ssh takes the first of several values."""
        words = [
            *("ssh", "-F", "none", *options),
            *("-o", "IdentitiesOnly=yes", "-o", f"UserKnownHostsFile={self.folder / known}"),
            *("-i", str(self.folder / key)),
        ]
        return " ".join(words)

    @property
    def env(self) -> dict[str, str]:
        """Return the environment of a client on another machine."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("HAFT_")}
        local = str(self.folder / "local")
        return {
            **env,
            "HOME": local,
            "XDG_RUNTIME_DIR": local,
            "XDG_STATE_HOME": local,
            "XDG_CONFIG_HOME": local,
            "HAFT_HOST": self.address,
            "HAFT_SSH": self.ssh(),
        }

    def haft(
        self, *words: str, input: bytes = b"", **env: str
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "haft", *words],
            input=input,
            env={**self.env, **env},
            cwd=self.folder / "local",
            capture_output=True,
            timeout=PATIENCE_S * 2,
        )

    def start(self, *, settings: Sequence[str] = ()) -> None:
        """Start sshd at a free port; it may be taken by another process in between."""
        for _ in range(_TRIES):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.port = probe.getsockname()[1]
            if self._listens(settings):
                host = (self.folder / "host.pub").read_text()
                (self.folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {host}")
                return
        raise AssertionError((self.folder / "sshd.log").read_text())

    def _listens(self, settings: Sequence[str]) -> bool:
        session = {
            name: value
            for name, value in self.daemon.env.items()
            if name.startswith("XDG_") or name == "HOME"
        }
        session["PATH"] = self.path
        config = [
            *settings,
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {self.folder / 'host'}",
            f"AuthorizedKeysFile {self.folder / 'authorized_keys'}",
            "PidFile none",
            "UsePAM no",
            "StrictModes no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            # The way of the shared connection must need no forwarding.
            "DisableForwarding yes",
            f"SetEnv {' '.join(f'{name}={value}' for name, value in session.items())}",
        ]
        (self.folder / "sshd_config").write_text("\n".join(config) + "\n")
        self.sshd = subprocess.Popen(
            [self._program, "-D", "-e", "-f", str(self.folder / "sshd_config")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.sshd.stderr is not None
        with (self.folder / "sshd.log").open("w") as log:
            for line in self.sshd.stderr:
                log.write(line)
                if line.startswith("Server listening"):
                    return True
        self.sshd.wait()
        self.sshd.stderr.close()
        return False

    def cut(self) -> None:
        """End the shared connections, as a loss of the network would."""
        for control in (self.folder / "local" / "haft").glob("ssh-*"):
            end = ["ssh", "-F", "none", "-S", str(control), "-O", "exit", "box"]
            subprocess.run(end, check=True, capture_output=True)

    def close(self) -> None:
        self.cut()
        if self.daemon.socket.exists():
            self.haft("stop", "--yes", HAFT_HOST=f"unix://{self.daemon.socket}")
        if self.sshd is not None:
            assert self.sshd.stderr is not None
            os.killpg(self.sshd.pid, signal.SIGTERM)
            self.sshd.wait()
            self.sshd.stderr.close()


@pytest.fixture(scope="module")
def sshd() -> str:
    """Return the program, which stands outside of the PATH of most users."""
    program = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
    if program is None:
        pytest.skip("needs sshd")
    if os.getuid() == 0:
        # The start script of the package makes it.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    return program


@pytest.fixture(scope="module")
def box(sshd: str) -> Iterator[Box]:
    with _machine(sshd) as machine:
        yield machine


@pytest.fixture(scope="module")
def bare(sshd: str) -> Iterator[Box]:
    """A machine without haft."""
    with _machine(sshd, "SetEnv PATH=/usr/bin:/bin HOME=/nowhere") as machine:
        yield machine


@contextmanager
def _machine(program: str, *settings: str) -> Iterator[Box]:
    folder = Path(tempfile.mkdtemp(prefix="haft-"))
    machine = Box(folder, program)
    try:
        # sshd takes the first of several values, too.
        machine.start(settings=settings)
        yield machine
    finally:
        machine.close()
        shutil.rmtree(folder, ignore_errors=True)
