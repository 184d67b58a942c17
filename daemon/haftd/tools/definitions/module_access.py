"""Access of a WebAssembly module: the rules' folders and variables, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from .access import WRITE, AccessPolicy, covers


def unenforceable(
    policy: AccessPolicy, runtime: str, *, is_unsafe: bool = False
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the rules that the runtime cannot enforce or grant: key and reason.

    Without a sandbox, a module has its rules even if `is_unsafe`.
    """
    if runtime != "wasm":
        yield from policy.unenforceable()
        return
    yield from replace(policy, net=(), commands=()).unenforceable()
    rules = policy.fs or ()
    for rule in rules:
        may_read = any("read" in other.grants and covers(other.path, rule.path) for other in rules)
        if rule.grants.intersection(WRITE) and not may_read:
            yield (
                ("fs",),
                (
                    f"the rule for {rule.path!r} grants writing without reading, and a module can "
                    "read each folder that it gets: grant `read` as well"
                ),
            )
        if is_unsafe and 0 < len(rule.grants.intersection(WRITE)) < len(WRITE):
            yield (
                ("fs",),
                (
                    f"the rule for {rule.path!r} grants a part of `write`, which only the kernel's "
                    "sandbox keeps apart: grant `write`, or leave out `unsafe = true`"
                ),
            )
    if any(rule.allow for rule in policy.net or ()):
        yield ("net",), 'a module of WebAssembly (`runtime = "wasm"`) has no network'
    if policy.commands:
        yield ("commands",), 'a module of WebAssembly (`runtime = "wasm"`) runs no programs'
