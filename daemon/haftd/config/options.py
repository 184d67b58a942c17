"""Options from command line and environment, and paths of the daemon's files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace

from haft_protocol import paths
from haft_protocol.runtime_paths import Runtime, runtime_paths
from haftd.config.command_line import parse

LogLevel = Literal["debug", "info", "warning", "error"]


class ConfigError(Exception):
    """Configuration that prevents the start (exit status 78); the message has the remedy."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    config: str | None = None
    socket: str | None = None
    log_level: LogLevel = "info"
    log_format: Literal["json", "console"] | None = None


class Paths(msgspec.Struct, frozen=True, kw_only=True):
    """Paths of all files."""

    runtime: Runtime
    state: str
    spool: str
    audit: str
    trust: str
    modules: str
    config: str
    tools: str
    is_config_named: bool = False
    """The file was named and must exist."""

    @property
    def socket(self) -> str:
        return self.runtime.socket

    def with_socket(self, socket: str) -> Paths:
        return replace(self, runtime=replace(self.runtime, socket=socket))

    @property
    def answered_calls(self) -> tuple[Path, ...]:
        """Candidates for the folder of long calls with answers; the first one in memory is taken."""
        private = Path(f"/dev/shm/haft-{os.geteuid()}")
        return (Path(self.runtime.folder, "calls"), private) if self.runtime.ours else (private,)

    @property
    def definitions(self) -> tuple[Path, ...]:
        """Sources of definitions, lowest precedence first."""
        return Path(self.config), Path(self.tools)


def read_options(argv: Sequence[str]) -> Options:
    """Parse the command line; prints and exits like argparse."""
    return Options(**vars(parse(argv)))


def find_paths(env: Mapping[str, str], uid: int, options: Options | None = None) -> Paths:
    """Return the paths; raises `ConfigError`."""
    options = options or Options()
    try:
        config = paths.config_file(env, config=options.config)
        state = paths.state_folder(env)
        return Paths(
            runtime=runtime_paths(env, uid, socket=options.socket),
            state=state,
            spool=f"{state}/spool",
            audit=paths.audit_log(env),
            trust=paths.trust_store(env),
            modules=paths.modules_folder(env),
            config=config,
            tools=paths.tools_folder(config),
            is_config_named=options.config is not None,
        )
    except paths.PathError as error:
        raise ConfigError(str(error)) from None
