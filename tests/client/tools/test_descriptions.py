"""A signature and a docstring make the description of a tool."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest

from haft.tools import ask, tool
from haft.tools.descriptions import describe
from haft.tools.registry import TOOLS, tool_of


class Point(TypedDict):
    x: int
    label: NotRequired[str]


HINTS: list[tuple[Any, dict[str, Any]]] = [
    (str, {"type": "string"}),
    (bool, {"type": "boolean"}),
    (int, {"type": "integer"}),
    (float, {"type": "number"}),
    (Any, {}),
    (list, {"type": "array"}),
    (list[str], {"type": "array", "items": {"type": "string"}}),
    (Sequence[int], {"type": "array", "items": {"type": "integer"}}),
    (dict[str, bool], {"type": "object", "additionalProperties": {"type": "boolean"}}),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    (Literal[1, "b"], {"enum": [1, "b"]}),
    (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
    (Annotated[str, "A name."], {"type": "string", "summary": "A name."}),
    (Annotated[str, {"pattern": "^a"}], {"type": "string", "pattern": "^a"}),
    (
        Point,
        {
            "type": "object",
            "properties": {"x": {"type": "integer"}, "label": {"type": "string"}},
            "required": ["x"],
            "additionalProperties": False,
        },
    ),
]


@pytest.mark.parametrize(("hint", "form"), HINTS, ids=[str(hint) for hint, _ in HINTS])
def test_a_type_hint_is_a_schema(hint: Any, form: dict[str, Any]) -> None:
    def function(value):  # type: ignore[no-untyped-def]
        ...

    function.__annotations__["value"] = hint
    assert describe(function).parameters == {"value": form}


def test_defaults_and_texts_are_in_the_description() -> None:
    def function(a: str, b: int = 3, c: str | None = None, *, d: Any = ("x",)) -> None:
        """Do something
        in two lines.

        At length: with
        detail.

        Args:
            a (str): The first,
                in two lines.
            e: No parameter.
        :param b: The second.

        The end.
        """

    description = describe(function)
    assert description.summary == "Do something in two lines."
    assert description.text == "At length: with\ndetail.\n\n    e: No parameter.\n\nThe end."
    assert description.parameters == {
        "a": {"type": "string", "summary": "The first, in two lines."},
        "b": {"type": "integer", "summary": "The second.", "default": 3},
        "c": {"anyOf": [{"type": "string"}, {"type": "null"}], "required": False},
        "d": {"default": ["x"]},
    }


class Color(Enum):
    RED = "red"


def star(*values: str) -> None: ...
def keywords(**values: str) -> None: ...
def only(value: str, /) -> None: ...
def number(value: complex) -> None: ...
def default(value: Any = object()) -> None: ...  # noqa: B008
def literal_bytes(value: Literal[b"x"]) -> None: ...
def literal_member(value: Literal["x", Color.RED]) -> None: ...


@pytest.mark.parametrize(
    "function", [star, keywords, only, number, default, literal_bytes, literal_member]
)
def test_an_unsupported_signature_is_refused_by_name(function: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=f"'values?' of the tool '{function.__name__}'"):
        describe(function)


def test_the_decorator_keeps_the_function_and_refuses_duplicate_names() -> None:
    before = dict(TOOLS)
    try:

        @tool(name="said", stateful=True)
        def twice(text: str) -> str:
            return text * 2

        assert twice("a") == "aa"
        assert TOOLS["said"].function is twice
        with pytest.raises(TypeError, match="two tools with the name 'said'"):
            tool(name="said")(twice)
        with pytest.raises(TypeError, match="`command`"):
            tool(name="other", command="rm")
        with pytest.raises(TypeError, match="a tool is a function"):
            tool_of(Point)
    finally:
        TOOLS.clear()
        TOOLS.update(before)


async def test_asking_outside_a_tool_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="in a tool that haft runs"):
        await ask("Go on?", bool)


def test_a_tools_process_loads_asyncio_for_a_coroutine_only() -> None:
    """Each call is a process, and asyncio took two thirds of the time until the function ran."""
    program = "import sys, haft.tools, haft.tools.process; print('asyncio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False\n", "")
