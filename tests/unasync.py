"""`python -m tests.unasync`: make the blocking client's typed calls from the trio client's."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).parent.parent / "clients" / "haft"
SOURCE = CLIENT / "aio_calls.py"
TARGET = CLIENT / "calls.py"

_HEAD = '''"""The typed calls of the blocking client; see `client`.

Made from `aio_calls` by `python -m tests.unasync`: edit that module.
"""'''


class _Blocking(ast.NodeTransformer):
    """Turns coroutines into functions with a `timeout` passed to `self.call`."""

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.args.kwonlyargs.append(ast.arg("timeout", ast.parse("float | None", mode="eval").body))
        node.args.kw_defaults.append(ast.Constant(None))
        return ast.FunctionDef(
            node.name, node.args, node.body, node.decorator_list, node.returns, lineno=node.lineno
        )

    def visit_Await(self, node: ast.Await) -> ast.expr:
        call = self.visit(node.value)
        if not isinstance(call, ast.Call) or ast.unparse(call.func) != "self.call":
            raise ValueError(f"line {node.lineno}: a coroutine may await `self.call` only")
        call.keywords.insert(0, ast.keyword("timeout", ast.Name("timeout")))
        return call


def blocking(source: str) -> str:
    """Return the module of the blocking client, formatted."""
    tree = ast.parse(source.replace("AsyncCalls", "Calls"))
    tree.body[0] = ast.parse(_HEAD).body[0]
    text = ast.unparse(ast.fix_missing_locations(_Blocking().visit(tree)))
    for action in (["check", "--select", "I", "--fix", "--quiet"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *action, "--stdin-filename", str(TARGET), "-"]
        run = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True)
        text = run.stdout
    return text


if __name__ == "__main__":
    TARGET.write_text(blocking(SOURCE.read_text()))
