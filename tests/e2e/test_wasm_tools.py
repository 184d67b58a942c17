"""Modules of WebAssembly as tools, from the definition to the module's folders and limits."""

from __future__ import annotations

import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from haftd.host.launch import landlock
from haftd.runtimes.wasm.worker import cached_name
from haftd.tools.definitions.runtime_names import find_engine_version
from tests.patience import PATIENCE_S
from tests.running_daemon import RunningDaemon
from tests.runtimes import modules
from tests.wire import Refused, Wire

pytestmark = pytest.mark.skipif(landlock.abi() < 6, reason="needs a kernel with Landlock 6")

ERRNO = """
  (func $errno (param $code i32)
    (i32.store8 (i32.const 16) (i32.add (i32.const 48)
      (i32.div_u (local.get $code) (i32.const 10))))
    (i32.store8 (i32.const 17) (i32.add (i32.const 48)
      (i32.rem_u (local.get $code) (i32.const 10))))
    (call $write (i32.const 1) (i32.const 16) (i32.const 2)))
"""
READ, WRITE, CREATE = 2, 64, 1


def opening(flags: int, rights: int, then: str) -> str:
    """Open {path} below the first folder, and do `then` with $fd, or print the number of the error."""
    return f"""
      (if (local.tee $at (call $path_open (i32.const 3) (i32.const 1) {{path}} (i32.const {flags})
          (i64.const {rights}) (i64.const 0) (i32.const 0) (i32.const 20)))
        (then (call $errno (local.get $at)) (return)))
      (local.set $fd (i32.load (i32.const 20)))
      {then}
    """


def reading(path: str) -> tuple[str, dict[str, str], str]:
    then = """(call $read_all (local.get $fd))
      (call $write (i32.const 1) (global.get $input) (global.get $size))"""
    return opening(0, READ, then), {"path": path}, ERRNO


def writing(path: str) -> tuple[str, dict[str, str], str]:
    then = "(call $write (local.get $fd) {path})"
    return opening(CREATE, WRITE, then), {"path": path}, ERRNO


PLACES = (
    *("/etc/passwd", "../secret", "plug/../../secret", "link", "plug/out/secret", "self/environ"),
    *("/proc/self/environ", "plug//../../secret", "./link", "up/secret"),
)


def attacks() -> tuple[str, dict[str, str], str]:
    """Open, write, rename, link and delete what lies outside; print the number of each error."""
    texts = {f"p{n}": place for n, place in enumerate(PLACES)}
    texts |= {"inside": "inside", "out": "../out", "new": "new", "secret": "../secret", "root": "/"}
    calls = [
        f"(call $path_open (i32.const 3) (i32.const {follow}) {{p{n}}} (i32.const {flags})"
        f" (i64.const {rights}) (i64.const 0) (i32.const 0) (i32.const 20))"
        for n in range(len(PLACES))
        for follow, flags, rights in ((1, 0, READ), (1, CREATE, WRITE))
    ]
    calls += [
        "(call $path_symlink {root} (i32.const 3) {new})",
        "(call $path_rename (i32.const 3) {inside} (i32.const 3) {out})",
        "(call $path_rename (i32.const 3) {secret} (i32.const 3) {new})",
        "(call $path_link (i32.const 3) (i32.const 0) {secret} (i32.const 3) {new})",
        "(call $path_link (i32.const 3) (i32.const 1) {p3} (i32.const 3) {new})",
        "(call $path_unlink_file (i32.const 3) {secret})",
    ]
    return "\n".join(f"(call $errno {call})" for call in calls), texts, ERRNO


