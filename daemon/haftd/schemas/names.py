"""Names of tools and properties that providers accept, and the way back to the original names.

Characters that a provider does not accept become `_`. Such a tool name always gets a suffix, hashed from
the original name: the list of tools changes, and a model that knows an exposed name may still use it.
The properties of a schema are all known at once, so a property gets the suffix only if its name
without a suffix would be too long or equal to a sibling's.
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
"""Characters of a name: OpenAI's limit, the lowest of the providers."""
_PORTABLE_TOOL = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
# The alphabet of property names that each dialect accepts.
_FIRST, _REST = "A-Za-z_", "A-Za-z0-9_"
_PORTABLE_PROPERTY = lazy_pattern(f"[{_FIRST}][{_REST}]{{0,63}}")
_DIGITS = 8
"""Hexadecimal digits of a suffix: 32 bits, enough for the names of one list."""
_EMPTY: Mapping[str, str] = MappingProxyType({})


def is_portable(name: str) -> bool:
    """True if every provider accepts the tool name: Google needs an initial letter or `_`, OpenAI
    at most 64 characters without dots."""
    return _PORTABLE_TOOL.fullmatch(name) is not None


def expose_names(names: Iterable[str]) -> dict[str, str]:
    """Map each tool name to the name for providers; a portable name stays.

    The result does not depend on the order. It depends on the other names only where one of them is
    the exposed name already: then the suffix is longer.
    """
    distinct = sorted(set(names))
    exposed_by_name = {name: name for name in distinct if is_portable(name)}
    taken = set(exposed_by_name)
    for name in distinct:
        if name not in exposed_by_name:
            exposed = _add_suffix(name, _replace(name, _FIRST, f"{_REST}-"), taken)
            exposed_by_name[name] = exposed
            taken.add(exposed)
    return exposed_by_name


def expose_properties(names: Iterable[str], dialect: Dialect) -> dict[str, str]:
    """Map the names of an object's properties to names that the dialect accepts, in the same order.

    An exposed name stands for the same property in each dialect, and is never another's original name.
    """
    originals = list(names)
    if not dialect.property_rest:
        return {name: name for name in originals}
    first, rest = dialect.property_first, dialect.property_rest
    accepted = re.compile(f"[{first}][{rest}]{{0,{MAX_LENGTH - 1}}}")
    exposed_by_name = {name: name for name in originals if accepted.fullmatch(name)}
    if len(exposed_by_name) == len(originals):
        return exposed_by_name
    taken = set(originals)
    ambiguous = _find_ambiguous(taken)
    # Sorted: the result must not depend on the order of the properties.
    for name in sorted(taken - exposed_by_name.keys()):
        exposed = _replace(name, first, rest)
        if name in ambiguous or exposed in taken or len(exposed) > MAX_LENGTH:
            exposed = _add_suffix(name, exposed, taken)
        exposed_by_name[name] = exposed
        taken.add(exposed)
    return {name: exposed_by_name[name] for name in originals}


def map_to_originals(names: Iterable[str]) -> Mapping[str, str]:
    """Map the exposed names of properties, of any dialect, to the original `names`; names that are
    exposed unchanged are left out."""
    originals = tuple(names)
    if all(map(_PORTABLE_PROPERTY.fullmatch, originals)):
        return _EMPTY
    return _map_to_originals(originals)


@lru_cache(maxsize=64)  # called for every tool call, with the properties of one of a few schemas
def _map_to_originals(names: tuple[str, ...]) -> Mapping[str, str]:
    return MappingProxyType(
        {
            exposed: name
            for dialect in PROVIDERS.values()
            for name, exposed in expose_properties(names, dialect).items()
            if exposed != name
        }
    )


def _find_ambiguous(names: Set[str]) -> set[str]:
    """Return the names whose form in the alphabet of all dialects is a sibling's name, or the form of a
    sibling that sorts before."""
    ambiguous: set[str] = set()
    taken = set(names)
    for name in sorted(names):
        if not _PORTABLE_PROPERTY.fullmatch(name):
            exposed = _replace(name, _FIRST, _REST)
            if exposed in taken:
                ambiguous.add(name)
            taken.add(exposed)
    return ambiguous


def _replace(name: str, first: str, rest: str) -> str:
    """Return the name with `_` for each character outside of `rest`, after a `_` if it does not begin
    with one of `first`."""
    replaced = re.sub(f"[^{rest}]", "_", name)
    return replaced if re.match(f"[{first}]", replaced) else f"_{replaced}"


def _add_suffix(name: str, replaced: str, taken: Set[str]) -> str:
    """Return `replaced`, cut to `MAX_LENGTH` with its suffix, as a name that is not taken."""
    digest = hashlib.blake2s(name.encode("utf-8", "surrogatepass")).hexdigest()
    for digits in range(_DIGITS, MAX_LENGTH - 1, 4):
        candidate = f"{replaced[: MAX_LENGTH - digits - 1]}_{digest[:digits]}"
        if candidate not in taken:
            return candidate
    raise AssertionError("every prefix of the hash is taken by another name")
