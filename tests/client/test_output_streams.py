"""Standard output is for content: a command writes it through `show`, and progress nowhere but on stderr."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import haft.cli
from haft.cli import show

CLI = Path(haft.cli.__file__).parent
WRITERS = (Path(show.__file__), CLI / "relay.py", CLI / "terminal")


def writes_stdout(source: str) -> list[int]:
    """Return the lines that print, or write to `sys.stdout`, past `show`."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            is_print = called == "print" and not any(word.arg == "file" for word in node.keywords)
            if is_print or (called.startswith("sys.stdout") and ".write" in called):
                lines.append(node.lineno)
    return lines


def test_no_command_writes_past_show() -> None:
    found = {
        path.relative_to(CLI).as_posix(): writes_stdout(path.read_text())
        for path in CLI.rglob("*.py")
        if not any(path == writer or writer in path.parents for writer in WRITERS)
    }
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_a_write_past_show_is_seen() -> None:
    source = "print('half done')\nsys.stdout.buffer.write(b'x')\nprint('', file=sys.stderr)\n"
    assert writes_stdout(source) == [1, 2]


@pytest.mark.parametrize("is_one", [True, False])
def test_a_remark_continues_no_line_of_the_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_one: bool
) -> None:
    """With `2>&1` both go to one file; apart, the content stays as it is."""
    paths = tmp_path / "out", tmp_path / ("out" if is_one else "err")
    with open(paths[0], "a") as out, open(paths[1], "a") as err:
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)
        show.write("prompt? ")
        show.line("a: running")
        show.line("again")
        show.write("whole\n")
        show.line("last")
    written = "".join(path.read_text() for path in dict.fromkeys(paths))
    expected = "prompt? \na: running\nagain\nwhole\nlast\n"
    assert written == (expected if is_one else "prompt? whole\na: running\nagain\nlast\n")
