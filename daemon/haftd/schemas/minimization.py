"""Reduction of a large invalid value to small invalid parts for explanation.

The validator allocates an object per error, but mere validation is cheap, so parts are validated
until one is small. A part may be invalid only because of the cut, so `Part` records the cuts. The
number of attempts depends on the value's size alone, so the result may stay large.
"""

from __future__ import annotations

import copy
import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

_Path = tuple[str | int, ...]

_SMALL = 500
_ROUNDS = (64, 8, 1)
_PASSES = 8
"""Passes over the whole value."""
_VALUES = frozenset(["default", "const", "enum", "examples"])


@dataclass(slots=True)
class Part:
    """Part of a value. `cut` are the paths that lost items, `bare` the objects that may lack a name
    of the schema; paths are relative to the whole value."""

    value: Any
    cut: set[_Path] = field(default_factory=set)
    bare: set[_Path] = field(default_factory=set)
    end: _Path = ()
    """Path where the search met an error of the whole node."""
    _before: dict[_Path, int] = field(default_factory=dict)
    """Count of items cut in front of the first remaining one."""

    def path(self, inside: Sequence[str | int]) -> _Path:
        """Convert a path in the part to a path in the whole value."""
        outer: _Path = ()
        for key in inside:
            outer = self.step(outer, key)
        return outer

    def step(self, path: _Path, key: str | int) -> _Path:
        return (*path, key + self._before.get(path, 0) if isinstance(key, int) else key)

    def lost_in(self, path: _Path) -> bool:
        """Return True if a cut was made at or below the path."""
        return any(place[: len(path)] == path for place in self.cut)

    def cut_off(self, path: _Path, before: int) -> None:
        """Record a cut, with `before` items at its head."""
        self.cut.add(path)
        self._before[path] = self._before.get(path, 0) + before


def is_larger(value: Any, most: int) -> bool:
    left = most
    waiting = [value]
    while waiting:
        node = waiting.pop()
        left -= 1
        if left < 0:
            return True
        if isinstance(node, dict | list):
            if len(node) > left:
                return True
            waiting.extend(node.values() if isinstance(node, dict) else node)
    return False


def _weight(value: Any) -> int:
    """Count nested values, but a list of scalars at once."""
    total = 0
    waiting = [value]
    while waiting:
        node = waiting.pop()
        total += len(node)
        items = node.values() if isinstance(node, dict) else node
        if not {dict, list}.isdisjoint(map(type, items)):
            waiting.extend(item for item in items if type(item) in (dict, list))
    return total


def names_in(schema: Any) -> frozenset[str]:
    names: set[str] = set()
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting.extend(node)
        elif isinstance(node, dict):
            for key in ("properties", "dependentRequired", "dependentSchemas"):
                if isinstance(node.get(key), dict):
                    names.update(node[key])
            if isinstance(node.get("required"), list):
                names.update(name for name in node["required"] if isinstance(name, str))
            waiting.extend(item for key, item in node.items() if key not in _VALUES)
    return frozenset(names)


def parts(value: Any, is_wrong: Callable[[Any], bool], names: Set[str], few: int) -> Iterator[Part]:
    """Yield invalid parts: the front, then a small part found by bisection.

    Lists keep `few` items, objects `few` names unknown to the schema; the schema's `names` stay, as
    they may be required.
    """
    front = _front(value, names, few)
    if is_wrong(front.value):
        yield front
    yield _Search(value, is_wrong, names).part()


def _inside(node: Any) -> Iterator[tuple[Any, Any]]:
    pairs = node.items() if isinstance(node, dict) else enumerate(node)
    return ((key, item) for key, item in pairs if isinstance(item, dict | list) and item)


def _some(node: Any, low: int, high: int, names: Set[str]) -> Any:
    """Return a slice of a list, or an object with a slice of its names that the schema lacks."""
    if isinstance(node, list):
        return node[low:high]
    free = set(itertools.islice((name for name in node if name not in names), low, high))
    return {name: item for name, item in node.items() if name in names or name in free}


def _front(value: Any, names: Set[str], few: int) -> Part:
    """Return the start of everything within the limit."""
    holder = [value]
    part = Part(None)
    left = _SMALL
    waiting: deque[tuple[Any, Any, _Path]] = deque([(holder, 0, ())])
    while waiting:
        parent, key, path = waiting.popleft()
        whole = parent[key]
        if left > 0 or isinstance(whole, list):
            some = _some(whole, 0, min(few, max(left, 0)), names)
        else:
            some = {}
            part.bare.add(path)
        left -= len(some)
        if len(some) < len(whole):
            part.cut_off(path, 0)
        parent[key] = some
        waiting.extend((some, inner, (*path, inner)) for inner, _ in _inside(some))
    part.value = holder[0]
    return part


class _Search:
    """Bisection: large nodes are halved as long as a half is invalid."""

    def __init__(self, value: Any, is_wrong: Callable[[Any], bool], names: Set[str]) -> None:
        self._holder = [value]
        self._is_wrong = is_wrong
        self._names = names
        self._part = Part(None)
        self._weight = _weight(value)
        self._left = _PASSES * self._weight
        # Nodes that are valid, or have an error of their own.
        self._whole: set[_Path] = set()

    def part(self) -> Part:
        for few in _ROUNDS:
            waiting: deque[tuple[Any, Any, _Path]] = deque([(self._holder, 0, ())])
            while waiting and self._left > 0 and is_larger(self._holder[0], _SMALL):
                parent, key, path = waiting.popleft()
                self._halve(parent, key, path, few)
                for inner, _ in _inside(parent[key]):
                    waiting.append((parent[key], inner, self._part.step(path, inner)))
        self._part.value = self._holder[0]
        return self._part

    def _halve(self, parent: Any, key: Any, path: _Path, few: int) -> None:
        # A copy even without a cut: children are replaced.
        whole = parent[key] = copy.copy(parent[key])
        while path not in self._whole and (count := self._count(whole)) > few and self._left > 0:
            for half in ((0, count // 2), (count // 2, count)):
                parent[key] = _some(whole, *half, self._names)
                self._left -= self._weight
                if self._is_wrong(self._holder[0]):
                    whole = parent[key]
                    self._part.cut_off(path, half[0] if isinstance(whole, list) else 0)
                    self._weight = _weight(self._holder)
                    break
            else:
                parent[key] = whole
                self._whole.add(path)
                self._part.end = path

    def _count(self, node: Any) -> int:
        if isinstance(node, list):
            return len(node)
        return len(node) - sum(map(self._names.__contains__, node))
