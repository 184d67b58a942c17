"""Addresses of machines in the user's file `hosts`, in the folder of haft's configuration.

One address on a line; `#` begins a comment.
"""

from __future__ import annotations

from collections.abc import Mapping

from haft_protocol.paths import PathError, config_home

from ..errors import InvalidAddress

_LOCAL = "unix://"
_MAX_BYTES = 1 << 20


def host_list(chosen: str | None, env: Mapping[str, str]) -> list[tuple[int | str, str]]:
    """Return the addresses of this machine, of `chosen` or else HAFT_HOST, and of the file, each
    once, with its line number in the file, or else the name of its source.

    Raises as `listed_hosts`.
    """
    listed: dict[str, int | str] = {_LOCAL: "this machine"}
    if chosen:
        listed.setdefault(chosen, "--host")
    elif current := env.get("HAFT_HOST"):
        listed.setdefault(current, "HAFT_HOST")
    for number, address in listed_hosts(env):
        listed.setdefault(address, number)
    return [(source, address) for address, source in listed.items()]


def hosts_file(env: Mapping[str, str]) -> str:
    """Return the file's path. Raises `InvalidAddress`."""
    try:
        return f"{config_home(env)}/haft/hosts"
    except PathError as fault:
        raise InvalidAddress(str(fault)) from None


def listed_hosts(env: Mapping[str, str]) -> list[tuple[int, str]]:
    """Return the file's addresses, not validated, with their line numbers; none without a file.

    Raises `InvalidAddress` for a file that cannot be read, or is longer than 1 MiB. A byte that is
    not UTF-8 becomes U+FFFD, which makes the address invalid.
    """
    try:
        path = hosts_file(env)
        with open(path, "rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as fault:
        raise InvalidAddress(f"{path} cannot be read: {fault.strerror}") from None
    if len(data) > _MAX_BYTES:
        raise InvalidAddress(
            f"{path} is longer than {_MAX_BYTES >> 20} MiB; it has one address on a line"
        )
    text = data.decode("utf-8", errors="replace")
    lines = enumerate((line.partition("#")[0].strip() for line in text.split("\n")), 1)
    return [(number, line) for number, line in lines if line]
