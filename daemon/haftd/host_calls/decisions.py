"""Decisions on host calls by the rules of access: a value, or `HostCallError` with the rule.

A file's path is the real one, below the root; an address is the connection's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar
from urllib.parse import urlsplit

import msgspec

from haft_protocol.errors import shown
from haftd.lazy_pattern import lazy_pattern
from haftd.redaction import Redacted
from haftd.tools.definitions.access import (
    PORTS,
    AccessPolicy,
    CommandRule,
    NetRule,
    Right,
    canonical_host,
)

from .addresses import is_public
from .messages import HostCallError

MAX_PATH = 4096
_MAX_URL = 8192
_SCHEMES = ("http", "https")
_HOST = lazy_pattern(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?\.?|\[[0-9A-Fa-f:.]+\]")
_URL = lazy_pattern(r"[!-~]+")
_TOKEN = lazy_pattern(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VARIABLE = lazy_pattern(r"\$\{([^}]*)\}")
_OWN_HEADERS = frozenset(
    [
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ]
)
"""Headers of the connection, set by haft."""


class HostAccess(Redacted, frozen=True):
    """Rules of one call."""

    UNSHOWN: ClassVar[tuple[str, ...]] = ("variables", "private")

    root: str
    """Real root."""
    policy: AccessPolicy
    """Rules with real absolute paths."""
    variables: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Values that headers may name."""
    private: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Values by name: those of `variables` and of programs' variables."""


class Destination(msgspec.Struct, frozen=True):
    """Permitted target of a request."""

    scheme: str
    host: str
    port: int
    target: str
    """Path with its query."""

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


def relative_path(path: str, root: str) -> str:
    """Return a path as given by a tool relative to the root, empty for the root itself.

    >>> relative_path("./src//a.py", "/r"), relative_path("/r/a", "/r"), relative_path(".", "/r")
    ('src/a.py', 'a', '')
    """
    if "\0" in path:
        raise HostCallError("invalid", "The path has a NUL byte, which no file's name can have.")
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        raise HostCallError(
            "invalid", "The path has half a character (a lone surrogate)."
        ) from None
    if not path or size > MAX_PATH:
        raise HostCallError("invalid", f"A path has 1 to {MAX_PATH} bytes, and this one {size}.")
    if path.startswith("/"):
        base = root.rstrip("/")
        if path != base and not path.startswith(f"{base}/"):
            raise HostCallError("denied", f"{shown(path)} lies outside of the root, {shown(root)}.")
        path = path[len(base) :]
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise HostCallError(
            "denied",
            f"{shown(path)} has a `..`, which links change the meaning of: write the path.",
        )
    return "/".join(parts)


def require(access: HostAccess, right: Right, path: str) -> None:
    """Require a right on a relative path; raises `HostCallError`."""
    full = below(access.root, path)
    if access.policy.may(right, full):
        return
    rule = access.policy.rule_of(right, full)
    if rule is None:
        why = f"no rule of `access.fs` grants it: `fs.{right} = [{shown(path or '.')}]` would"
    else:
        why = f"the rule of `access.fs` for {shown(_within(access.root, rule.path))} takes it away"
    raise HostCallError("denied", f"{_PAST[right]} {shown(path or '.')} is not permitted: {why}.")


_PAST: dict[Right, str] = {
    "read": "To read",
    "create": "To create",
    "update": "To change",
    "delete": "To delete",
    "execute": "To execute",
}


def require_move(access: HostAccess, source: str, target: str) -> None:
    """Require that a move gains no right and takes along no place with rules of its own."""
    require(access, "delete", source)
    require(access, "create", target)
    for path in (source, target):
        full = below(access.root, path)
        for rule in access.policy.fs or ():
            if rule.path.startswith(f"{full}/"):
                raise HostCallError(
                    "denied",
                    f"{shown(path)} is not moved: the rule of `access.fs` for "
                    f"{shown(_within(access.root, rule.path))} is about a place within.",
                )
    had = access.policy.rights(below(access.root, source))
    gained = sorted(access.policy.rights(below(access.root, target)) - had)
    if gained:
        raise HostCallError(
            "denied",
            f"{shown(source)} is not moved to {shown(target)}: it would gain the right "
            f"{', '.join(gained)}, which `access.fs` does not grant at {shown(source)}.",
        )


def below(root: str, path: str) -> str:
    return f"{root.rstrip('/')}/{path}" if path else root


def _within(root: str, path: str) -> str:
    if path == root:
        return "."
    base = root.rstrip("/") + "/"
    return path[len(base) :] if path.startswith(base) else path


