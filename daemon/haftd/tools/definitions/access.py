"""Access policy of a tool: rules on files, network, environment and commands, and decisions by
them.

A kind (`fs`, `net`, `env`, `commands`) that is None is open; an empty one grants nothing. The rule
with the longest path, or the most specific address, decides; of two equal rules the denial. Paths
and URLs are compared as texts: resolve them first.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal
from urllib.parse import unquote

import msgspec
from msgspec.structs import replace

from haftd.launch_spec import PROGRAM_FOLDERS, is_within
from haftd.lazy_pattern import lazy_pattern

Right = Literal["read", "create", "update", "delete", "execute"]
RIGHTS: tuple[Right, ...] = ("read", "create", "update", "delete", "execute")
WRITE: tuple[Right, ...] = ("create", "update", "delete")
ALWAYS_INHERITED = frozenset(
    ["PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM"]
)
"""Variables inherited by a tool with rules, unless a rule denies them."""
PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
"""Default port by scheme."""

_VARIABLE = lazy_pattern(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class UnsetVariable(ValueError):
    """A path names a variable that is not set."""


class PathRule(msgspec.Struct, frozen=True):
    """Rights at a path and below."""

    path: str
    grants: frozenset[Right] = frozenset()
    denies: frozenset[Right] = frozenset()
    """Rights of a shorter rule that are taken away."""


class NetRule(msgspec.Struct, frozen=True):
    """Permission or denial of destinations."""

    host: str
    """`*`, a name, `*.name` for all names below, or an IP address."""
    scheme: str | None = None
    port: int | None = None
    path_prefix: str | None = None
    allow: bool = True

    @property
    def specificity(self) -> tuple[int, int, bool, bool, int]:
        """Sort key: the kind of host, its length, then port, scheme and path."""
        kind = 0 if self.host == "*" else 1 if self.host.startswith("*.") else 2
        path = len(self.path_prefix or "")
        return kind, len(self.host), self.port is not None, self.scheme is not None, path

    def matches(self, host: str, port: int, scheme: str | None, path: str | None) -> bool:
        """Match a destination; a rule with a scheme or path does not match a connection without them."""
        if self.port is not None and self.port != port:
            return False
        if self.scheme is not None and self.scheme != scheme:
            return False
        if self.path_prefix is not None and not _is_below(path, self.path_prefix):
            return False
        if self.host.startswith("*."):
            return host.endswith(self.host[1:])
        return self.host in ("*", host)


class EnvRule(msgspec.Struct, frozen=True):
    """Variables of a name, in which `*` stands for any characters."""

    name: str
    read: bool = True


class CommandRule(msgspec.Struct, frozen=True):
    """Program with patterns of its arguments (None: any), and permitted variables."""

    program: str
    args: tuple[tuple[str, ...], ...] | None = None
    envs: tuple[str, ...] = ()

    def permits(self, program: str, args: Sequence[str]) -> bool:
        return self.program == program and (
            self.args is None or any(_fits(pattern, args) for pattern in self.args)
        )


class AccessPolicy(msgspec.Struct, frozen=True):
    """Rules of a tool.

    >>> policy = AccessPolicy(fs=(PathRule("/r", frozenset({"read"})),))
    >>> policy.may_read("/r/a"), policy.may_read("/other"), policy.may("update", "/r/a")
    (True, False, False)
    """

    fs: tuple[PathRule, ...] | None = None
    net: tuple[NetRule, ...] | None = None
    env: tuple[EnvRule, ...] | None = None
    commands: tuple[CommandRule, ...] | None = None

    def may(self, right: Right, path: str) -> bool:
        """Decide on an absolute path without links; with rules, a relative path and a `..` are denied."""
        if self.fs is None:
            return True
        if not path.startswith("/") or ".." in path.split("/"):
            return False
        rule = self.find_rule(right, path)
        return rule is not None and right in rule.grants

    def find_rule(self, right: Right, path: str) -> PathRule | None:
        """Return the rule that decides on the right at this path; None if none names the right."""
        rules = [r for r in self.fs or () if _names(r, right) and covers(r.path, path)]
        return max(rules, key=_count_depth, default=None)

    def may_read(self, path: str) -> bool:
        return self.may("read", path)

    def list_rights(self, path: str) -> frozenset[Right]:
        """Return the rights at a path."""
        return frozenset(right for right in RIGHTS if self.may(right, path))

    def may_connect(
        self, host: str, port: int, scheme: str | None = None, path: str | None = None
    ) -> bool:
        """Decide on one connection, or one request if `path` is given."""
        if self.net is None:
            return True
        name = canonicalize_host(host)
        return _allows([rule for rule in self.net if rule.matches(name, port, scheme, path)])

    def may_reach(
        self,
        host: str,
        address: str,
        port: int,
        scheme: str | None = None,
        path: str | None = None,
        *,
        is_public: bool,
    ) -> bool:
        """Decide on a connection to `address`, one of the name `host`.

        A rule on the address decides before one on the name, whose owner chooses addresses: one
        that is not public needs its own rule.
        """
        if self.net is None:
            return True
        number = canonicalize_host(address)
        own = self._list_rules_of(number, port, scheme, path)
        # The rule of an embedded address denies, and grants nothing: another machine translates it.
        for rules in (own, *self._list_rules_of_embedded(number, port, scheme, path)):
            if rules and not _allows(rules):
                return False
        return self.may_connect(host, port, scheme, path) and (bool(own) or is_public)

    def _list_rules_of(
        self, number: str, port: int, scheme: str | None, path: str | None
    ) -> list[NetRule]:
        return [
            rule
            for rule in self.net or ()
            if rule.host == number and rule.matches(number, port, scheme, path)
        ]

    def _list_rules_of_embedded(
        self, number: str, port: int, scheme: str | None, path: str | None
    ) -> Iterator[list[NetRule]]:
        try:
            embedded = list_embedded_addresses(ipaddress.ip_address(number))
        except ValueError:
            return
        for address in embedded:
            yield self._list_rules_of(str(address), port, scheme, path)

    def may_carry(
        self,
        host: str,
        address: str,
        port: int,
        schemes: tuple[str | None, ...],
        *,
        is_public: bool,
    ) -> bool:
        """Decide on a connection with bytes of any of these schemes, as TLS for `https` and `wss`.

        One permitted scheme is enough, unless a rule denies another by name.
        """
        permitted = [
            self.may_reach(host, address, port, scheme, is_public=is_public) for scheme in schemes
        ]
        return any(permitted) and not any(
            not rule.allow and rule.scheme == scheme
            for scheme, is_permitted in zip(schemes, permitted, strict=True)
            if scheme is not None and not is_permitted
            for rule in self.net or ()
            if rule.matches(canonicalize_host(host), port, scheme, None)
        )

    @property
    def network(self) -> Literal["none", "proxy", "all"]:
        """Return the means of enforcement: haft's proxy unless all or nothing is granted."""
        if self.net is None or (NetRule("*") in self.net and all(rule.allow for rule in self.net)):
            return "all"
        return "proxy" if any(rule.allow for rule in self.net) else "none"

    def may_see(self, name: str) -> bool:
        """Decide on an environment variable: an exact name before patterns."""
        if self.env is None:
            return True
        exact = [rule for rule in self.env if rule.name == name]
        rules = exact or [rule for rule in self.env if fnmatchcase(name, rule.name)]
        return bool(rules) and all(rule.read for rule in rules)

    def may_inherit(self, name: str) -> bool:
        """Decide on a process's variable: `ALWAYS_INHERITED` are granted without a rule."""
        if self.env is not None and name in ALWAYS_INHERITED:
            return self.may_see(name) or not any(fnmatchcase(name, rule.name) for rule in self.env)
        return self.may_see(name)

    def may_run(self, program: str, *args: str) -> bool:
        """Decide on a command, by the program's name as written."""
        return self.commands is None or any(rule.permits(program, args) for rule in self.commands)

    def at(self, root: str, variables: Mapping[str, str]) -> AccessPolicy:
        """Return the policy with the absolute paths that `make_absolute` makes; raises `UnsetVariable`."""
        if self.fs is None:
            return self
        rules = tuple(
            replace(rule, path=make_absolute(rule.path, root, variables)) for rule in self.fs
        )
        return replace(self, fs=rules)

    def as_data(self) -> dict[str, Any]:
        """Return the policy as tables for `context.access`; an open kind is absent."""
        data: dict[str, Any] = {}
        if self.fs is not None:
            data["fs"] = [
                {
                    "path": rule.path,
                    **{right: right in rule.grants for right in RIGHTS if _names(rule, right)},
                }
                for rule in self.fs
            ]
        if self.net is not None:
            data["net"] = [
                {
                    name: value
                    for name in ("host", "scheme", "port", "path_prefix", "allow")
                    if (value := getattr(rule, name)) is not None
                }
                for rule in self.net
            ]
        if self.env is not None:
            data["env"] = [{"name": rule.name, "read": rule.read} for rule in self.env]
        if self.commands is not None:
            data["commands"] = {
                rule.program: {
                    **({} if rule.args is None else {"args": [list(args) for args in rule.args]}),
                    "envs": list(rule.envs),
                }
                for rule in self.commands
            }
        return data

    def find_unenforceable(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield key in `access` and reason of each rule that no sandbox enforces."""
        for rule in self.fs or ():
            above = next((folder for folder in PROGRAM_FOLDERS if covers(folder, rule.path)), "")
            if above and (kept := rule.denies & {"read", "execute"}):
                yield (
                    ("fs",),
                    (
                        f"the rule for {rule.path!r} denies {' and '.join(sorted(kept))}, which every tool has in {above}: its programs and libraries need it"
                    ),
                )
                continue
            shorter = replace(self, fs=tuple(r for r in self.fs or () if r.path != rule.path))
            lost = [
                right for right in RIGHTS if right in rule.denies and shorter._may_at(right, rule)
            ]
            if lost:
                yield (
                    ("fs",),
                    (
                        f"the rule for {rule.path!r} denies {', '.join(lost)}, which a rule above it grants; Linux (Landlock) can only add rights: grant the folders separately instead"
                    ),
                )
            if "create" in rule.grants and not self._may_at("update", rule):
                yield (
                    ("fs",),
                    (
                        f"the rule for {rule.path!r} has `create` without `update`; Linux (Landlock) does not distinguish new files from old ones: grant both, or `write`"
                    ),
                )
        for destination in self.net or ():
            if destination.path_prefix is not None:
                yield (
                    ("net",),
                    (
                        f"the rule for {destination.host!r} has a `path_prefix`, which the proxy of a process "
                        'cannot see within TLS: only `runtime = "vfs"` enforces one'
                    ),
                )
        if self.commands:
            yield (
                ("commands",),
                (
                    'only `runtime = "vfs"` enforces patterns of commands; a process of this '
                    "runtime runs every program that its `fs` rules let it execute"
                ),
            )

    def find_unmediated(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield key in `access` and reason of each rule that host calls do not enforce either."""
        if not self.commands:
            return
        for key, why in self.find_unenforceable():
            if key == ("fs",):
                yield key, f"{why}. It is about the programs of `access.commands`"

    def _may_at(self, right: Right, rule: PathRule) -> bool:
        deciding = self.find_rule(right, rule.path)
        return deciding is not None and right in deciding.grants


def find_unenforceable(
    policy: AccessPolicy, runtime: str, *, is_unsafe: bool = False
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield key in `access` and reason of each rule that the runtime cannot enforce or grant.

    Without a sandbox, a module has its rules even if `is_unsafe`.
    """
    if runtime != "wasm":
        yield from policy.find_unenforceable()
        return
    yield from replace(policy, net=(), commands=()).find_unenforceable()
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
                    f"the rule for {rule.path!r} grants a part of `write`, which only the kernel's sandbox distinguishes: grant `write`, or remove `unsafe = true`"
                ),
            )
    if any(rule.allow for rule in policy.net or ()):
        yield ("net",), 'a module of WebAssembly (`runtime = "wasm"`) has no network'
    if policy.commands:
        yield ("commands",), 'a module of WebAssembly (`runtime = "wasm"`) runs no programs'


NOTHING = AccessPolicy((), (), (), ())
"""Policy of a mediated tool or module without rules."""


def covers(rule: str, path: str) -> bool:
    """Return whether `path` is `rule` or below; both absolute, or both relative to one folder.

    >>> covers("/a", "/a/b"), covers("/a", "/ab"), covers("/", "/a"), covers(".", "src")
    (True, False, True, True)
    """
    if rule == ".":
        return not path.startswith(("/", "$", "~"))
    return is_within(path, rule)


def make_absolute(path: str, root: str, variables: Mapping[str, str]) -> str:
    """Expand `${VAR}` and `~/`, and join the root. Raises `UnsetVariable`, also for a `..` in a value."""

    def value(match: re.Match[str]) -> str:
        text = variables.get(match[1], "")
        if not text:
            raise UnsetVariable(f"the path {path!r} names {match[1]}, which is not set")
        return text

    is_home = path == "~" or path.startswith("~/")
    expanded = _VARIABLE.sub(value, f"${{HOME}}{path[1:]}" if is_home else path)
    if ".." in expanded.split("/"):
        raise UnsetVariable(f"the path {path!r} has a `..` in the value of a variable")
    return os.path.normpath(os.path.join(root, expanded))  # noqa: PTH118


_LOW_BITS = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "::/96",  # IPv4-compatible, RFC 4291, section 2.5.5.1
            "::ffff:0:0:0/96",  # IPv4-translated, RFC 2765
            "64:ff9b::/96",  # NAT64, RFC 6052
            "64:ff9b:1::/48",  # NAT64 of a local network, RFC 8215, with a prefix of 96 bits
        ),
    )
)
_LOCAL_NAT64 = _LOW_BITS[-1]


def list_embedded_addresses(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> tuple[ipaddress.IPv4Address, ...]:
    """Return the IPv4 addresses that an IPv6 address may stand for; none for any other address.

    >>> list_embedded_addresses(ipaddress.ip_address("64:ff9b::10.0.0.1"))
    (IPv4Address('10.0.0.1'),)
    """
    if isinstance(address, ipaddress.IPv4Address):
        return ()
    if (mapped := address.ipv4_mapped or address.sixtofour) is not None:
        return (mapped,)
    if address.teredo is not None:
        return address.teredo
    numbers = []
    if any(address in network for network in _LOW_BITS):
        numbers.append(int(address) & 0xFFFFFFFF)
    if address in _LOCAL_NAT64:
        # Behind a prefix of 48 bits: 16 bits, 8 zero bits, 16 bits (RFC 6052, section 2.2).
        high, low = int(address) >> 64 & 0xFFFF, int(address) >> 40 & 0xFFFF
        numbers.append(high << 16 | low)
    return tuple(map(ipaddress.IPv4Address, numbers))


def canonicalize_host(host: str) -> str:
    """Return one form for all spellings of a host: `127.1` and `::ffff:7f00:1` are `127.0.0.1`.

    >>> canonicalize_host("Example.COM."), canonicalize_host("0x7f.1"), canonicalize_host("[::1]")
    ('example.com', '127.0.0.1', '::1')
    """
    text = host.strip("[]").rstrip(".").lower()
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        last = text.rpartition(".")[2]
        if not re.fullmatch(r"\d+|0x[0-9a-f]*", last):
            return text
        try:  # forms of inet_aton, accepted by every resolver
            return socket.inet_ntoa(socket.inet_aton(text))
        except OSError:
            return text
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def _allows(rules: list[NetRule]) -> bool:
    most = max((rule.specificity for rule in rules), default=None)
    return bool(rules) and all(rule.allow for rule in rules if rule.specificity == most)


def _count_depth(rule: PathRule) -> int:
    return 0 if rule.path in (".", "/") else rule.path.count("/") + 1


def _names(rule: PathRule, right: Right) -> bool:
    return right in rule.grants or right in rule.denies


def _is_below(path: str | None, prefix: str) -> bool:
    """True if a URL's path is below the prefix, by whole segments."""
    if path is None:
        return False
    plain = unquote(path.partition("?")[0])
    # Some servers take `..;x` for `..`: parameters of a segment, RFC 3986, section 3.3.
    names = {segment.partition(";")[0] for segment in plain.split("/")}
    if unquote(plain) != plain or "\\" in plain or {".", ".."} & names:
        return False
    return plain == prefix or plain.startswith(prefix.rstrip("/") + "/")


def _fits(pattern: Sequence[str], args: Sequence[str]) -> bool:
    """Match arguments; a final `**` stands for any rest, a `*` within a word for any characters."""
    if pattern and pattern[-1] == "**":
        pattern, args = pattern[:-1], args[: len(pattern) - 1]
    return len(pattern) == len(args) and all(map(_fits_word, pattern, args))


def _fits_word(pattern: str, word: str) -> bool:
    """Match a whole word; only `*` is a wildcard.

    >>> _fits_word("a*c", "abc"), _fits_word("a?c", "abc"), _fits_word("[ab]", "a"), _fits_word("a*a", "a")
    (True, False, False, False)
    """
    first, *others = pattern.split("*")
    if not others:
        return word == pattern
    *inner, last = others
    at, end = len(first), len(word) - len(last)
    if at > end or not word.startswith(first) or not word.endswith(last):
        return False
    for part in inner:
        position = word.find(part, at, end)
        if position < 0:
            return False
        at = position + len(part)
    return True
