"""systemd user manager, through `systemctl --user`; each method blocks."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from haft_protocol.paths import config_home, with_login_folder

from .errors import SetupFailed

_CALL_S = 90.0
"""`systemctl` waits for its jobs, as long as the unit's timeouts at most."""

_WITHOUT_SERVICE = "without a service the first `haft spawn` starts the daemon"


class NoUserManager(SetupFailed):
    """No systemd user manager is reachable for this user."""


class ManagerFailed(SetupFailed):
    """The user manager refused a command; the message holds the output of `systemctl`."""


class UserManager:
    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment

    @classmethod
    def connect(cls) -> UserManager:
        """Return this user's manager; raise `NoUserManager`."""
        if shutil.which("systemctl") is None:
            raise NoUserManager(
                f"there is no systemd here: the command `systemctl` is not in PATH; {_WITHOUT_SERVICE}"
            )
        try:
            printed = _systemctl("show-environment")
        except ManagerFailed as fault:
            raise NoUserManager(
                f"no systemd user manager can be reached: {fault}; set the service up from a login session "
                f"of this user, or do without: {_WITHOUT_SERVICE}"
            ) from None
        lines = (line.partition("=") for line in printed.splitlines())
        return cls({name: value for name, equals, value in lines if equals})

    def call(self, *words: str) -> None:
        """Run a `systemctl --user` command and wait for its job; raise `ManagerFailed`."""
        _systemctl(*words)

    def properties(self, unit: str, *names: str) -> dict[str, str]:
        """Return the properties of a unit, loaded or not."""
        printed = _systemctl("show", unit, *(f"--property={name}" for name in names))
        lines = (line.partition("=") for line in printed.splitlines())
        return {name: value for name, equals, value in lines if equals}

    @property
    def unit_folder(self) -> Path:
        return Path(config_home(self.environment), "systemd", "user")


class AbsentManager(UserManager):
    """The manager of a later login, for a dry run: no unit is loaded, nothing can be called."""

    @classmethod
    def of(cls, env: Mapping[str, str]) -> AbsentManager:
        """Return the manager that a login with these variables would have."""
        env = with_login_folder(env, os.getuid(), os.lstat)
        return cls({"XDG_RUNTIME_DIR": f"/run/user/{os.getuid()}", **env})

    def call(self, *words: str) -> None:
        raise AssertionError(f"systemctl was called in a dry run: {words}")

    def properties(self, unit: str, *names: str) -> dict[str, str]:
        return {}


def _systemctl(*words: str) -> str:
    env = {**os.environ, "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": "", "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(
            ["systemctl", "--user", "--no-ask-password", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=env,
            timeout=_CALL_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ManagerFailed(
            f"`systemctl --user {' '.join(words)}` did not return within {_CALL_S:.0f} s"
        ) from None
    except OSError as fault:
        raise ManagerFailed(f"systemctl cannot be run: {fault.strerror}") from None
    if done.returncode:
        printed = done.stderr.decode(errors="replace").split("\n")
        message = next((line.strip() for line in printed if line.strip()), "no message")
        raise ManagerFailed(f"`systemctl --user {words[0]}` failed: {message}")
    return done.stdout.decode(errors="replace")
