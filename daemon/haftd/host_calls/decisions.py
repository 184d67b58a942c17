"""Decisions on host calls by the rules of access: a value, or `HostCallError` with the rule.

Paths are relative to the root, and real ones: links are resolved before. An address is that of the
connection, not what a name resolves to later. Each public function raises `HostCallError`, kind `invalid` for a
request without a meaning, `denied` for one that no rule permits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar
from urllib.parse import urlsplit

import msgspec

from haft_protocol.errors import shown
from haftd.lazy_pattern import lazy_pattern
from haftd.redaction import Redacted
from haftd.tools.definitions.access import (
    PORTS,
    AccessPolicy,
    NetRule,
    Right,
    canonicalize_host,
)

from .addresses import is_public
from .messages import HostCallError

MAX_PATH = 4096
"""Bytes of a path: PATH_MAX of Linux (limits.h)."""
_MAX_URL = 8192
"""Characters of a URL: RFC 9110, section 4.1, recommends to support 8,000."""
_MAX_RULES = 4
"""Rules that a message about a denial shows, with the number of the others."""
_MAX_COMMAND = 200
"""Characters of a command in a message, longer ones end with an ellipsis."""
_SCHEMES = ("http", "https")
# A name or an IPv6 address in brackets; canonicalize_host reads IPv4 addresses.
_HOST = lazy_pattern(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?\.?|\[[0-9A-Fa-f:.]+\]")
_PRINTABLE = lazy_pattern(r"[!-~]+")
_TOKEN = lazy_pattern(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2
_VARIABLE = lazy_pattern(r"\$\{([^}]*)\}")
_CONNECTION_HEADERS = frozenset(
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
"""Headers about the connection and its messages (RFC 9110, sections 7.6.1, 10.1 and 12.5.3), which haft
handles: it sends those that are needed, and none of the others."""


class HostAccess(Redacted, frozen=True):
    """Rules of one call."""

    UNSHOWN: ClassVar[tuple[str, ...]] = ("variables", "private")

    root: str
    """Absolute path without links."""
    policy: AccessPolicy
    """Rules with absolute paths without links."""
    variables: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Values of the variables that headers may name, by name."""
    private: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Values that no reply may contain, by name: `variables`, and the variables of programs."""


class Destination(msgspec.Struct, frozen=True):
    """Destination of a permitted request."""

    scheme: str
    host: str
    port: int
    target: str
    """Path with its query: the request-target of RFC 9112."""

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


def make_relative(path: str, root: str) -> str:
    """Return the path of a tool's request relative to the root, empty for the root itself.

    >>> make_relative("./src//a.py", "/r"), make_relative("/r/a", "/r"), make_relative(".", "/r")
    ('src/a.py', 'a', '')
    """
    if "\0" in path:
        raise HostCallError("invalid", "The path has a NUL byte, which no name of a file can have.")
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        raise HostCallError(
            "invalid", "The path has half of a surrogate pair, which is not a character."
        ) from None
    if not path or size > MAX_PATH:
        raise HostCallError("invalid", f"A path has 1 to {MAX_PATH} bytes, and this one {size}.")
    if path.startswith("/"):
        base = root.rstrip("/")
        if path != base and not path.startswith(f"{base}/"):
            raise HostCallError("denied", f"{shown(path)} is outside of the root, {shown(root)}.")
        path = path[len(base) :]
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise HostCallError(
            "denied",
            f"{shown(path)} has a `..`, and links decide where that leads: write the path without it.",
        )
    return "/".join(parts)


def require_right(access: HostAccess, right: Right, path: str) -> None:
    """Require that the rules grant a right on a relative path."""
    absolute = join_root(access.root, path)
    if access.policy.may(right, absolute):
        return
    rule = access.policy.find_rule(right, absolute)
    if rule is None:
        why = f"no rule of `access.fs` grants it: `fs.{right} = [{shown(path or '.')}]` would"
    else:
        place = shown(_strip_root(access.root, rule.path))
        why = f"the rule of `access.fs` for {place} takes it away"
    raise HostCallError(
        "denied", f"{_ACTIONS[right]} {shown(path or '.')} is not permitted: {why}."
    )


_ACTIONS: dict[Right, str] = {
    "read": "Reading",
    "create": "Creating",
    "update": "Changing",
    "delete": "Deleting",
    "execute": "Executing",
}


def require_move(access: HostAccess, source: str, new_path: str) -> None:
    """Require that a move gains no right, and that no rule is about a place within either path, which
    would keep its path while the files move."""
    require_right(access, "delete", source)
    require_right(access, "create", new_path)
    for path in (source, new_path):
        absolute = join_root(access.root, path)
        for rule in access.policy.fs or ():
            if rule.path.startswith(f"{absolute}/"):
                raise HostCallError(
                    "denied",
                    f"{shown(path)} is not moved: the rule of `access.fs` for "
                    f"{shown(_strip_root(access.root, rule.path))} is about a place within.",
                )
    had = access.policy.list_rights(join_root(access.root, source))
    gained = sorted(access.policy.list_rights(join_root(access.root, new_path)) - had)
    if gained:
        raise HostCallError(
            "denied",
            f"{shown(source)} is not moved to {shown(new_path)}: it would gain the right "
            f"{', '.join(gained)}, which `access.fs` does not grant at {shown(source)}.",
        )


def join_root(root: str, path: str) -> str:
    """Return the absolute path of one relative to the root."""
    return f"{root.rstrip('/')}/{path}" if path else root


def _strip_root(root: str, path: str) -> str:
    """Return an absolute path relative to the root; outside of the root, as it is."""
    if path == root:
        return "."
    base = root.rstrip("/") + "/"
    return path[len(base) :] if path.startswith(base) else path


def require_url(access: HostAccess, url: str) -> Destination:
    """Require that the rules permit a request to `url`; return its destination."""
    if not _PRINTABLE.fullmatch(url) or len(url) > _MAX_URL or "\\" in url:
        raise HostCallError(
            "invalid",
            f"A URL has 1 to {_MAX_URL} characters of printable ASCII, no blank and no backslash: "
            "percent-encode others.",
        )
    if "${" in url:
        raise HostCallError("invalid", "Variables are filled into headers only, not into URLs.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise HostCallError("invalid", f"{shown(url)} is not a valid URL.") from None
    if parts.scheme not in _SCHEMES:
        raise HostCallError("invalid", f"{shown(url)} is not a URL of http or https.")
    if "@" in parts.netloc:
        raise HostCallError("invalid", "The URL has a user: put credentials into a header.")
    name = parts.netloc if port is None else parts.netloc.rpartition(":")[0]
    if not _HOST.fullmatch(name.removesuffix(":")):
        raise HostCallError("invalid", f"{shown(parts.netloc)} is not a valid host.")
    host = canonicalize_host(parts.hostname or "")
    port = PORTS[parts.scheme] if port is None else port
    path = parts.path or "/"
    if not access.policy.may_connect(host, port, parts.scheme, path):
        raise HostCallError(
            "denied",
            f"A request to {parts.scheme}://{host}:{port}{path} is not permitted: "
            f"{_explain_denial(access.policy, host)}.",
        )
    target = f"{path}?{parts.query}" if parts.query else path
    return Destination(parts.scheme, host, port, target)


def _explain_denial(policy: AccessPolicy, host: str) -> str:
    rules = [
        rule for rule in policy.net or () if rule.host in ("*", host) or _covers_name(rule, host)
    ]
    if not rules:
        return f"no rule of `access.net` is about {shown(host)}"
    return f"the rules of `access.net` about it are {_list_some(map(_describe, rules), '; ')}"


def _covers_name(rule: NetRule, host: str) -> bool:
    return rule.host.startswith("*.") and host.endswith(rule.host[1:])


def _describe(rule: NetRule) -> str:
    narrower = {"scheme": rule.scheme, "port": rule.port, "path_prefix": rule.path_prefix}
    more = "".join(f", {key} {value}" for key, value in narrower.items() if value is not None)
    return f"{'' if rule.allow else 'not '}{shown(rule.host)}{more}"


def _list_some(texts: Iterable[str], separator: str) -> str:
    """Join the first `_MAX_RULES` texts, and the number of the others."""
    listed = list(texts)
    hidden = len(listed) - _MAX_RULES
    more = [f"{hidden} more"] if hidden > 0 else []
    return separator.join([*listed[:_MAX_RULES], *more])


def require_address(access: HostAccess, to: Destination, address: str) -> None:
    """Require that the rules permit an address of the destination's name.

    An address that is not public needs a rule with this address: the owner of a name decides where it
    leads.
    """
    number, path = canonicalize_host(address), to.target.partition("?")[0]
    if access.policy.may_reach(
        to.host, number, to.port, to.scheme, path, is_public=is_public(address)
    ):
        return
    denial = f"A request to {shown(to.host)} is not permitted: it leads to {number}"
    if any(rule.host == number and not rule.allow for rule in access.policy.net or ()):
        raise HostCallError("denied", f"{denial}, which a rule of `access.net` forbids.")
    raise HostCallError(
        "denied",
        f"{denial}, an address of this machine or of a private network, which needs a rule with the "
        f'address: host = "{number}".',
    )


def fill_headers(
    access: HostAccess, headers: Mapping[str, str]
) -> tuple[list[tuple[str, str]], frozenset[str]]:
    """Replace each `${NAME}` in values by the variable's value.

    Return the headers as pairs of name and value, and the names in lower case of those that had a
    variable.
    """
    filled: list[tuple[str, str]] = []
    secret: set[str] = set()
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name):
            raise HostCallError("invalid", f"{shown(name)} is not a valid name of a header.")
        if name.lower() in _CONNECTION_HEADERS:
            raise HostCallError(
                "invalid", f"The header {name} is about the connection, which haft handles itself."
            )
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
                "invalid",
                f"The header {name} has a control character or a character outside of ASCII.",
            )
        filled.append((name, text.strip()))
    if secret and any(name.lower() == "range" for name, _ in filled):
        raise HostCallError(
            "denied",
            "A request with a variable must not have the header Range: in a part of a reply haft could not "
            "recognize the variable's value, which it removes.",
        )
    return filled, frozenset(secret)


def require_command(access: HostAccess, program: str, args: list[str]) -> tuple[str, ...]:
    """Require that the rules permit a command; return the names of the variables that it is given: those of
    the rules that permit these arguments."""
    rules = access.policy.commands
    if rules is None:
        return ()
    permitting = [rule for rule in rules if rule.permits(program, args)]
    if permitting:
        return tuple(dict.fromkeys(name for rule in permitting for name in rule.envs))
    patterns = [
        shown(" ".join([program, *words]))
        for rule in rules
        if rule.program == program
        for words in rule.args or ()
    ]
    if not patterns:
        why = f"no rule of `access.commands` is about {shown(program)}"
    else:
        why = f"`access.commands` permits {_list_some(patterns, ', ')}"
    command = shown(" ".join([program, *args]), _MAX_COMMAND)
    raise HostCallError("denied", f"Running {command} is not permitted: {why}.")
