"""The public surface: every listed name exists, nothing is public by accident, and imports are
cheap."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import haft_protocol

MODULES = sorted(module.name for module in pkgutil.iter_modules(haft_protocol.__path__))


def test_the_rooms_are_those_of_the_design() -> None:
    assert MODULES == [
        "approvals", "constants", "discover", "ellipsis", "encoding", "errors", "framing", "handles", "inputs", "inquiries", "json_text",
        "mcp", "methods", "model_text", "network_errors", "outcome", "params", "paths", "patterns", "pushes", "questions", "reports", "rpc", "runtime_paths",
        "sessions", "states", "terminal_queries", "tools", "trust", "validation_messages",
    ]  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_a_modules_exports_are_its_public_definitions(name: str) -> None:
    module = importlib.import_module(f"haft_protocol.{name}")
    assert len(set(module.__all__)) == len(module.__all__)
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text())
    assert ast.get_docstring(tree)
    defined = {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    }
    assert defined <= set(module.__all__)
    assert all(hasattr(module, offered) for offered in module.__all__)


def test_a_client_imports_nothing_slow() -> None:
    """Each of these alone would cost more than a whole call."""
    slow = [
        "dataclasses",
        "asyncio",
        "hashlib",
        "difflib",
        "logging",
        "json",
        "haft_protocol.validation_messages",
    ]
    code = (
        "import haft_protocol.rpc, haft_protocol.framing, haft_protocol.paths, "
        "haft_protocol.methods, haft_protocol.inputs, haft_protocol.outcome, sys; "
        f"print([name for name in {slow!r} if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
