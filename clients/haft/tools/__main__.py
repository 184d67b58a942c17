"""`python -m haft.tools FILE`, or `--entry MODULE:NAME [--path FOLDER]`: run a tool file, or a
package's function.

For haftd alone, which adds the action as a last argument. A tool file leaves no bytecode.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from functools import reduce
from typing import Any, NoReturn

from .process import serve
from .registry import TOOLS, tool_of


def main(arguments: list[str]) -> NoReturn:
    match arguments:
        case ["--entry", entry, "--path", folder, *_]:
            _serve_entry(entry, folder)
        case [file, *_] if not file.startswith("-"):
            _serve_file(file)
    sys.stderr.write("usage: python -m haft.tools FILE | --entry MODULE:NAME --path FOLDER\n")
    raise SystemExit(64)


def _serve_file(file: str) -> NoReturn:
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))  # noqa: PTH100, PTH120
    name = os.path.basename(file).removesuffix(".py")  # noqa: PTH119
    spec = importlib.util.spec_from_file_location(f"haft_tools_{name}", file)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.dont_write_bytecode = True
    spec.loader.exec_module(module)
    sys.dont_write_bytecode = False
    serve(TOOLS.values())


def _serve_entry(entry: str, folder: str) -> NoReturn:
    if folder not in sys.path:
        sys.path.append(folder)
    module, _, name = entry.partition(":")
    loaded: Any = importlib.import_module(module)
    function = reduce(getattr, name.split("."), loaded)
    tools = [tool for tool in TOOLS.values() if tool.function is function]
    serve(tools or [tool_of(function)])


if __name__ == "__main__":
    main(sys.argv[1:])
