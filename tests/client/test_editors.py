"""The calls of the editors' plugins, read in their sources: they show output by themselves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CLIENTS = Path(__file__).parents[2] / "clients"
CALL = re.compile(r'\b(?:request|request_sync)\(\s*"(spawn|apply|fetch)"')
PARAMS = re.compile(r"\b(?:local|const) params = {")
MOVES_NOTHING = re.compile(r'\bcursor\b|\bview\s*[:=]\s*"(?:all|tail|screen|paint)"')


def _calls(source: str) -> list[str]:
    """Return each call up to its closing parenthesis, with the value of a variable `params`."""
    calls = []
    for match in CALL.finditer(source):
        end, depth = match.start() + source[match.start() :].index("(") + 1, 1
        while depth:
            depth += {"(": 1, ")": -1}.get(source[end], 0)
            end += 1
        call = source[match.start() : end]
        if re.match(r'\w+\(\s*"\w+",\s*params\b', call):
            begin = [each.start() for each in PARAMS.finditer(source, 0, match.start())][-1]
            call = source[begin:end]
        calls.append(call)
    return calls


@pytest.mark.parametrize("client", ["nvim/lua", "vscode/src"])
def test_no_call_of_an_editor_moves_the_sessions_read_offset(client: str) -> None:
    files = [path for path in (CLIENTS / client).rglob("*.*") if path.suffix in (".lua", ".ts")]
    calls = [(path.name, call) for path in files for call in _calls(path.read_text())]
    assert len(calls) > 4
    assert [each for each in calls if not MOVES_NOTHING.search(each[1])] == []
