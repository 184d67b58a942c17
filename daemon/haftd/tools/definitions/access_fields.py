"""Readers of `access` and `sandbox`: TOML to an `AccessPolicy`, in one shape for both forms of
definitions; a wrong rule raises `InvalidField` with its place."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from typing import Any

from haft_protocol.errors import shown
from haftd.lazy_pattern import lazy_pattern

from .access import (
    RIGHTS,
    WRITE,
    AccessPolicy,
    CommandRule,
    EnvRule,
    NetRule,
    PathRule,
    Right,
    canonicalize_host,
)
from .parameters import invalid_field, read_flag

SANDBOXES = ("root",)
_KINDS = ("fs", "net", "env", "commands")
_WORDS: dict[str, tuple[Right, ...]] = {"write": WRITE, **{right: (right,) for right in RIGHTS}}
_HOST = lazy_pattern(
    r"\*|(\*\.)?[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*"
)
_NAME = lazy_pattern(r"[A-Za-z_*][A-Za-z0-9_*]*")
_BARE_VARIABLE = lazy_pattern(r"\$([A-Za-z_]\w*)")
_SCHEME = lazy_pattern(r"[a-z][a-z0-9+.-]*")
_TABLES = "it must have one table for each rule:"
_BASE = AccessPolicy(fs=(PathRule(".", frozenset(RIGHTS)),), net=(), env=(), commands=())


def read_access(value: object) -> dict[str, Any]:
    """Check the rules; return the table as written, for the merge of layers."""
    if not isinstance(value, dict):
        raise invalid_field("it must be a table of fs, net, env and commands")
    for name in value:
        if name not in _KINDS:
            raise invalid_field(
                f"there is no such kind of access; the kinds are {', '.join(_KINDS)}", name
            )
    read_policy(value, None, strict=True)
    return value


def read_sandbox(value: object) -> str:
    """Return one of `SANDBOXES`; raises `InvalidField`."""
    if value in SANDBOXES:
        return str(value)
    raise invalid_field(f'it is {shown(value)}; it must be "root"')


def read_policy(
    access: Mapping[str, Any] | None, sandbox: str | None, *, strict: bool
) -> AccessPolicy:
    """Return a definition's policy. A kind without rules grants nothing if `strict` or with a `sandbox`;
    else it is open.

    The rules of `access` are added to the sandbox's. Raises `InvalidField`.
    """
    table = access or {}
    base = _BASE if sandbox else AccessPolicy()
    fs = _read_fs(table["fs"]) if "fs" in table else None
    net = _read_list(table["net"], "net", _read_net) if "net" in table else None
    env = _read_env(table["env"]) if "env" in table else None
    commands = _read_commands(table["commands"]) if "commands" in table else None
    if strict or sandbox:
        fs, net, env, commands = fs or (), net or (), env or (), commands or ()
    if sandbox:
        fs = _merge((*(base.fs or ()), *(fs or ())))
    return AccessPolicy(fs, net, env, commands)


def _refuse_one_table(value: Mapping[str, Any], kind: str, key: str) -> None:
    """Raise `InvalidField` for a rule in single brackets, which is in the place of a list's rights."""
    if key in value:
        raise invalid_field(f"{_TABLES} `[[tools.X.access.{kind}]]`, in double brackets", kind)


def _read_list(value: object, kind: str, read: Callable[[Any, str], Any]) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise invalid_field(f"{_TABLES} `[[tools.X.access.{kind}]]`", kind)
    return tuple(read(item, str(at)) for at, item in enumerate(value))


def _read_fs(value: object) -> tuple[PathRule, ...]:
    if isinstance(value, dict):
        _refuse_one_table(value, "fs", "path")
        rules = []
        for word, paths in value.items():
            if word not in _WORDS:
                raise invalid_field(
                    f"there is no such right; the rights are {', '.join(_WORDS)}", "fs", word
                )
            if not isinstance(paths, list):
                raise invalid_field("it must be an array of paths", "fs", word)
            for at, path in enumerate(paths):
                rules.append(
                    PathRule(_read_path(path, "fs", word, str(at)), frozenset(_WORDS[word]))
                )
        return _merge(tuple(rules))
    if isinstance(value, list) and any(not isinstance(item, dict) for item in value):
        raise invalid_field(
            "an array of paths needs its right: `fs.read = [...]`, `fs.write = [...]`", "fs"
        )
    return _merge(_read_list(value, "fs", _read_path_rule))


def _read_path_rule(item: dict[str, Any], at: str) -> PathRule:
    _check_keys(item, ("path", *_WORDS), "fs", at)
    if "path" not in item:
        raise invalid_field("it needs a `path`", "fs", at)
    path = _read_path(item["path"], "fs", at, "path")
    grants: set[Right] = set()
    denies: set[Right] = set()
    # `write` first: `create`, `update` and `delete` refine it.
    for word in _WORDS:
        if word not in item:
            continue
        allowed = read_flag(item[word], "fs", at, word)
        for right in _WORDS[word]:
            (grants if allowed else denies).add(right)
            (denies if allowed else grants).discard(right)
    if not grants and not denies:
        raise invalid_field(f"it names no right; the rights are {', '.join(_WORDS)}", "fs", at)
    return PathRule(path, frozenset(grants), frozenset(denies))


