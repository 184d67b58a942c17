"""`python -m haft.tools --entry`: the function of a package."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from haft.tools.__main__ import main
from haft.tools.registry import Tool


def test_a_function_is_imported_from_the_folder_of_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "haft_entry_sample.py").write_text("class Greeter:\n    def hello(): 'Greet.'\n")
    monkeypatch.setattr(sys, "path", [*sys.path])
    served: list[str] = []

    def serve(tools: Iterable[Tool]) -> None:
        served.extend(tool.name for tool in tools)
        raise SystemExit(0)

    monkeypatch.setattr("haft.tools.__main__.serve", serve)
    for _ in range(2):
        with pytest.raises(SystemExit):
            main(["--entry", "haft_entry_sample:Greeter.hello", "--path", str(tmp_path)])
    assert served == ["hello", "hello"]
    assert sys.path.count(str(tmp_path)) == 1