LISTS = """
  (drop (call $environ_sizes_get (i32.const 24) (i32.const 28)))
  (drop (call $environ_get (i32.const 65536) (i32.const 131072)))
  (call $write (i32.const 1) (i32.const 131072) (i32.load (i32.const 28)))
  (drop (call $args_sizes_get (i32.const 24) (i32.const 28)))
  (drop (call $args_get (i32.const 65536) (i32.const 131072)))
  (call $write (i32.const 1) (i32.const 131072) (i32.load (i32.const 28)))
"""
MODULES: dict[str, tuple[str, dict[str, str], str]] = {
    "lists": (LISTS, {}, ""),
    "call": (
        "(call $read_all (i32.const 0)) (call $write (i32.const 1) (global.get $input) (global.get $size))",
        {},
        "",
    ),
    "spin": ("(call $write (i32.const 1) {text}) (loop $more (br $more))", {"text": "on"}, ""),
    "trap": (
        "(call $deep)",
        {},
        "(func $deep (drop (i32.div_u (i32.const 1) (global.get $size))))",
    ),
    "grow": (
        "(loop $more (br_if $more (i32.ge_s (memory.grow (i32.const 1)) (i32.const 0)))) unreachable",
        {},
        "",
    ),
    "grown": (
        """(loop $more (br_if $more (i32.ge_s (memory.grow (i32.const 1)) (i32.const 0))))
        (call $errno (i32.div_u (memory.size) (i32.const 2)))""",
        {},
        ERRNO,
    ),
    "lines": (
        """(call $read_line) (call $write (i32.const 1) {text})
        (block $done (loop $more (call $read_line) (br_if $done (i32.eqz (global.get $size)))
          (call $write (i32.const 1) (global.get $input) (global.get $size)) (br $more)))""",
        {"text": "ready\n"},
        "",
    ),
    "live": (
        """(call $read_line)
        (if (i32.eqz (call $find {init})) (then unreachable))
        (call $write (i32.const 1) {ask})
        (call $read_line)
        (if (call $find {yes}) (then (call $write (i32.const 1) {done}) (return)))
        (call $write (i32.const 1) {failed})""",
        {
            "init": '"method":"init","params":{"tool":{"name":"live"',
            "ask": '{"type": "waiting", "question":'
            ' {"id": "sure", "text": "Sure?", "answer_type": {"type": "boolean"}}}\n',
            "yes": '"input":true',
            "done": '{"type": "stopped", "result": "done"}\n',
            "failed": '{"type": "stopped", "error": {"message": "not sure"}}\n',
        },
        "",
    ),
    "mediated": (
        """(call $read_line) (call $write (i32.const 1) {ask}) (call $read_line)
        (call $write (i32.const 1) {begin})
        (if (local.tee $at (call $find {content}))
          (then (call $write_to (i32.const 1) (local.get $at) (i32.const 34)))
          (else (call $write_to (i32.const 1) (call $find {kind}) (i32.const 34))))
        (call $write (i32.const 1) {end})""",
        {
            "ask": '{"jsonrpc": "2.0", "id": 1, "method": "fs.read", "params": {"path": "inside"}}\n',
            "begin": '{"type": "stopped", "result": "',
            "content": '"content":"',
            "kind": '"kind":"',
            "end": '"}\n',
        },
        "",
    ),
    "inside": reading("inside"),
    "above": reading("../secret"),
    "link": reading("link"),
    "create": writing("made"),
    "attacks": attacks(),
}
TOOLS = """
[tools.lists]
command = ["plug/lists.wasm", "{{ tool.arguments.word }}", "b c"]
parameters.word = { type = "string" }
access.env.read = ["GRANTED", "HAFT_*"]
env = { SET = "set" }
[tools.call]
command = "plug/call.wasm"
output = "raw"
parameters.text = { type = "string" }
[tools.spin]
command = "plug/spin.wasm"
parameters = {}
[tools.fuel]
command = "plug/spin.wasm"
parameters = {}
limits = { fuel = 1_000_000 }
[tools.wall]
command = "plug/spin.wasm"
parameters = {}
limits = { wall_s = 0.5 }
[tools.trap]
command = "plug/trap.wasm"
parameters = {}
[tools.grow]
command = "plug/grow.wasm"
parameters = {}
limits = { memory = "8 MiB" }
[tools.grown]
command = "plug/grown.wasm"
parameters = {}
limits = { memory = "8 MiB" }
[tools.broken]
command = "plug/broken.wasm"
parameters = {}
[tools.begins]
command = "plug/begins.wasm"
parameters = {}
limits = { fuel = 1_000_000 }
[tools.table]
command = "plug/table.wasm"
parameters = {}
limits = { memory = "8 MiB" }
[tools.text]
command = "inside"
runtime = "wasm"
parameters = {}
[tools.ungranted]
command = "plug/inside.wasm"
parameters = {}
[tools.inside]
command = "plug/inside.wasm"
parameters = {}
access.fs.read = ["."]
[tools.above]
command = "plug/above.wasm"
parameters = {}
sandbox = "root"
[tools.link]
command = "plug/link.wasm"
parameters = {}
sandbox = "root"
[tools.reader]
command = "plug/create.wasm"
parameters = {}
access.fs.read = ["."]
[tools.writer]
command = "plug/create.wasm"
parameters = {}
sandbox = "root"
[tools.component]
command = "plug/component.wasm"
parameters = {}
limits = { fuel = 1_000_000, memory = "8 MiB" }
[tools.attacks]
command = "plug/attacks.wasm"
parameters = {}
sandbox = "root"
[tools.unsafe]
command = "plug/attacks.wasm"
parameters = {}
sandbox = "root"
unsafe = true
[tools.changing]
command = "plug/changing.wasm"
parameters = {}
[tools.lines]
command = "plug/lines.wasm"
stateful = true
parameters = {}
[tools.live]
command = "plug/live.wasm"
stateful = true
output = "events"
parameters = {}
[tools.mediated]
runtime = "vfs"
command = "plug/mediated.wasm"
access.fs.read = ["inside"]
access.net = [{ host = "api.example.com", path_prefix = "/v1" }]
parameters = {}
limits = { fuel = 1_000_000 }
[tools.mediated_nothing]
runtime = "vfs"
command = "plug/mediated.wasm"
parameters = {}
[tools.cacher]
command = "true"
access.fs.write = ["${XDG_CACHE_HOME}"]
parameters = {}
[tools.online]
command = "plug/call.wasm"
access.net = [{ host = "*" }]
[tools.script]
command = { program = "plug/call.wasm", shell = true }
runtime = "wasm"
[tools.burning]
command = "true"
limits = { fuel = 5 }
"""