def destination(access: HostAccess, url: str) -> Destination:
    """Return the target of a permitted request to `url`; raises `HostCallError`."""
    if not _URL.fullmatch(url) or len(url) > _MAX_URL or "\\" in url:
        raise HostCallError(
            "invalid",
            f"The URL has a blank, a character outside of ASCII, a backslash, or more than {_MAX_URL} "
            "characters: percent-encode it.",
        )
    if "${" in url:
        raise HostCallError("invalid", "A variable is filled into headers only, not into a URL.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise HostCallError("invalid", f"{shown(url)} is no URL.") from None
    if parts.scheme not in _SCHEMES:
        raise HostCallError("invalid", f"{shown(url)} is no URL of http or https.")
    if "@" in parts.netloc:
        raise HostCallError("invalid", "The URL has a user: put credentials into a header.")
    name = parts.netloc if port is None else parts.netloc.rpartition(":")[0]
    if not _HOST.fullmatch(name.removesuffix(":")):
        raise HostCallError("invalid", f"{shown(parts.netloc)} is no host.")
    host = canonical_host(parts.hostname or "")
    port = PORTS[parts.scheme] if port is None else port
    path = parts.path or "/"
    target = f"{path}?{parts.query}" if parts.query else path
    if not access.policy.may_connect(host, port, parts.scheme, path):
        raise HostCallError(
            "denied",
            f"A request to {parts.scheme}://{host}:{port}{path} is not permitted: "
            f"{_no_rule(access.policy, host)}.",
        )
    return Destination(parts.scheme, host, port, target)


def _no_rule(policy: AccessPolicy, host: str) -> str:
    about = [rule for rule in policy.net or () if rule.host in ("*", host) or _is_below(host, rule)]
    if not about:
        return f"no rule of `access.net` is about {shown(host)}"
    words = "; ".join(_words(rule) for rule in about[:4])
    return f"the rules of `access.net` about it are {words}"


def _is_below(host: str, rule: NetRule) -> bool:
    return rule.host.startswith("*.") and host.endswith(rule.host[1:])


def _words(rule: NetRule) -> str:
    named = {"scheme": rule.scheme, "port": rule.port, "path_prefix": rule.path_prefix}
    more = "".join(f", {key} {value}" for key, value in named.items() if value is not None)
    return f"{'' if rule.allow else 'not '}{shown(rule.host)}{more}"


def require_address(access: HostAccess, to: Destination, address: str) -> None:
    """Require that the rules permit the address of the destination's name; raises `HostCallError`.

    An address that is not public needs a rule of its own: a name's owner decides where it leads.
    """
    own, path, public = canonical_host(address), to.target.partition("?")[0], is_public(address)
    if access.policy.may_reach(to.host, own, to.port, to.scheme, path, is_public=public):
        return
    if any(rule.host == own and not rule.allow for rule in access.policy.net or ()):
        raise HostCallError(
            "denied",
            f"A request to {shown(to.host)} is not permitted: it leads to {own}, which a rule of "
            "`access.net` forbids.",
        )
    raise HostCallError(
        "denied",
        f"A request to {shown(to.host)} is not permitted: it leads to {own}, an address of this "
        f'machine or a private network, which needs a rule of its own: host = "{own}".',
    )


def fill_headers(
    access: HostAccess, headers: Mapping[str, str]
) -> tuple[list[tuple[str, str]], frozenset[str]]:
    """Return the headers with their variables filled in, and the names of these headers."""
    filled: list[tuple[str, str]] = []
    secret: set[str] = set()
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name):
            raise HostCallError("invalid", f"{shown(name)} is no name of a header.")
        if name.lower() in _OWN_HEADERS:
            raise HostCallError("invalid", f"haft sets the header {name} itself.")
        for variable in _VARIABLE.findall(value):
            if variable not in access.variables:
                raise HostCallError(
                    "denied",
                    f"The header {name} names the variable {shown(variable)}, which is not set, or "
                    "which no rule of `access.env` grants.",
                )
            secret.add(name.lower())
        text = _VARIABLE.sub(lambda match: access.variables[match[1]], value)
        if not text.isascii() or not (text.isprintable() or not text):
            raise HostCallError(
                "invalid", f"The header {name} has a line end or a character outside of ASCII."
            )
        filled.append((name, text.strip()))
    if secret and any(name.lower() == "range" for name, _ in filled):
        raise HostCallError("denied", "A request with a variable takes no Range.")
    return filled, frozenset(secret)


def command(access: HostAccess, program: str, args: list[str]) -> CommandRule:
    """Return the rule that permits a command; raises `HostCallError`."""
    policy = access.policy
    if policy.commands is None:
        return CommandRule(program)
    if policy.may_run(program, *args):
        envs = [name for rule in policy.commands if rule.program == program for name in rule.envs]
        return CommandRule(program, envs=tuple(envs))
    patterns = [
        " ".join([program, *words])
        for rule in policy.commands
        if rule.program == program
        for words in rule.args or ()
    ]
    if not patterns:
        why = f"no rule of `access.commands` is about {shown(program)}"
    else:
        why = f"`access.commands` permits {', '.join(map(shown, patterns[:4]))}"
    command = " ".join([program, *args])
    raise HostCallError("denied", f"To run {shown(command[:200])} is not permitted: {why}.")
