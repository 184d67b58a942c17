"""A command loads msgspec without its optional imports, and leaves no trace."""

from __future__ import annotations

import subprocess
import sys

import pytest

_LOAD = "import sys; from haft.import_stubs import load_msgspec; "


def run(code: str) -> str:
    """Return the output of a Python that has loaded nothing."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_msgspec_is_loaded_and_typing_extensions_is_not() -> None:
    names = "[n for n in ('msgspec', 'typing_extensions', 'inspect') if n in sys.modules]"
    assert run(_LOAD + f"load_msgspec(); print({names})") == "['msgspec']"


def test_a_later_import_of_typing_extensions_gets_the_real_module() -> None:
    code = "load_msgspec(); import typing_extensions; print(typing_extensions.__name__)"
    assert run(_LOAD + code) == "typing_extensions"


@pytest.mark.parametrize("name", ["msgspec", "typing_extensions"])
def test_loaded_modules_are_left_alone(name: str) -> None:
    code = f"import {name}; load_msgspec(); print(sys.modules[{name!r}] is {name})"
    assert run(_LOAD + code) == "True"