@dataclass
class Project:
    daemon: RunningDaemon
    wire: Wire
    root: Path

    def run(self, tool: str, **args: Any) -> dict[str, Any]:
        state: dict[str, Any] = self.wire.call(
            "tools/call", tool=tool, arguments=args, root=str(self.root)
        )
        return state

    def spawn(self, tool: str, id: str) -> dict[str, Any]:
        state: dict[str, Any] = self.wire.call(
            "spawn", tool=tool, id=id, root=str(self.root), wait="pattern", pattern="on"
        )
        return state

    def run_compiled(self, tool: str) -> dict[str, Any]:
        """Run a tool with the module of the same name once the module is in the cache."""
        if not self.compiled(tool).exists():
            self.run(tool)
            wait_for(self.compiled(tool).exists)
        return self.run(tool)

    def compiled(self, module: str, *, has_fuel: bool = False) -> Path:
        source = (self.root / f"plug/{module}.wasm").read_bytes()
        digest = sha256(source).hexdigest()
        return self.cache / cached_name(source, digest, find_engine_version(), has_fuel=has_fuel)

    @property
    def cache(self) -> Path:
        return self.daemon.cache / "haft/modules"


def wait_for(fact: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not fact():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def project() -> Iterator[Project]:
    folder = Path(tempfile.mkdtemp(prefix="haft-"))
    root = folder / "root"
    (root / "plug").mkdir(parents=True)
    (root / "inside").write_text("inside")
    (root / "link").symlink_to("../secret")
    (folder / "secret").write_text("secret")
    (root / "plug/out").symlink_to("../..")
    (root / "self").symlink_to("/proc/self")
    (root / "up").symlink_to(folder)
    for name, module in MODULES.items():
        modules.write(root / f"plug/{name}.wasm", *module)
    for name, more in (
        ("begins", "(func $spin (loop (br 0))) (start $spin)"),
        ("table", "(table 10000000 funcref)"),
    ):
        hostile = f'(module {more} (func (export "_start")))'
        (root / f"plug/{name}.wasm").write_bytes(modules.assemble(hostile))
    (root / "plug/broken.wasm").write_bytes(b"\0asm\x01\0\0\0nothing")
    (root / "plug/component.wasm").write_bytes(modules.assemble(modules.COMPONENT))
    daemon = RunningDaemon(folder, env={"PRIVATE": "private", "GRANTED": "granted"})
    daemon.tools(TOOLS)
    daemon.start()
    with daemon.connect() as wire:
        yield Project(daemon, wire, root)
    daemon.close()
    shutil.rmtree(folder, ignore_errors=True)


def test_a_module_has_its_arguments_and_the_granted_variables(project: Project) -> None:
    words = project.run("lists", word="a")["result"].split("\0")
    assert sorted(words[:2]) == ["GRANTED=granted", "SET=set"]
    assert words[2:] == ["lists.wasm", "a", "b c", ""]


def test_the_call_is_the_standard_input(project: Project) -> None:
    for text in ("short", "long" * 50_000):
        assert f'"arguments":{{"text":"{text}"}}' in project.run("call", text=text)["result"]


def test_input_follows_the_call(project: Project) -> None:
    call = project.wire.call
    call("spawn", tool="lines", id="l", root=str(project.root), wait="input")
    state = call("apply", id="l", input={"line": "a word"}, wait="input")
    assert state["content"] == "a word\n"
    state = call("apply", id="l", input={"eof": True}, wait="stopped")
    assert state["exit"] == {"code": 0}
    source = {"id": "l", "cursor": 0}
    state = call(
        "spawn", tool="lines", id="p", root=str(project.root), stdin_from=source, wait="stopped"
    )
    assert state["result"] == "ready\nready\na word\n"


def test_an_interrupt_ends_a_module(project: Project) -> None:
    project.wire.call("spawn", tool="lines", id="c", root=str(project.root), wait="input")
    state = project.wire.call("apply", id="c", input={"keys": ["C-c"]}, wait="stopped")
    assert state["exit"] == {"signal": "INT"}


def test_a_live_module_asks_while_it_runs(project: Project) -> None:
    for answer, key, value in ((True, "result", "done"), (False, "error", "not sure")):
        state = project.wire.call(
            "spawn", tool="live", id=key, root=str(project.root), wait="input"
        )
        assert state["question"]["id"] == "sure"
        state = project.wire.call("apply", id=key, input=answer, wait="stopped")
        assert state[key] == value or state[key]["message"] == value


def test_a_module_can_be_mediated(project: Project) -> None:
    assert project.run("mediated")["result"] == "inside"
    assert project.run("mediated_nothing")["result"] == "denied"


def test_the_access_of_a_module_is_shown_in_words(project: Project) -> None:
    (described,) = project.wire.call("tools/describe", tools=["lists"])["tools"]
    assert described["access"] == [
        "It is a module of WebAssembly, which can do only what it is given: no programs, no network.",
        "Files: none.",
        "Environment: GRANTED, HAFT_*, and what its definition sets.",
    ]
    (described,) = project.wire.call("tools/describe", tools=["writer"])["tools"]
    assert described["access"][1] == "Files: may read and write the root and everything below."


def test_no_sandboxed_tool_may_write_compiled_modules(project: Project) -> None:
    project.run("inside")
    with pytest.raises(Refused, match=r"haft's own files in .*/cache/haft/modules") as refused:
        project.run("cacher")
    (described,) = project.wire.call("tools/describe", tools=["cacher"])["tools"]
    assert described["access"][0] == f"Refused here: {refused.value.message}"


def test_an_abort_ends_a_module_in_a_loop(project: Project) -> None:
    project.spawn("spin", "s")
    ended = project.wire.call("abort", id="s")
    assert (ended["ended_by"]["by"], ended["exit"]) == ("abort", {"signal": "TERM"})


def test_a_module_runs_in_the_sandbox(project: Project) -> None:
    project.spawn("spin", "sandboxed")
    rows = {row["id"]: row for row in project.wire.call("handles/list")["handles"]}
    status = Path(f"/proc/{rows['sandboxed']['pid']}/status").read_text()
    assert "Seccomp:\t2" in status and "NoNewPrivs:\t1" in status
    project.wire.call("abort", id="sandboxed")


@pytest.mark.parametrize(
    ("tool", "limit", "text"),
    [
        ("fuel", "fuel", "the module has used up its fuel of 1,000,000"),
        ("wall", "wall_s", ""),
        ("grow", "memory", "needs more memory than its limit of 8,388,608 bytes"),
        # Before `_start`: a loop in the start function, and a table of 80 MB, which the process itself could have.
        ("begins", "fuel", "the module has used up its fuel of 1,000,000"),
        ("table", "memory", "needs more memory than its limit of 8,388,608 bytes"),
    ],
)
def test_a_passed_limit_is_named(project: Project, tool: str, limit: str, text: str) -> None:
    state = project.run(tool)
    assert state["ended_by"]["by"] == "limit"
    assert f"`{limit}`" in state["error"]["message"]
    assert text in state["content"]


def test_the_memory_of_a_module_ends_at_its_limit(project: Project) -> None:
    assert project.run("grown")["result"] == "64"  # 64 KiB a page, two pages each


def test_the_error_of_a_module_that_cannot_run_has_the_reason(project: Project) -> None:
    state = project.run("broken")
    assert state["exit"] == {"code": 126}
    message = state["error"]["message"]
    assert message.startswith("The process exited with code 126. ")
    assert "plug/broken.wasm cannot be used: " in message and "offset" in message


def test_a_trap_is_an_error_with_its_backtrace(project: Project) -> None:
    state = project.run("trap")
    assert state["exit"] == {"code": 134}
    assert "integer divide by zero" in state["content"] and "!deep" in state["content"]


@pytest.mark.parametrize(
    ("tool", "result"),
    [
        ("ungranted", "08"),  # BADF: there is no folder
        ("inside", "inside"),
        ("above", "63"),  # PERM
        ("link", "63"),
    ],
)
def test_a_module_reads_below_its_folders_only(project: Project, tool: str, result: str) -> None:
    assert project.run(tool)["result"] == result


def test_a_module_writes_where_it_is_granted(project: Project) -> None:
    assert project.run("reader")["result"] == "63"  # PERM
    assert not (project.root / "made").exists()
    assert project.run("writer")["result"] == ""
    assert (project.root / "made").read_text() == "made"


@pytest.mark.parametrize("tool", ["attacks", "unsafe"])
def test_no_way_leads_out_of_the_folders(project: Project, tool: str) -> None:
    """Neither with the sandbox of the kernel, nor by the engine alone."""
    numbers = project.run(tool)["result"]
    assert [
        numbers[at : at + 2] for at in range(0, len(numbers), 2) if numbers[at : at + 2] == "00"
    ] == []
    assert len(numbers) == 2 * (2 * len(PLACES) + 6)
    assert (project.root.parent / "secret").read_text() == "secret"
    assert not (project.root / "new").exists() and (project.root / "inside").exists()


def test_a_component_is_a_tool(project: Project) -> None:
    assert project.run("component")["result"] == "hello from a component\n"
    wait_for(project.compiled("component", has_fuel=True).exists)
    assert project.run("component")["result"] == "hello from a component\n"


def test_a_file_that_is_no_module_is_refused_and_not_quoted(project: Project) -> None:
    with pytest.raises(Refused, match="is not a WebAssembly module") as refused:
        project.run("text")
    assert (refused.value.code, refused.value.data["reason"]) == (-32012, "format")


def test_rules_that_a_module_cannot_have_are_problems(project: Project) -> None:
    problems = {
        problem["key"]: problem["message"]
        for problem in project.wire.call("daemon/status")["problems"]
    }
    assert "has no network" in problems["tools.online.access.net"]
    assert "not a shell script" in problems["tools.script.command"]
    assert "only a module of WebAssembly" in problems["tools.burning.limits.fuel"]
    assert len(problems) == 3


def test_a_compiled_module_is_kept_for_this_user_alone(project: Project) -> None:
    assert project.run_compiled("inside")["result"] == "inside"
    assert stat.S_IMODE(project.cache.stat().st_mode) == 0o700
    facts = project.compiled("inside").stat()
    assert stat.S_IMODE(facts.st_mode) == 0o600
    project.run("inside")
    assert project.compiled("inside").stat().st_ino == facts.st_ino


def test_a_changed_module_is_compiled_anew(project: Project) -> None:
    changing = project.root / "plug/changing.wasm"
    for text in ("first", "again"):
        modules.write(changing, "(call $write (i32.const 1) {text})", {"text": text})
        assert project.run_compiled("changing")["result"] == text


def test_a_compiled_module_that_others_may_change_is_not_loaded(project: Project) -> None:
    """Another module under the same name would be run."""
    project.run_compiled("call")
    project.run_compiled("inside")
    inside, other = project.compiled("inside"), project.compiled("call")
    kept = inside.read_bytes()
    try:
        inside.write_bytes(other.read_bytes())
        assert "arguments" in project.run("inside")["result"], "the cache is not used"
        inside.chmod(0o620)
        assert project.run("inside")["result"] == "inside"
        inside.chmod(0o600)
        project.cache.chmod(0o770)
        assert project.run("inside")["result"] == "inside"
        project.cache.chmod(0o700)
        inside.unlink()
        inside.symlink_to(other)
        assert project.run("inside")["result"] == "inside"
    finally:
        project.cache.chmod(0o700)
        inside.unlink(missing_ok=True)
        inside.write_bytes(kept)
        inside.chmod(0o600)


def test_a_cache_that_was_removed_is_filled_again(project: Project) -> None:
    project.run_compiled("inside")
    shutil.rmtree(project.cache)
    assert project.run_compiled("inside")["result"] == "inside"
