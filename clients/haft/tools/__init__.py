"""Tools for haft in Python: a function with type hints and a docstring is a tool.

Rules: only the necessary part of the standard library, since each call of a tool starts a process.
A tool file is a module with decorated functions. The daemon runs a tool file in `tools/` of its configuration by
itself, and a package's function through the entry point group `haft.tools`; any other program ends with `run()`.

>>> from haft.tools import ToolError, ask, tool
>>> @tool
... async def remove(path: str, force: bool = False) -> str:
...     "Remove a file."
...     if not force and not await ask(f"Remove {path}?", bool, id="sure"):
...         raise ToolError(f"{path} was kept")
...     return f"removed {path}"
>>> remove.__name__
'remove'
"""

from __future__ import annotations

from .errors import ToolError
from .process import run
from .questions import Secret, ask
from .registry import tool

__all__ = ["Secret", "ToolError", "ask", "run", "tool"]