def _merge(rules: tuple[PathRule, ...]) -> tuple[PathRule, ...]:
    joined: dict[str, PathRule] = {}
    for rule in rules:
        other = joined.get(rule.path, PathRule(rule.path))
        grants, denies = other.grants | rule.grants, other.denies | rule.denies
        if both := grants & denies:
            raise invalid_field(
                f"two rules for {rule.path!r} contradict each other about {', '.join(sorted(both))}",
                "fs",
            )
        joined[rule.path] = PathRule(rule.path, grants, denies)
    return tuple(joined.values())


def _read_path(value: object, *place: str) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise invalid_field("it must be a path, as text", *place)
    parts = value.split("/")
    if ".." in parts:
        raise invalid_field(
            f"{shown(value)} has a `..`, whose meaning depends on links; write the path itself",
            *place,
        )
    if "*" in value:
        raise invalid_field(
            f"{shown(value)} is a pattern; a path stands for itself and everything below", *place
        )
    if bare := _BARE_VARIABLE.match(value):
        raise invalid_field(
            f"{shown(value)} begins with a variable, which is written `${{{bare[1]}}}`", *place
        )
    kept = "/".join(part for part in parts if part not in ("", "."))
    if kept.startswith("~") and not value.startswith("/") and parts[0] != "~":
        raise invalid_field(
            f"{shown(value)} begins with a `~` that is not your home folder (`~/`); write an absolute path",
            *place,
        )
    return f"/{kept}" if value.startswith("/") else kept or "."


def _read_net(item: object, at: str) -> NetRule:
    if not isinstance(item, dict):
        raise invalid_field("it must be a table with a `host`", "net", at)
    _check_keys(item, ("host", "scheme", "port", "path_prefix", "allow"), "net", at)
    host = item.get("host")
    if not isinstance(host, str) or not host:
        raise invalid_field("it needs a `host`", "net", at)
    host = canonicalize_host(host)
    if not _HOST.fullmatch(host) and not _is_address(host):
        apart = "; `scheme`, `port` and `path_prefix` are separate keys" if ":" in host else ""
        raise invalid_field(
            f"{shown(host)} is not a valid host: it must be a name, `*.name`, an address, or `*`{apart}",
            "net",
            at,
            "host",
        )
    scheme = item.get("scheme")
    if scheme is not None and not (isinstance(scheme, str) and _SCHEME.fullmatch(scheme)):
        raise invalid_field("it must be a scheme in lower case, such as https", "net", at, "scheme")
    port = item.get("port")
    is_number = isinstance(port, int) and not isinstance(port, bool)
    if port is not None and not (is_number and 1 <= port <= 65535):
        raise invalid_field("it must be a port from 1 to 65535", "net", at, "port")
    prefix = item.get("path_prefix")
    if prefix is not None and not (isinstance(prefix, str) and prefix.startswith("/")):
        raise invalid_field("it must be a path that begins with /", "net", at, "path_prefix")
    return NetRule(
        host, scheme, port, prefix, read_flag(item.get("allow", True), "net", at, "allow")
    )


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _read_env(value: object) -> tuple[EnvRule, ...]:
    if isinstance(value, dict):
        _refuse_one_table(value, "env", "name")
        for word in value:
            if word != "read":
                raise invalid_field("there is no such right; the only one is `read`", "env", word)
        names = value.get("read", [])
        if not isinstance(names, list):
            raise invalid_field("it must be an array of names", "env", "read")
        return tuple(
            EnvRule(_read_variable(name, "env", "read", str(at))) for at, name in enumerate(names)
        )
    return _read_list(value, "env", _read_env_rule)


def _read_env_rule(item: object, at: str) -> EnvRule:
    if not isinstance(item, dict):
        raise invalid_field(
            "it must be a table with a `name`; or write `env.read = [...]`", "env", at
        )
    _check_keys(item, ("name", "read"), "env", at)
    name = _read_variable(item.get("name"), "env", at, "name")
    return EnvRule(name, read_flag(item.get("read", True), "env", at, "read"))


def _read_variable(value: object, *place: str) -> str:
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    raise invalid_field(
        "it must be the name of a variable, in which `*` stands for any characters", *place
    )


def _read_commands(value: object) -> tuple[CommandRule, ...]:
    if not isinstance(value, dict):
        raise invalid_field("it must be a table of programs", "commands")
    rules = []
    for program, item in value.items():
        if not isinstance(item, dict):
            raise invalid_field("it must be a table of `args` and `envs`", "commands", program)
        for key in item:
            if key not in ("args", "envs"):
                raise invalid_field("it can have `args` and `envs`", "commands", program, key)
        args = item.get("args")
        if args is not None:
            if not isinstance(args, list) or not all(_is_texts(words) for words in args):
                raise invalid_field(
                    "it must be an array of arrays of words, with `**` at the end for the rest",
                    "commands",
                    program,
                    "args",
                )
            if any("**" in words[:-1] for words in args):
                raise invalid_field("`**` is allowed only at the end", "commands", program, "args")
            args = tuple(map(tuple, args))
        envs = item.get("envs", [])
        if not _is_texts(envs):
            raise invalid_field("it must be an array of names", "commands", program, "envs")
        rules.append(CommandRule(program, args, tuple(envs)))
    return tuple(rules)


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _check_keys(item: Mapping[str, Any], names: tuple[str, ...], *place: str) -> None:
    for name in item:
        if name not in names:
            raise invalid_field(
                f"a rule has no such key; the keys are {', '.join(names)}", *place, name
            )
