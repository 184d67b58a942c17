"""Rules with real paths, on which host calls decide."""

from __future__ import annotations

import os

from msgspec.structs import replace

from haftd.tools.definitions.access import covers

from .decisions import HostAccess


class RuleThroughLink(Exception):
    """A rule's path has a link below the root; the message is a clause."""


def with_real_paths(access: HostAccess) -> HostAccess:
    """Return the access with root and rules' paths without links; reads the file system.

    A tool could have placed a link below the root to widen later rules. Rules outside the root are
    left out.
    """
    root = os.path.realpath(access.root)
    if access.policy.fs is None:
        return replace(access, root=root)
    rules = []
    for rule in access.policy.fs:
        if not covers(access.root, rule.path):
            continue
        rest = rule.path[len(access.root.rstrip("/")) :].strip("/")
        real = f"{root.rstrip('/')}/{rest}" if rest else root
        if os.path.realpath(real) != real:
            raise RuleThroughLink(
                f"the rule for {rule.path} goes through a link; name the target by its own path"
            )
        rules.append(replace(rule, path=real))
    return replace(access, root=root, policy=replace(access.policy, fs=tuple(rules)))
