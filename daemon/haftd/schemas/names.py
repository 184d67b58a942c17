"""Tool and property names that providers accept.

A name that is accepted stays. Any other tool name gets a suffix hashed from the whole name, so it depends neither on
the other tools nor on their order, and no two collide. A property name depends on the names beside it only. Both can
be mapped back.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Set
from functools import lru_cache
from types import MappingProxyType

from .dialects import PROVIDERS, Dialect

MAX_LENGTH = 64
_FITS = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_EVERYWHERE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_MARK = 8
_NONE: Mapping[str, str] = MappingProxyType({})


def fits(name: str) -> bool:
    """Whether every provider takes the name for a tool: Google wants a letter or `_` first, OpenAI
    no more than 64 characters and no dot."""
    return _FITS.fullmatch(name) is not None


def _mark(name: str, length: int) -> str:
    return hashlib.blake2s(name.encode("utf-8", "surrogatepass")).hexdigest()[:length]


def _marked(name: str, plain: str, taken: Set[str]) -> str:
    """The plain form with a mark of the name, longer when it would be one that is taken."""
    for length in range(_MARK, 64, 4):
        found = f"{plain[: MAX_LENGTH - length - 1]}_{_mark(name, length)}"[-MAX_LENGTH:]
        if found not in taken:
            return found
    raise AssertionError("a whole hash is taken by another name")


def _plain(name: str, first: str, rest: str) -> str:
    """The name with `_` for what is not in the alphabet."""
    plain = re.sub(f"[^{rest}]", "_", name)
    if not re.match(f"[{first}]", plain):
        plain = f"_{plain}"
    return plain


def exposed(names: Iterable[str]) -> dict[str, str]:
    """The name under which each tool is shown to a model, by its own name."""
    known = sorted(set(names))
    right = [name for name in known if fits(name)]
    found = {name: name for name in right}
    taken = set(right)
    for name in known:
        if name not in found:
            shown = _marked(name, _plain(name, "A-Za-z_", "A-Za-z0-9_-"), taken)
            found[name] = shown
            taken.add(shown)
    return found


def exposed_properties(names: Iterable[str], dialect: Dialect) -> dict[str, str]:
    """The name of each property of one object as the dialect writes it, by its own name."""
    known = list(names)
    if not dialect.property_rest:
        return {name: name for name in known}
    first, rest = dialect.property_first, dialect.property_rest
    right = re.compile(f"[{first}][{rest}]{{0,{MAX_LENGTH - 1}}}")
    found = {name: name for name in known if right.fullmatch(name)}
    taken = set(known)
    for name in sorted(taken - found.keys()):
        shown = _plain(name, first, rest)
        if len(shown) > MAX_LENGTH or shown in taken:
            shown = _marked(name, shown, taken)
        found[name] = shown
        taken.add(shown)
    return {name: found[name] for name in known}


def own_properties(names: Iterable[str]) -> Mapping[str, str]:
    """The property behind each name that some dialect shows instead of its own."""
    known = tuple(names)
    return _NONE if all(map(_EVERYWHERE.fullmatch, known)) else _own(known)


@lru_cache(maxsize=64)  # asked at every call of a tool, and the names of a tool seldom change
def _own(known: tuple[str, ...]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for dialect in PROVIDERS.values():
        for name, shown in exposed_properties(known, dialect).items():
            if shown != name:
                found.setdefault(shown, name)
    return MappingProxyType(found)
