from __future__ import annotations

import ast
import functools
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.running_daemon import RunningDaemon

MakeDaemon = Callable[..., RunningDaemon]

ROOT = Path(__file__).parent.parent
PRODUCT = ("daemon", "protocol", "clients")
FOR_TESTS = {"dev", "clients", "install"}
OURS = {"haft", "haftd", "haft_protocol"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@functools.cache
def imported() -> dict[str, set[Path]]:
    """The top-level packages of others that modules import, each with these modules."""
    found: dict[str, set[Path]] = {}
    for path in (file for root in PRODUCT for file in (ROOT / root).rglob("*.py")):
        for node in statements(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            for name in (name.partition(".")[0] for name in names):
                if name not in sys.stdlib_module_names and name not in OURS:
                    found.setdefault(name, set()).add(path)
    return found


def statements(block: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements of a module, at any depth, without their expressions, which hold none."""
    yield block
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(block, name, ()):
            yield from statements(inner)


def declared(requirements: list[str]) -> set[str]:
    return {normalized(re.match(r"[\w.-]+", one)[0]) for one in requirements}  # type: ignore[index]


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


installed = functools.cache(packages_distributions)


def distributions(packages: set[str]) -> set[str]:
    known = installed()
    return {normalized(known[package][0]) for package in packages}


def test_imported_distributions_are_exactly_the_declared_ones() -> None:
    extras = PROJECT["optional-dependencies"]
    expected = declared(PROJECT["dependencies"]).union(
        *(declared(extras[name]) for name in extras if name not in FOR_TESTS)
    )
    assert distributions(set(imported())) == expected


def test_an_extras_distributions_are_imported_by_its_own_room_only() -> None:
    for package, paths in imported().items():
        if distributions({package}) & declared(PROJECT["optional-dependencies"]["llm"]):
            assert {path.parent.name for path in paths} == {"llm"}, package


def test_jsonrpcserver_is_imported_by_its_adapter_only() -> None:
    adapter = {ROOT / "daemon/haftd/rpc/jsonrpcserver.py"}
    assert {name: imported()[name] for name in ("jsonrpcserver", "oslash")} == {
        "jsonrpcserver": adapter,
        "oslash": adapter,
    }


@pytest.mark.parametrize("backends", ["['llm', 'static']", "['llm']"])
def test_without_the_extra_the_backend_is_a_problem_that_names_it(
    make_daemon: MakeDaemon, tmp_path: Path, backends: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['httpx'] = None\n")
    config = f"[inquiry]\nbackends = {backends}\n[inquiry.llm]\nprovider = 'openai'\nmodel = 'm'\n"
    env = {"PYTHONPATH": str(tmp_path), "OPENAI_API_KEY": "canary"}
    daemon = make_daemon(config, env=env)
    with daemon.start().connect() as wire:
        (problem,) = wire.call("daemon/status")["problems"]
        assert problem["key"] == "inquiry.llm"
        for way in ("uv tool install", "pipx install --force", "pip install"):
            assert f"{way} 'haftd[llm]'" in problem["advice"]
        assert wire.call("tools/reload")["problems"] == [problem]
