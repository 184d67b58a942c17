"""Named tuples like `typing.NamedTuple`, for a faster start: `typing.NamedTuple` compiles each annotation
and a constructor where a class is defined, these compile the constructor when it is first called."""

from __future__ import annotations

from collections import _tuplegetter  # type: ignore[attr-defined]
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Self


class _Definition(type):
    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> _Definition:
        fields = tuple(namespace.get("__annotations__", ()))
        defaults = {field: namespace.pop(field) for field in fields if field in namespace}
        namespace |= {field: _tuplegetter(at, "") for at, field in enumerate(fields)}
        namespace |= {"__slots__": (), "__match_args__": fields}
        namespace |= {"_fields": fields, "_field_defaults": defaults}
        return super().__new__(cls, name, bases, namespace)


class _NamedTuple(tuple[Any, ...], metaclass=_Definition):
    if TYPE_CHECKING:
        _fields: tuple[str, ...]
        _field_defaults: dict[str, Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Compile the constructor, which takes this one's place, and call it."""
        setattr(cls, "__new__", _constructor(cls))  # noqa: B010
        return cls(*args, **kwargs)

    @classmethod
    def _make(cls, values: Iterable[Any]) -> Self:
        return cls(*values)

    def _replace(self, /, **changes: Any) -> Self:
        values = {**self._asdict(), **changes}
        return type(self)(**values)

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self._asdict().items())
        return f"{type(self).__name__}({values})"

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)


def _constructor(cls: type[_NamedTuple]) -> Callable[..., Any]:
    words = "".join(f"{field}, " for field in cls._fields)
    source = f"lambda _cls, {words}: _new(_cls, ({words}))"
    constructor: Any = eval(source, {"_new": tuple.__new__, "__builtins__": {}})
    constructor.__defaults__ = tuple(cls._field_defaults.values())
    constructor.__name__, constructor.__qualname__ = "__new__", f"{cls.__qualname__}.__new__"
    return constructor  # type: ignore[no-any-return]


if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    NamedTuple = _NamedTuple
