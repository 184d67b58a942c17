"""Values with secrets: their `repr`, which tracebacks and logs show, leaves fields out."""

from __future__ import annotations

from typing import ClassVar

import msgspec


class Redacted(msgspec.Struct, frozen=True):
    """Base of values whose `repr` leaves the fields named in `UNSHOWN` out."""

    UNSHOWN: ClassVar[tuple[str, ...]] = ()

    def __repr__(self) -> str:
        shown = (name for name in self.__struct_fields__ if name not in self.UNSHOWN)
        return f"{type(self).__name__}({', '.join(f'{n}={getattr(self, n)!r}' for n in shown)})"
