"""From an access policy to the sandbox of a process."""

from __future__ import annotations

from haft_protocol.errors import RpcError, shown, spawn_failed
from haftd.launch_spec import Grant, Sandbox
from haftd.tools.definitions.access import AccessPolicy, UnsetVariable
from haftd.tools.definitions.definition import Tool
from haftd.tools.definitions.module_access import unenforceable

CONFINED_RUNTIMES = ("stdio", "pty", "wasm")
"""The runtimes that start a process by `host/launch`, which applies the sandbox."""


def policy_in_force(tool: Tool, root: str, variables: dict[str, str]) -> AccessPolicy | None:
    """Return the tool's policy with absolute paths; raises `RpcError`."""
    if tool.policy is None:
        return None
    try:
        policy = tool.policy.at(root, variables)
    except UnsetVariable as unset:
        raise _refusal(tool, str(unset)) from None
    # Absolute and relative rules may turn out to lie within each other.
    for _, why in unenforceable(policy, tool.runtime, is_unsafe=tool.unsafe):
        raise _refusal(tool, why)
    return policy


def sandbox_of(tool: Tool, policy: AccessPolicy | None, root: str, runtime: str) -> Sandbox | None:
    """Return the sandbox that enforces the policy; raises `RpcError`."""
    if policy is None or tool.unsafe:
        return None
    if runtime not in CONFINED_RUNTIMES:
        raise _refusal(tool, f"the runtime {shown(runtime)} enforces none")
    network = policy.net is None or any(rule.allow for rule in policy.net)
    denials = tuple(
        Grant(rule.path, frozenset(rule.denies)) for rule in policy.fs or () if rule.denies
    )
    grants = None if policy.fs is None else grants_of(policy)
    return Sandbox(root, grants, network, denials)


def grants_of(policy: AccessPolicy) -> tuple[Grant, ...]:
    """Return the rights at the absolute paths of the rules."""
    return tuple(
        Grant(rule.path, frozenset(rights))
        for rule in policy.fs or ()
        if (rights := policy.rights(rule.path))
    )


def _refusal(tool: Tool, why: str) -> RpcError:
    return spawn_failed(
        f"the access rules of {shown(tool.name)} cannot be enforced: {why}", reason="sandbox"
    )
