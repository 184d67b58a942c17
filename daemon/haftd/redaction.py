"""Values with secrets, which their `repr` leaves out."""

from __future__ import annotations

from typing import ClassVar

import msgspec


class Redacted(msgspec.Struct, frozen=True):
    """Base of values whose `repr` omits the fields in `UNSHOWN`."""

    UNSHOWN: ClassVar[tuple[str, ...]] = ()

    def __repr__(self) -> str:
        shown = (name for name in self.__struct_fields__ if name not in self.UNSHOWN)
        return f"{type(self).__name__}({', '.join(f'{n}={getattr(self, n)!r}' for n in shown)})"
