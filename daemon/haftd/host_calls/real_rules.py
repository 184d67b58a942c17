"""Rules with the real paths of their places, as host calls decide on real paths."""

from __future__ import annotations

import os
from dataclasses import replace

from .decisions import HostAccess


class RuleLeadsOut(Exception):
    """A rule's path leads out of the root by a link; the message is a clause."""


def with_real_paths(access: HostAccess) -> HostAccess:
    """Return the access with the root and the rules' paths without links; reads the file system.

    Rules outside of the root are left out, as no host call leads there.
    """
    if access.policy.fs is None:
        return replace(access, root=os.path.realpath(access.root))
    root = os.path.realpath(access.root)
    rules = []
    for rule in access.policy.fs:
        if not _is_within(rule.path, access.root):
            continue
        real = os.path.realpath(rule.path)
        if not _is_within(real, root):
            raise RuleLeadsOut(
                f"the rule for {rule.path} goes through a link that leads out of the root {root}"
            )
        rules.append(replace(rule, path=real))
    return replace(access, root=root, policy=replace(access.policy, fs=tuple(rules)))


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
