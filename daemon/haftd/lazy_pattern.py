"""Regular expressions that are compiled when first used: some hundred take a twentieth of a start."""

from __future__ import annotations

import re
from typing import Any, cast, overload


class LazyPattern:
    """Stand-in of a pattern, which compiles it when an attribute is first looked up."""

    def __init__(self, source: str | bytes, flags: int) -> None:
        self._source = source
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        """Compile, and keep the attribute, so that it is looked up once."""
        value = getattr(re.compile(self._source, self._flags), name)
        setattr(self, name, value)
        return value


@overload
def lazy_pattern(source: str, flags: int = 0) -> re.Pattern[str]: ...
@overload
def lazy_pattern(source: bytes, flags: int = 0) -> re.Pattern[bytes]: ...
def lazy_pattern(source: Any, flags: int = 0) -> Any:
    return cast(Any, LazyPattern(source, flags))
