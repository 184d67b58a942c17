"""The addresses that a person has listed: the file `hosts` in the folder of haft's configuration."""

from __future__ import annotations

from collections.abc import Mapping

from haft_protocol.paths import PathError, config_home

from ..errors import Misplaced

_LOCAL = "unix://"
_MAX_BYTES = 1 << 20


def host_list(chosen: str | None, env: Mapping[str, str]) -> list[str]:
    """Return this machine, the chosen or else the environment's host, and those of the file, each once.

    Raises `Misplaced` for a file that cannot be read.
    """
    current = chosen or env.get("HAFT_HOST")
    return [*dict.fromkeys([_LOCAL, *([current] if current else ()), *listed_hosts(env)])]


def listed_hosts(env: Mapping[str, str]) -> list[str]:
    """Return the addresses in the file, none if there is no file."""
    try:
        path = f"{config_home(env)}/haft/hosts"
        with open(path, encoding="utf-8") as file:
            text = file.read(_MAX_BYTES)
    except FileNotFoundError:
        return []
    except PathError as fault:
        raise Misplaced(str(fault)) from None
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "it is not UTF-8"
        raise Misplaced(f"{path} cannot be read: {reason}") from None
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line]
