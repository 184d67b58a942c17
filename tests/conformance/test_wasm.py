"""The runtime of WebAssembly modules obeys the rules at the head of `haftd.runtimes.base`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
from msgspec.structs import replace

from haftd.host.launch import landlock
from haftd.launch_spec import LaunchSpec, Sandbox
from haftd.runtimes.base import Call, Runtime
from haftd.runtimes.wasm.plan import worker_launch
from haftd.runtimes.wasm.runtime import CompiledModules, WasmRuntime
from haftd.testing import Part, check_runtime
from tests.runtimes import kit, modules

PRINT = "(call $write (i32.const 1) {text})"
BODIES = {
    "prints": PRINT,
    "exits": f"{PRINT} (call $exit (i32.const 7))",
    "idles": f"{PRINT} (loop $forever (br $forever))",
    "echoes": f"""
      (call $read_line)
      {PRINT}
      (block $done (loop $more
        (br_if $done (i32.eqz (local.tee $at
          (call $read (i32.const 0) (global.get $input) (i32.const 65536)))))
        (call $write (i32.const 1) (global.get $input) (local.get $at))
        (br $more)))
    """,
    "asks": """
      (call $read_all (i32.const 0))
      (if (i32.eqz (call $find {name})) (then (call $write (i32.const 1) {ask_name}) (return)))
      (if (i32.eqz (call $find {sure})) (then (call $write (i32.const 1) {ask_sure}) (return)))
      (call $write (i32.const 1) {begin})
      (call $write_to (i32.const 1) (call $find {name}) (i32.const 34))
      (call $write (i32.const 1) {blank})
      (call $write_to (i32.const 1) (call $find {sure}) (i32.const 125))
      (call $write (i32.const 1) {end})
    """,
    "fails": "(call $write (i32.const 1) {failure}) (call $exit (i32.const 1))",
}
TEXTS = {
    "name": '"answers": {"name": "',
    "sure": '"sure": ',
    "ask_name": '{"type": "needs_input", "question":'
    ' {"id": "name", "text": "Which name?", "answer_type": "Text"}}',
    "ask_sure": '{"type": "needs_input", "question":'
    ' {"id": "sure", "text": "Sure?", "answer_type": {"type": "boolean"}}}',
    "begin": '{"type": "success", "content": "',
    "blank": " ",
    "end": '"}',
    "failure": '{"type": "error", "message": "no luck", "trace": ["here"], "transient": true}',
}
IMPOSSIBLE = {"signalled", "stubborn", "leaves", "holds", "chatters"}
"""A module sends no signal, handles none, and starts no process."""


class WasmBench:
    def __init__(self, folder: Path, nursery: trio.Nursery, *, is_sandboxed: bool) -> None:
        self._folder = folder
        modules = CompiledModules(nursery, compiler, lambda call, confirmed: None)
        self._runtime = WasmRuntime(modules)
        self._sandbox = Sandbox("/nonexistent") if is_sandboxed else None

    def stage(self, part: Part) -> tuple[Runtime, Call] | None:
        if part.name in IMPOSSIBLE:
            return None
        path = self._folder / f"{part.name}.wasm"
        if part.name in BODIES:
            modules.write(path, BODIES[part.name], {**TEXTS, "text": part.text.decode()})
        call = '{"tool": {"name": "test"}}'
        is_outcome = part.name in ("asks", "fails")
        first = kit.call(
            str(path),
            env={"HAFT_CALL": call},
            output="outcome" if is_outcome else "raw",
            stdin="pipe" if part.name == "echoes" else "null",
            sandbox=self._sandbox,
        )
        cache = str(self._folder / "cache")
        planned = replace(first, launch=worker_launch(first.launch, (), (), cache, call))
        return self._runtime, kit.asking(planned) if part.name == "asks" else planned

    def left(self, call: Call) -> Sequence[int]:
        return kit.lives(call)

    def shown(self, text: bytes) -> bytes:
        return text


def compiler(launch: LaunchSpec) -> Call:
    """Return the call of a process that compiles."""
    call = kit.call(*launch.argv)
    env = {**launch.env, "HAFT_HANDLE": call.mark}
    return replace(call, launch=launch._replace(env=env))


@pytest.mark.parametrize("is_sandboxed", [False, True])
async def test_the_wasm_runtime_obeys_the_rules(tmp_path: Path, is_sandboxed: bool) -> None:
    if is_sandboxed and landlock.abi() < landlock.MIN_ABI:
        pytest.skip("needs a kernel with Landlock")
    # Compiled in the worker at first, then from the cache.
    for _ in range(2):
        async with trio.open_nursery() as nursery:
            bench = WasmBench(tmp_path, nursery, is_sandboxed=is_sandboxed)
            played = await check_runtime(bench)
        # Each call of "idles" is aborted, which may end its compiler.
        assert len(BODIES) - len(list((tmp_path / "cache").iterdir())) in (0, 1)
    assert played == ["prints", "exits", "idles", "echoes", "asks", "fails", "cannot start"]
