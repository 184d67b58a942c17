"""From an access policy to the sandbox of a process."""

from __future__ import annotations

from collections.abc import Mapping

from haft_protocol.errors import RpcError, shown, spawn_failed
from haftd.launch_spec import Grant, Sandbox, is_within
from haftd.tools.definitions.access import NOTHING, AccessPolicy, UnsetVariable, find_unenforceable
from haftd.tools.definitions.definition import Tool
from haftd.tools.definitions.runtime_names import MEDIATED

CONFINED_RUNTIMES = ("stdio", "pty", "wasm")
"""Runtimes that start a process by `host/launch`, which applies the sandbox."""


def policy_in_force(tool: Tool, root: str, variables: Mapping[str, str]) -> AccessPolicy | None:
    """Return the tool's policy with absolute paths; None without rules. Raises `RpcError`
    (spawn_failed)."""
    if tool.policy is None:
        return None
    try:
        policy = tool.policy.at(root, variables)
    except UnsetVariable as unset:
        raise _make_refusal(tool, str(unset)) from None
    return policy


def make_sandbox(
    tool: Tool, policy: AccessPolicy | None, root: str, runtime: str
) -> Sandbox | None:
    """Return the sandbox that enforces the policy; None without rules, and for an unsafe tool. Raises
    `RpcError` (spawn_failed)."""
    if runtime == MEDIATED:
        return _make_mediated_sandbox(tool, mediated_policy(tool, policy), root)
    if policy is None:
        return None
    # An absolute rule may be within a relative one, and the reverse.
    for _, why in find_unenforceable(policy, runtime, is_unsafe=tool.unsafe):
        raise _make_refusal(tool, why)
    if tool.unsafe:
        return None
    if runtime not in CONFINED_RUNTIMES:
        raise _make_refusal(tool, f"the runtime {shown(runtime)} enforces none")
    return _make_policy_sandbox(policy, root, policy.network)


def mediated_policy(tool: Tool, policy: AccessPolicy | None) -> AccessPolicy:
    """Return a mediated tool's rules: without rules the tool may do nothing."""
    return policy or (AccessPolicy() if tool.unsafe else NOTHING)


def make_program_sandbox(policy: AccessPolicy, root: str) -> Sandbox:
    """Return the sandbox of a mediated tool's program.

    The proxy sees no path of a URL within TLS: such rules leave the program without a network.
    """
    has_paths = any(rule.path_prefix is not None for rule in policy.net or ())
    return _make_policy_sandbox(policy, root, "none" if has_paths else policy.network)


def _make_policy_sandbox(policy: AccessPolicy, root: str, network: str) -> Sandbox:
    return Sandbox(
        root,
        list_grants(policy),
        network == "all",
        list_denials(policy),
        is_proxied=network == "proxy",
    )


def list_grants(policy: AccessPolicy) -> tuple[Grant, ...] | None:
    """Return the rights at each rule's path; None for open files."""
    if policy.fs is None:
        return None
    return tuple(
        Grant(rule.path, frozenset(rights))
        for rule in policy.fs
        if (rights := policy.list_rights(rule.path))
    )


def list_denials(policy: AccessPolicy) -> tuple[Grant, ...]:
    """Return the rights that rules take away."""
    return tuple(
        Grant(rule.path, frozenset(rule.denies)) for rule in policy.fs or () if rule.denies
    )


def _make_mediated_sandbox(tool: Tool, policy: AccessPolicy, root: str) -> Sandbox:
    """Return the process's own sandbox: places with `execute`, never the root."""
    for _, why in policy.find_unmediated():
        raise _make_refusal(tool, why)
    grants = []
    for rule in policy.fs or ():
        if not is_within(rule.path, root) and rule.grants - {"execute"} and not policy.commands:
            raise _make_refusal(
                tool,
                f"the rule for {rule.path!r} is outside of the root {root!r}, to which host calls are "
                "confined; only `execute` may be elsewhere",
            )
        if "execute" not in rule.grants or rule.path == root:
            continue
        for inner in policy.fs or ():
            if inner.path.startswith(f"{rule.path}/") and inner.denies & {"read", "execute"}:
                raise _make_refusal(
                    tool,
                    f"the rule for {inner.path!r} denies a part of what `execute` for "
                    f"{rule.path!r} lets the process itself read; Linux (Landlock) can only add rights",
                )
        grants.append(Grant(rule.path, frozenset({"read", "execute"})))
    return Sandbox(root, tuple(grants))


def _make_refusal(tool: Tool, why: str) -> RpcError:
    return spawn_failed(
        f"the access rules of {shown(tool.name)} cannot be enforced: {why}", reason="sandbox"
    )
