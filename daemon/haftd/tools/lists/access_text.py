"""Sentences about an access policy, for the description of a tool: each begins with its kind ("Files: …")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from haftd.tools.definitions.access import (
    RIGHTS,
    WRITE,
    AccessPolicy,
    CommandRule,
    EnvRule,
    NetRule,
    PathRule,
    Right,
)

_UNENFORCED = (
    "Its rules are not enforced (`unsafe = true`): it may do all that the user of haftd may."
)
_MEDIATED = (
    "It is mediated: it asks haft for files, requests, variables and programs, and haft checks each "
    "request by its rules. Its process itself may only read and execute what every sandbox grants, and "
    "places with `execute`."
)
_MODULE = (
    "It is a module of WebAssembly, which can do only what it is given: no programs, no network."
)
_ALWAYS = (
    "Always granted: to read and execute the system's program folders (/usr, /bin, /lib and the like) "
    "and the tool's own program file with its Python, to read its own /proc and facts of the system "
    "(/etc/passwd and the like), and /dev/null, zero, full, random, urandom and tty."
)
_ALWAYS_WITH_NETWORK = "Always granted with a network: to read the names of hosts and services, and certificates, in /etc."
_BY_PROXY = (
    "Network: by haft's proxy only (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY), which resolves names; no other sockets, "
    "no UDP, and no listening."
)
_INHERITED = EnvRule("PATH, HOME, USER, LOGNAME, the language, time zone and terminal")
"""`ALWAYS_INHERITED` in words."""
_BY_RULES = "in a sandbox by its rules"


def describe_access(policy: AccessPolicy | None, *, is_unsafe: bool) -> tuple[str, ...]:
    """Return the sentences about a process in a sandbox, none without a policy; `is_unsafe`: with rules that
    are not enforced."""
    if is_unsafe:
        return (_UNENFORCED,)
    return () if policy is None else tuple(_describe_process(policy))


def describe_mediated(policy: AccessPolicy) -> tuple[str, ...]:
    """Return the sentences about a tool of `runtime = "vfs"`."""
    return (_MEDIATED, *_describe_host_calls(policy))


def describe_module(policy: AccessPolicy, *, is_unsafe: bool) -> tuple[str, ...]:
    """Return the sentences about a tool of `runtime = "wasm"`, which has its rules also if `is_unsafe`."""
    return tuple(_describe_module(policy, is_unsafe=is_unsafe))


def _describe_module(policy: AccessPolicy, *, is_unsafe: bool) -> Iterator[str]:
    yield _MODULE
    execute = {"execute"}  # a module executes nothing
    rules = [
        replace(rule, grants=rule.grants - execute, denies=rule.denies - execute)
        for rule in policy.fs or ()
    ]
    for rule in rules:
        yield from _describe_path(rule)
    if not any(rule.grants for rule in rules):
        yield "Files: none."
    names = _list_names(policy.env or ())
    yield f"Environment: {f'{names}, and' if names else 'only'} what its definition sets."
    if is_unsafe:
        yield "The kernel's sandbox around it is left out (`unsafe = true`)."


def _describe_process(policy: AccessPolicy) -> Iterator[str]:
    if policy.fs is None:
        yield "Files: all that the user of haftd may access, as no rule is about files."
    else:
        if not policy.fs:
            yield "Files: none but those that are always granted."
        for rule in policy.fs:
            yield from _describe_path(rule)
    yield from _describe_network(policy)
    if policy.network == "proxy":
        yield _BY_PROXY
    yield _describe_environment(policy)
    if policy.fs is not None:
        yield _ALWAYS
        if policy.network != "none":
            yield _ALWAYS_WITH_NETWORK


def _describe_host_calls(policy: AccessPolicy) -> Iterator[str]:
    """Yield the sentences about requests to haft, which reach no file outside of the root also where no
    rule is about files."""
    if policy.fs is None:
        yield "Files: every one in the root."
    elif not policy.fs:
        yield "Files: none."
    for rule in policy.fs or ():
        yield from _describe_path(rule)
    if policy.net is not None and any(rule.allow for rule in policy.net):
        yield from _describe_network(policy)
    else:
        yield "Network: every host." if policy.net is None else "Network: none."
    if policy.env is None:
        yield "Environment: every variable that is not secret, in headers of requests."
    elif names := _list_names(policy.env):
        yield f"Environment: {names}, in headers of requests."
    else:
        yield "Environment: none."
    if policy.commands is None:
        yield f"Programs: every one, {_BY_RULES}."
        return
    commands = [sentence for rule in policy.commands for sentence in _describe_command(rule)]
    yield from commands or ["Programs: none."]


def _describe_command(rule: CommandRule) -> Iterator[str]:
    variables = f", with {', '.join(rule.envs)}" if rule.envs else ""
    if rule.args is None:
        yield f"Programs: may run {rule.program} with any arguments, {_BY_RULES}{variables}."
    for words in rule.args or ():
        command = " ".join([rule.program, *words])
        yield f"Programs: may run {command}, {_BY_RULES}{variables}."


def _describe_path(rule: PathRule) -> Iterator[str]:
    place = "the root" if rule.path == "." else rule.path
    if rule.grants:
        yield f"Files: may {_join_rights(rule.grants)} {place} and everything below."
    if rule.denies:
        yield f"Files: may not {_join_rights(rule.denies)} {place} and everything below."


def _join_rights(rights: frozenset[Right]) -> str:
    words: list[str] = [right for right in RIGHTS if right in rights]
    if rights.issuperset(WRITE):
        words = [word for word in words if word not in WRITE]
        words.insert(1 if "read" in rights else 0, "write")
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _describe_network(policy: AccessPolicy) -> Iterator[str]:
    if policy.net is None:
        yield (
            "Network: all that the user of haftd may reach, as no rule is about it, but no Unix "
            "sockets of other programs."
        )
    elif not any(rule.allow for rule in policy.net):
        yield "Network: none, and no Unix sockets of other programs."
    else:
        for rule in policy.net:
            verb = "may" if rule.allow else "may not"
            yield f"Network: {verb} connect to {_describe_destination(rule)}."


def _describe_destination(rule: NetRule) -> str:
    host = "every host" if rule.host == "*" else rule.host
    port = "" if rule.port is None else f", port {rule.port}"
    scheme = "" if rule.scheme is None else f", by {rule.scheme}"
    path = "" if rule.path_prefix is None else f", below {rule.path_prefix}"
    return f"{host}{port}{scheme}{path}"


def _describe_environment(policy: AccessPolicy) -> str:
    if policy.env is None:
        return "Environment: that of a tool without rules, as no rule is about variables."
    names = _list_names((_INHERITED, *policy.env))
    return f"Environment: {names}, and what its definition sets."


def _list_names(rules: Sequence[EnvRule]) -> str:
    """Return the granted names, and in brackets the denied names; an empty text if none is granted."""
    granted = ", ".join(rule.name for rule in rules if rule.read)
    denied = ", ".join(rule.name for rule in rules if not rule.read)
    return f"{granted} (not {denied})" if granted and denied else granted
