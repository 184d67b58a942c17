"""The Python installation behind a virtual environment's interpreter, readable in a sandbox.

As a tool can point the link `.venv/bin/python` anywhere, only an installation's interpreter counts,
and no link behind it is followed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from haftd.host.launch.program import interpreter_of
from haftd.host.launch.rule_path import UntrustedLink, open_path
from haftd.launch_spec import PROGRAM_FOLDERS, Grant
from haftd.lazy_pattern import lazy_pattern

_NAME = lazy_pattern(r"python(3\.\d+)t?")
_READ_EXECUTE = frozenset({"read", "execute"})


def python_grants(
    program: str, candidates: Iterable[str], *, is_own_work: bool
) -> tuple[Grant, ...]:
    """Return the grants for a Python program, or for a script with Python after `#!`, and for further
    interpreters.

    A program that the tool cannot have made also gets its virtual environment, as of pipx.
    """
    paths = [program, interpreter_of(program) or ""]
    paths += [path for path in candidates if os.path.lexists(path)]
    real = {path: os.path.realpath(path) for path in paths if path}
    grants = [grant for path in dict.fromkeys(real.values()) for grant in _installation(path)]
    if not is_own_work:
        named = dict.fromkeys((*filter(None, paths[:2]), real[program]))
        grants += _environments(named)
    return tuple(grants)


def _environments(programs: Iterable[str]) -> Iterator[Grant]:
    prefixes = dict.fromkeys(os.path.dirname(os.path.dirname(path)) for path in programs)  # noqa: PTH120
    for prefix in prefixes:
        if prefix not in ("/", *PROGRAM_FOLDERS) and _is_plain(f"{prefix}/pyvenv.cfg"):
            for name in ("pyvenv.cfg", "bin", "lib"):
                yield Grant(f"{prefix}/{name}", _READ_EXECUTE)


def _installation(interpreter: str) -> Iterator[Grant]:
    folder, _, name = interpreter.rpartition("/")
    match = _NAME.fullmatch(name)
    if match is None or any(interpreter.startswith(f"{system}/") for system in PROGRAM_FOLDERS):
        return
    prefix = os.path.dirname(folder)  # noqa: PTH120
    library = f"{prefix}/lib"
    marker = f"{library}/python{match[1]}/os.py"
    if folder.endswith("/bin") and _is_plain(interpreter) and _is_plain(marker):
        yield Grant(interpreter, _READ_EXECUTE)
        yield Grant(library, _READ_EXECUTE)


def _is_plain(path: str) -> bool:
    """True if the file exists and is not reached by a link that a tool could have placed."""
    try:
        fd, real = open_path(path)
    except (OSError, UntrustedLink):
        return False
    os.close(fd)
    return real == path
