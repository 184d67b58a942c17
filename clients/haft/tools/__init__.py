"""Tools for haft in Python: a function with type hints and a docstring is a tool.

Keep imports few: each call starts a process. `haft.tools.host` has the calls of a mediated tool. The daemon runs a tool file (a module with decorated
functions) in `tools/` of its configuration, and a package's function by the entry point group
`haft.tools`; any other program ends with `run()`.

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
