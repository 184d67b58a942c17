"""Cut a large invalid value down to small invalid parts that can be explained.

Explaining is expensive (the validator makes an object for each finding), validating is cheap, so parts are validated
until one is small. A part may be invalid only because of the cut; `Part` records where the cut was made. The number
of attempts depends on the size of the value alone, so the result may still be large.
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
"""How often the whole value may be looked through."""
_VALUES = frozenset(["default", "const", "enum", "examples"])


@dataclass(slots=True)
class Part:
    """What is left of a value. `cut` are the places that lost something, `bare` those of them that
    may lack a name of the schema; paths are those of the whole value."""

    value: Any
    cut: set[_Path] = field(default_factory=set)
    bare: set[_Path] = field(default_factory=set)
    end: _Path = ()
    """Where the search for it came to something that is wrong as a whole only."""
    _before: dict[_Path, int] = field(default_factory=dict)
    """How many items were cut off before the first that is left."""

    def path(self, inside: Sequence[str | int]) -> _Path:
        """A path inside of the part as one of the whole value."""
        found: _Path = ()
        for key in inside:
            found = self.step(found, key)
        return found

    def step(self, path: _Path, key: str | int) -> _Path:
        """The place of what is left under a key, in a place of the whole value."""
        return (*path, key + self._before.get(path, 0) if isinstance(key, int) else key)

    def lost_in(self, path: _Path) -> bool:
        """Whether something was cut off at that place or inside of it."""
        return any(place[: len(path)] == path for place in self.cut)

    def cut_off(self, path: _Path, before: int) -> None:
        """Note that a place lost something, `before` items of it at its head."""
        self.cut.add(path)
        self._before[path] = self._before.get(path, 0) + before


def is_larger(value: Any, most: int) -> bool:
    """Whether the value is made of more than so many values and names."""
    left = most
    waiting = [value]
    while waiting:
        one = waiting.pop()
        left -= 1
        if left < 0:
            return True
        if isinstance(one, dict | list):
            if len(one) > left:
                return True
            waiting.extend(one.values() if isinstance(one, dict) else one)
    return False


def _weight(value: Any) -> int:
    """How many values there are inside; plain lists are counted at once."""
    found = 0
    waiting = [value]
    while waiting:
        one = waiting.pop()
        found += len(one)
        items = one.values() if isinstance(one, dict) else one
        if not {dict, list}.isdisjoint(map(type, items)):
            waiting.extend(item for item in items if type(item) in (dict, list))
    return found


def names_in(schema: Any) -> frozenset[str]:
    """All names of properties that the schema speaks of anywhere."""
    found: set[str] = set()
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting.extend(one)
        elif isinstance(one, dict):
            for key in ("properties", "dependentRequired", "dependentSchemas"):
                if isinstance(one.get(key), dict):
                    found.update(one[key])
            if isinstance(one.get("required"), list):
                found.update(name for name in one["required"] if isinstance(name, str))
            waiting.extend(item for key, item in one.items() if key not in _VALUES)
    return frozenset(found)


def parts(value: Any, is_wrong: Callable[[Any], bool], names: Set[str], few: int) -> Iterator[Part]:
    """Parts of a wrong value that are wrong: its front, then one that is looked for, which is small
    if a small one was found. `few` items of a list are enough, and `few` of the names that the
    schema does not speak of; its own `names` stay, as they may be required."""
    front = _front(value, names, few)
    if is_wrong(front.value):
        yield front
    yield _Search(value, is_wrong, names).part()


def _inside(one: Any) -> Iterator[tuple[Any, Any]]:
    """The lists and objects in it, with their keys."""
    pairs = one.items() if isinstance(one, dict) else enumerate(one)
    return ((key, item) for key, item in pairs if isinstance(item, dict | list) and item)


def _some(one: Any, low: int, high: int, names: Set[str]) -> Any:
    """The items of a list from `low` to `high`; of an object those whose names the schema does not
    speak of, and all others."""
    if isinstance(one, list):
        return one[low:high]
    free = set(itertools.islice((name for name in one if name not in names), low, high))
    return {name: item for name, item in one.items() if name in names or name in free}


def _front(value: Any, names: Set[str], few: int) -> Part:
    """The first of everything, as much as is small."""
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
    """A wrong part looked for by halving what is large, as long as a half is wrong."""

    def __init__(self, value: Any, is_wrong: Callable[[Any], bool], names: Set[str]) -> None:
        self._holder = [value]
        self._is_wrong = is_wrong
        self._names = names
        self._found = Part(None)
        self._weight = _weight(value)
        self._left = _PASSES * self._weight
        # Those that are wrong as a whole only, or right.
        self._whole: set[_Path] = set()

    def part(self) -> Part:
        """The part, which may be large still."""
        for few in _ROUNDS:
            waiting: deque[tuple[Any, Any, _Path]] = deque([(self._holder, 0, ())])
            while waiting and self._left > 0 and is_larger(self._holder[0], _SMALL):
                parent, key, path = waiting.popleft()
                self._halve(parent, key, path, few)
                for inner, _ in _inside(parent[key]):
                    waiting.append((parent[key], inner, self._found.step(path, inner)))
        self._found.value = self._holder[0]
        return self._found

    def _halve(self, parent: Any, key: Any, path: _Path, few: int) -> None:
        # A copy, also where nothing will be cut: what is inside will be replaced.
        whole = parent[key] = copy.copy(parent[key])
        while path not in self._whole and (count := self._count(whole)) > few and self._left > 0:
            for half in ((0, count // 2), (count // 2, count)):
                parent[key] = _some(whole, *half, self._names)
                self._left -= self._weight
                if self._is_wrong(self._holder[0]):
                    whole = parent[key]
                    self._found.cut_off(path, half[0] if isinstance(whole, list) else 0)
                    self._weight = _weight(self._holder)
                    break
            else:
                parent[key] = whole
                self._whole.add(path)
                self._found.end = path

    def _count(self, one: Any) -> int:
        """How much there is that may be cut away."""
        if isinstance(one, list):
            return len(one)
        return len(one) - sum(map(self._names.__contains__, one))
