"""Questions of a tool to the caller.

The daemon validates the answer; without it, the tool is cancelled.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar, overload

Scalar = bool | int | float | str | None
T = TypeVar("T", bound=Scalar)

Asker = Callable[[dict[str, Any]], Awaitable[Any]]
"""Asks a question in the protocol's form and returns the answer."""


class Secret(str):
    """Type of a question for a secret: a person answers, and only the tool sees the answer."""

    __slots__ = ()


_asker: Asker | None = None
_count = 0


def set_asker(asker: Asker) -> None:
    global _asker
    _asker = asker


@overload
async def ask(
    text: str,
    type: type[bool],
    *,
    id: str | None = ...,
    default: bool | None = ...,
    pre_amble: str | None = ...,
) -> bool: ...
@overload
async def ask(
    text: str,
    type: type[str] = ...,
    *,
    id: str | None = ...,
    default: str | None = ...,
    pre_amble: str | None = ...,
) -> str: ...
@overload
async def ask(
    text: str,
    type: Mapping[str, Sequence[T]],
    *,
    id: str | None = ...,
    default: Any = ...,
    pre_amble: str | None = ...,
) -> dict[str, T]: ...
@overload
async def ask(
    text: str,
    type: Sequence[T],
    *,
    id: str | None = ...,
    default: T | None = ...,
    pre_amble: str | None = ...,
) -> T: ...
async def ask(
    text: str,
    type: Any = str,
    *,
    id: str | None = None,
    default: Any = None,
    pre_amble: str | None = None,
) -> Any:
    """Ask and return the answer.

    `type` is `bool`, `str`, `Secret`, a sequence of options, or a mapping from names to options,
    one chosen of each. `id` names the question for the configuration (`questions.<id>`) and for
    remembered answers; the default is a number. `pre_amble` is shown before the question, `default`
    is offered. Raises `asyncio.CancelledError` if there will be no answer.
    """
    global _count
    if _asker is None:
        raise RuntimeError("`ask` works in a tool that haft runs; a test sets an asker first")
    _count += 1
    question = {
        "id": f"q{_count}" if id is None else id,
        "text": text,
        "answer_type": _answer_type(type),
        "pre_amble": pre_amble,
        "default": default,
    }
    return await _asker({key: value for key, value in question.items() if value is not None})


def _answer_type(type: Any) -> dict[str, Any]:
    if type is bool:
        return {"type": "boolean"}
    if type is str:
        return {"type": "text"}
    if type is Secret:
        return {"type": "secret"}
    if isinstance(type, Mapping):
        fields = {name: {"options": list(options)} for name, options in type.items()}
        return {"type": "form", "fields": fields}
    if isinstance(type, Sequence) and not isinstance(type, str):
        return {"type": "select", "options": list(type)}
    raise TypeError(
        f"a question has the type bool, str, Secret, options or a mapping of options, not {type!r}"
    )
