from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from types import FunctionType, ModuleType

import pytest

import haft.aio
import haft.client
import haft.tools
import haft.tools.descriptions
import haft.tools.errors
import haft.tools.host
import haft_protocol
import haftd.runtimes.base
import haftd.runtimes.no_process
import haftd.testing
from tests.running_daemon import RunningDaemon

PROTOCOL = [
    importlib.import_module(f"haft_protocol.{module.name}")
    for module in pkgutil.iter_modules(haft_protocol.__path__)
]
TOOLS = [haft.tools, haft.tools.descriptions, haft.tools.errors, haft.tools.host]
RUNTIMES = [haftd.runtimes.base, haftd.runtimes.no_process, haftd.testing]
MODULES = [*PROTOCOL, haft.client, haft.aio, *TOOLS, *RUNTIMES]


def classes_with_behaviour(module: ModuleType) -> list[type]:
    """Return the module's own public classes, except interfaces, that define a public method or
    property."""
    public = getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")])
    return [
        kind
        for name, kind in vars(module).items()
        if name in public
        and inspect.isclass(kind)
        and not getattr(kind, "_is_protocol", False)
        and kind.__module__ == module.__name__
        and any(
            not key.startswith("_")
            and isinstance(member, FunctionType | property | classmethod | staticmethod)
            for key, member in vars(kind).items()
        )
    ]


CLASSES = [kind for module in MODULES for kind in classes_with_behaviour(module)]


def examples(of: object, **names: object) -> list[doctest.DocTest]:
    return [test for test in doctest.DocTestFinder().find(of, extraglobs=names) if test.examples]


def test_the_classes_with_behaviour_are_found() -> None:
    names = {f"{kind.__module__}.{kind.__name__}" for kind in CLASSES}
    assert {"haft.client.Haft", "haft.aio.Haft", "haft_protocol.framing.Framer"} <= names


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_a_class_with_behaviour_has_an_example(kind: type) -> None:
    assert examples(kind), f"{kind.__module__}.{kind.__name__} shows its use in no doctest"


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_the_examples_of_a_module_run(module: ModuleType, shared_daemon: RunningDaemon) -> None:
    runner = doctest.DocTestRunner(verbose=False)
    output: list[str] = []
    for test in examples(module, socket=str(shared_daemon.socket)):
        runner.run(test, out=output.append)
    assert not runner.failures, "".join(output)
