"""The choice of a daemon's address: `--host`, `HAFT_HOST`, `--socket`, then `HAFT_SOCKET`."""

from __future__ import annotations

from .local_address import Local

TYPE_CHECKING = False  # `typing` takes 3 ms
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .addresses import Address


def chosen_address(host: str | None, socket: str | None, env: Mapping[str, str]) -> Address:
    """Return the address by precedence; a socket of the environment is found later, by its path.

    >>> chosen_address(None, "/s", {"HAFT_HOST": "ssh://me@box"}).name
    'me@box'
    """
    named = host or env.get("HAFT_HOST")
    if not named:
        return Local(socket)
    from .addresses import parse_address

    return parse_address(named, "--host" if host else "HAFT_HOST")
