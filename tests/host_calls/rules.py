"""Access of host calls from rules as a definition has them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from haftd.host_calls.decisions import HostAccess
from haftd.tools.definitions.access_fields import read_access, read_policy


def access_of(
    toml: str, root: Path | str = "/r", variables: Mapping[str, str] | None = None
) -> HostAccess:
    """Return the access by the keys of `access`."""
    policy = read_policy(read_access(tomllib.loads(toml)), None, strict=True).at(str(root), {})
    values = dict(variables or {})
    return HostAccess(str(root), policy, values, values)
