"""Tool and property names that providers accept, which can be mapped back.

Any other tool name gets a suffix hashed from the whole name, independent of other tools; a property
name depends on its siblings only.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Set
from functools import lru_cache
from types import MappingProxyType

from haftd.lazy_pattern import lazy_pattern

from .dialects import PROVIDERS, Dialect

MAX_LENGTH = 64
_FITS = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_EVERYWHERE = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_MARK = 8
_NONE: Mapping[str, str] = MappingProxyType({})


def fits(name: str) -> bool:
    """True if every provider accepts the tool name: Google needs an initial letter or `_`, OpenAI
    at most 64 characters without dots."""
    return _FITS.fullmatch(name) is not None


def _mark(name: str, length: int) -> str:
    return hashlib.blake2s(name.encode("utf-8", "surrogatepass")).hexdigest()[:length]


def _marked(name: str, plain: str, taken: Set[str]) -> str:
    for length in range(_MARK, 64, 4):
        candidate = f"{plain[: MAX_LENGTH - length - 1]}_{_mark(name, length)}"[-MAX_LENGTH:]
        if candidate not in taken:
            return candidate
    raise AssertionError("a whole hash is taken by another name")


def _plain(name: str, first: str, rest: str) -> str:
    plain = re.sub(f"[^{rest}]", "_", name)
    if not re.match(f"[{first}]", plain):
        plain = f"_{plain}"
    return plain


def exposed(names: Iterable[str]) -> dict[str, str]:
    distinct = sorted(set(names))
    right = [name for name in distinct if fits(name)]
    shown_names = {name: name for name in right}
    taken = set(right)
    for name in distinct:
        if name not in shown_names:
            shown = _marked(name, _plain(name, "A-Za-z_", "A-Za-z0-9_-"), taken)
            shown_names[name] = shown
            taken.add(shown)
    return shown_names


def exposed_properties(names: Iterable[str], dialect: Dialect) -> dict[str, str]:
    originals = list(names)
    if not dialect.property_rest:
        return {name: name for name in originals}
    first, rest = dialect.property_first, dialect.property_rest
    right = re.compile(f"[{first}][{rest}]{{0,{MAX_LENGTH - 1}}}")
    shown_names = {name: name for name in originals if right.fullmatch(name)}
    taken = set(originals)
    for name in sorted(taken - shown_names.keys()):
        shown = _plain(name, first, rest)
        if len(shown) > MAX_LENGTH or shown in taken:
            shown = _marked(name, shown, taken)
        shown_names[name] = shown
        taken.add(shown)
    return {name: shown_names[name] for name in originals}


def own_properties(names: Iterable[str]) -> Mapping[str, str]:
    """Map any dialect's names back to properties."""
    distinct = tuple(names)
    return _NONE if all(map(_EVERYWHERE.fullmatch, distinct)) else _own(distinct)


@lru_cache(maxsize=64)  # called for every tool call
def _own(names: tuple[str, ...]) -> Mapping[str, str]:
    originals: dict[str, str] = {}
    for dialect in PROVIDERS.values():
        for name, shown in exposed_properties(names, dialect).items():
            if shown != name:
                originals.setdefault(shown, name)
    return MappingProxyType(originals)
