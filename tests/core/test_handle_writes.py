from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from haftd.core import handles
from haftd.core.handles import Handle

DAEMON = Path(handles.__file__).parents[1]

OTHER_OBJECTS = {
    ("unconfirmed", "daemon.facts"),
    ("pid", "launched"),
    ("session", "snapshot"),
    ("session", "caller"),
}
"""Attributes that other objects have under the name of one of the handle's."""


def attributes() -> set[str]:
    """Return every attribute and property of a handle."""
    properties = {name for name, value in vars(Handle).items() if isinstance(value, property)}
    return {*Handle.__slots__, *properties}


def writes(source: str) -> Iterator[tuple[str, str, int]]:
    """Return assignments and deletions on anything but `self`, with objects and lines."""
    sets_by_name = "setattr" in source or "delattr" in source
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            owner = ast.unparse(node.value)
            if owner != "self":
                yield node.attr, owner, node.lineno
        elif (
            sets_by_name
            and isinstance(node, ast.Call)
            and any(name in ast.unparse(node.func) for name in ("setattr", "delattr"))
        ):
            for name in node.args:
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    yield name.value, ast.unparse(node.args[0]), node.lineno


def faults(source: str) -> list[tuple[str, str, int]]:
    """Return the writes that may be those of a handle's attributes."""
    names = attributes()
    return [
        (attribute, owner, line)
        for attribute, owner, line in writes(source)
        if attribute in names and (attribute, owner) not in OTHER_OBJECTS
    ]


def test_no_other_module_assigns_an_attribute_of_a_handle() -> None:
    found = {
        path.relative_to(DAEMON).as_posix(): faults(path.read_text())
        for path in sorted(DAEMON.rglob("*.py"))
        if path != Path(handles.__file__)
    }
    assert {path: where for path, where in found.items() if where} == {}


@pytest.mark.parametrize(
    "source",
    [
        "handle.lifecycle = 1",
        "self._handle.settings = s",
        "use.handle.stopped, other = True, False",
        "handle._listeners += ()",
        "del one.id",
        "setattr(handle, 'lifecycle', 1)",
        "object.__setattr__(handle, 'tool', 't')",
        "for handle.id in names: pass",
    ],
)
def test_an_assignment_in_any_form_is_found(source: str) -> None:
    assert faults(source)


def test_a_handle_has_no_subclass_that_could_assign_more() -> None:
    assert Handle.__subclasses__() == []
