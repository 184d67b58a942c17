"""Named tuples that compile their constructor at the first call behave as those of `typing`."""

from __future__ import annotations

import copy
import pickle
import re
import typing
from pathlib import Path

import pytest

from haftd.named_tuple import NamedTuple

_SOURCE = Path(__file__).parents[1] / "daemon" / "haftd"


class Ours(NamedTuple):
    name: str
    size: int = 7
    names: tuple[str, ...] = ()

    @property
    def double(self) -> int:
        return self.size * 2


class Theirs(typing.NamedTuple):
    name: str
    size: int = 7
    names: tuple[str, ...] = ()

    @property
    def double(self) -> int:
        return self.size * 2


def test_a_named_tuple_behaves_as_that_of_typing() -> None:
    calls: list[tuple[tuple[typing.Any, ...], dict[str, typing.Any]]] = [
        (("a",), {}),
        (("a", 1), {"names": ("b",)}),
        ((), {"name": "a"}),
    ]
    for values, more in calls:
        ours, theirs = Ours(*values, **more), Theirs(*values, **more)
        assert tuple(ours) == tuple(theirs)
        assert hash(ours) == hash(theirs)
        assert (ours.name, ours.size, ours.names, ours.double) == (*theirs, theirs.double)
        assert repr(ours) == repr(theirs).replace("Theirs", "Ours")
        assert ours._asdict() == theirs._asdict()
        assert tuple(ours._replace(size=9)) == tuple(theirs._replace(size=9))
        assert pickle.loads(pickle.dumps(ours)) == copy.copy(ours) == ours
        assert type(ours._replace(size=9)) is type(copy.deepcopy(ours)) is Ours
        assert Ours._make(ours) == ours
        assert not hasattr(ours, "__dict__")
    assert Ours._fields == Theirs._fields == Ours.__match_args__
    assert Ours._field_defaults == Theirs._field_defaults
    match Ours("a"):
        case Ours(name, size, names):
            assert (name, size, names) == ("a", 7, ())


@pytest.mark.parametrize("words", [((), {}), (("a", 1, (), 2), {}), (("a",), {"weight": 1})])
def test_a_wrong_call_is_refused_before_and_after_the_first_use(
    words: tuple[tuple[typing.Any, ...], dict[str, typing.Any]],
) -> None:
    class Fresh(NamedTuple):
        name: str
        size: int = 7
        names: tuple[str, ...] = ()

    for _ in range(2):
        with pytest.raises(TypeError):
            Fresh(*words[0], **words[1])
    with pytest.raises((TypeError, ValueError)):
        Fresh("a")._replace(weight=1)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        Fresh("a").name = "b"  # type: ignore[misc]
    assert Fresh("a") == ("a", 7, ())


def test_the_constructor_is_compiled_when_it_is_first_called() -> None:
    class Fresh(NamedTuple):
        name: str

    assert "__new__" not in vars(Fresh)
    assert Fresh("a") == Fresh(name="a") == ("a",)
    assert "__new__" in vars(Fresh)


def test_the_daemon_defines_no_named_tuple_of_typing() -> None:
    imports = re.compile(r"^from typing import .*\bNamedTuple\b", re.MULTILINE)
    found = [path for path in _SOURCE.rglob("*.py") if imports.search(path.read_text("utf-8"))]
    # The worker is a program without haftd's folder in its path.
    assert found == [_SOURCE / "runtimes/wasm/worker.py"]
