"""The launch of a module's worker."""

from __future__ import annotations

import json
from typing import Any

import pytest

from haftd.launch_spec import Grant, LaunchSpec, Sandbox
from haftd.runtimes.wasm.plan import (
    WORKER_MEMORY,
    WORKER_THREADS,
    compile_launch,
    folders_of,
    module_of,
    worker_launch,
)
from haftd.runtimes.wasm.worker import VARIABLE, Order

READ = frozenset({"read"})
WRITE = frozenset({"read", "create", "update", "delete"})


def launch(**fields: Any) -> LaunchSpec:
    return LaunchSpec(("a.wasm", "word"), "/root", {"A": "1"}, **fields)


def order_of(launch: LaunchSpec) -> Order:
    return Order(**json.loads(launch.env[VARIABLE]))


@pytest.mark.parametrize(
    ("grants", "cwd", "folders"),
    [
        ((), "/r", ()),
        ((Grant("/r", READ),), "/r", (("/r", "/r", False), ("/r", ".", False))),
        ((Grant("/r", READ),), "/r/a", (("/r", "/r", False), ("/r/a", ".", False))),
        ((Grant("/r/a/b", WRITE),), "/r", (("/r/a/b", "/r/a/b", True), ("/r/a/b", "a/b", True))),
        ((Grant("/other", WRITE),), "/r", (("/other", "/other", True),)),
        ((Grant("/rest", READ),), "/r", (("/rest", "/rest", False),)),
    ],
)
def test_a_folder_has_its_path_and_its_name_in_the_working_folder(
    grants: tuple[Grant, ...], cwd: str, folders: tuple[tuple[str, str, bool], ...]
) -> None:
    assert folders_of(grants, cwd) == folders


@pytest.mark.parametrize("is_outer_first", [True, False])
def test_the_longest_rule_decides_about_the_working_folder(is_outer_first: bool) -> None:
    grants = [Grant("/r", WRITE), Grant("/r/a", READ)]
    found = folders_of(grants if is_outer_first else grants[::-1], "/r/a/b")
    assert ("/r/a/b", ".", False) in found and ("/r", "/r", True) in found


def test_the_worker_has_more_than_the_module() -> None:
    limits = {"memory": 1 << 20, "processes": 1, "fuel": 5.0, "wall_s": 2}
    planned = worker_launch(launch(limits=limits), (), (), "/cache", "")
    assert planned.limits == {
        "memory": (1 << 20) + WORKER_MEMORY, "processes": 1 + WORKER_THREADS, "fuel": 5, "wall_s": 2
    }  # fmt: skip
    assert (order_of(planned).memory, order_of(planned).fuel) == (1 << 20, 5)


def test_the_call_is_the_input_or_precedes_it() -> None:
    def planned(**fields: Any) -> tuple[bool, bytes]:
        found = worker_launch(launch(**fields), (), (), "/cache", "{}")
        return order_of(found).has_call, found.stdin_head

    assert planned(stdin="null") == (True, b"")
    assert planned(stdin="pipe") == (False, b"{}\n")
    assert planned(stdin="pipe", output="events") == (False, b"")


def test_the_sandbox_of_a_module_reads_the_cache_and_that_of_the_compiler_writes_nothing_else() -> (
    None
):
    sandbox = Sandbox("/root", (Grant("/root/out", WRITE),), network=True)
    planned = worker_launch(launch(sandbox=sandbox), sandbox.grants or (), (), "/cache", "")
    assert planned.sandbox is not None and planned.sandbox.grants is not None
    changeable = [grant.path for grant in planned.sandbox.grants if grant.rights & WRITE - READ]
    assert changeable == ["/root/out"]
    assert Grant("/cache", READ) in planned.sandbox.grants
    assert Grant("/root/a.wasm", READ) in planned.sandbox.grants
    compiler = compile_launch(planned, order_of(planned))
    assert compiler.sandbox is not None and compiler.sandbox.grants is not None
    changeable = [grant.path for grant in compiler.sandbox.grants if grant.rights & WRITE - READ]
    assert changeable == ["/cache"] and not compiler.sandbox.network
    assert order_of(compiler).compile and not compiler.argv[5:]
    assert module_of(compiler) == module_of(planned) == "/root/a.wasm"


def test_without_a_sandbox_there_is_none() -> None:
    planned = worker_launch(launch(), (), (), "/cache", "")
    assert planned.sandbox is None
    assert compile_launch(planned, order_of(planned)).sandbox is None
