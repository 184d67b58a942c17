"""An access policy in words, one sentence a rule."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from haftd.tools.definitions.access import (
    RIGHTS,
    WRITE,
    AccessPolicy,
    CommandRule,
    NetRule,
    PathRule,
    Right,
)

_MEDIATED = (
    "It is mediated: its process has none of this itself, and asks haft, which checks each request; "
    "`execute` alone is for the process."
)
_ALWAYS = (
    "Always granted: to read and execute the system's program folders (/usr, /bin, /lib and the like) "
    "and the tool's own program file with its Python, to read its own /proc and facts of the system "
    "(/etc/passwd and the like), and /dev/null, zero, urandom and tty."
)

_BY_PROXY = (
    "Network: by haft's proxy only (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY), which resolves names; no other sockets, "
    "no UDP, and none to listen."
)


def describe_access(
    policy: AccessPolicy | None, *, is_unsafe: bool, is_mediated: bool = False
) -> tuple[str, ...]:
    """Return a policy's sentences; none without rules."""
    if is_mediated:
        return (_MEDIATED, *_of_mediated(policy or AccessPolicy()))
    if is_unsafe:
        return ("Its rules are not enforced (`unsafe = true`): it may do all that its user may.",)
    return () if policy is None else tuple(_sentences(policy))


def describe_module(policy: AccessPolicy, *, is_unsafe: bool) -> tuple[str, ...]:
    return tuple(_sentences_of_module(policy, is_unsafe=is_unsafe))


def _sentences_of_module(policy: AccessPolicy, *, is_unsafe: bool) -> Iterator[str]:
    yield "It is a module of WebAssembly, which can do only what it is given: no programs, no network."
    rules = [replace(rule, grants=rule.grants - {"execute"}) for rule in policy.fs or ()]
    for rule in rules:
        yield from _path(rule)
    if not any(rule.grants for rule in rules):
        yield "Files: none."
    names = [rule.name for rule in policy.env or () if rule.read]
    yield f"Environment: {', '.join([*names, 'what its definition sets'])}."
    if is_unsafe:
        yield "The kernel's sandbox around it is left out (`unsafe = true`)."


def _sentences(policy: AccessPolicy) -> Iterator[str]:
    if policy.fs is None:
        yield "Files: as its user, as no rule is about them."
    else:
        if not policy.fs:
            yield "Files: none of its own."
        for rule in policy.fs:
            yield from _path(rule)
    yield from _net(policy)
    if policy.network == "proxy":
        yield _BY_PROXY
    yield from _env(policy)
    if policy.fs is not None:
        yield _ALWAYS


def _of_mediated(policy: AccessPolicy) -> Iterator[str]:
    """Yield the sentences of a mediated tool: its open kinds are open within the root alone."""
    if policy.fs is None:
        yield "Files: every one in the root."
    elif not policy.fs:
        yield "Files: none."
    for rule in policy.fs or ():
        yield from _path(rule)
    if policy.net is not None and any(rule.allow for rule in policy.net):
        yield from _net(policy)
    else:
        yield "Network: every host." if policy.net is None else "Network: none."
    if policy.env is None:
        yield "Environment: every variable, in headers of requests."
    elif names := [rule.name for rule in policy.env if rule.read]:
        yield f"Environment: {', '.join(names)}, in headers of requests."
    if policy.commands is None:
        yield "Programs: every one, in a sandbox by its rules."
    for command in policy.commands or ():
        yield from _commands(command)


def _commands(rule: CommandRule) -> Iterator[str]:
    if rule.args is None:
        yield f"Programs: may run {rule.program} with any arguments, in a sandbox by its rules."
    for words in rule.args or ():
        command = " ".join([rule.program, *words])
        yield f"Programs: may run {command}, in a sandbox by its rules."


def _path(rule: PathRule) -> Iterator[str]:
    place = "the root" if rule.path == "." else rule.path
    if rule.grants:
        yield f"Files: may {_rights(rule.grants)} {place} and everything below."
    if rule.denies:
        yield f"Files: may not {_rights(rule.denies)} {place} and everything below."


def _rights(rights: frozenset[Right]) -> str:
    words: list[str] = [right for right in RIGHTS if right in rights]
    if rights.issuperset(WRITE):
        words = [word for word in words if word not in WRITE]
        words.insert(1 if "read" in rights else 0, "write")
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _net(policy: AccessPolicy) -> Iterator[str]:
    if policy.net is None:
        yield "Network: as its user, as no rule is about it; but no sockets of other programs."
    elif not any(rule.allow for rule in policy.net):
        yield "Network: none, and no sockets of other programs."
    else:
        for rule in policy.net:
            yield f"Network: {'may' if rule.allow else 'may not'} connect to {_destination(rule)}."


def _destination(rule: NetRule) -> str:
    host = "every host" if rule.host == "*" else rule.host
    port = "" if rule.port is None else f", port {rule.port}"
    scheme = "" if rule.scheme is None else f", by {rule.scheme}"
    path = "" if rule.path_prefix is None else f", below {rule.path_prefix}"
    return f"{host}{port}{scheme}{path}"


def _env(policy: AccessPolicy) -> Iterator[str]:
    if policy.env is None:
        yield "Environment: that of every tool, as no rule is about it."
        return
    more = [rule.name for rule in policy.env if rule.read]
    hidden = [rule.name for rule in policy.env if not rule.read]
    yield (
        f"Environment: {', '.join(['PATH, HOME, USER, the language and terminal', *more])}, and what "
        f"its definition sets{f'; not {chr(44).join(hidden)}' if hidden else ''}."
    )
