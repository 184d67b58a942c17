"""Every runtime obeys the rules at the head of `haftd.runtimes.base`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pytest
import trio

from haftd.config.mcp_settings import McpServer
from haftd.launch_spec import LaunchSpec
from haftd.runtimes.base import Call, Runtime, RuntimeContext, ToolFailed
from haftd.runtimes.builtin import BuiltinRuntime
from haftd.runtimes.mcp.environment import Environment
from haftd.runtimes.mcp.runtime import McpRuntime
from haftd.runtimes.mcp.servers import Servers
from haftd.runtimes.process.runtime import ProcessRuntime
from haftd.runtimes.terminal.runtime import TerminalRuntime
from haftd.runtimes.vfs.runtime import VfsRuntime
from haftd.testing import PARTS, Part, check_runtime
from tests.mcpserver import SERVER
from tests.runtimes import kit, mediated_tools
from tests.runtimes.fake import (
    Ask,
    CannotStart,
    Emit,
    Exit,
    Fail,
    FakeRuntime,
    LeaveBehind,
    Step,
    Stubborn,
    TakeInput,
    WaitFor,
)
from tests.runtimes.mediated_tools import sandboxed


def _lines(text: bytes) -> tuple[Step, ...]:
    return tuple(Emit(line + b"\n") for line in text.split(b"\n")[:-1])


class FakeBench:
    """The scripted runtime."""

    def stage(self, part: Part) -> tuple[Runtime, Call] | None:
        text = Emit(part.text)
        scripts: dict[str, tuple[Step, ...]] = {
            "prints": _lines(part.text),
            "exits": (text, Exit(7)),
            "signalled": (text, Exit(None, "KILL")),
            "idles": (text, WaitFor()),
            "stubborn": (Stubborn(), text, WaitFor()),
            "echoes": (text, *(TakeInput() for _ in range(200)), TakeInput(show=False)),
            "asks": tuple(Ask(question) for question in part.questions),
            "fails": (Fail("no luck", ("here",), transient=True),),
            "cannot start": (CannotStart("no such program"),),
            "leaves": (text, LeaveBehind(), Exit(3)),
            "holds": (text, LeaveBehind(holds_output=True), Exit(3)),
            "chatters": (text, LeaveBehind(holds_output=True), Exit(3)),
        }
        call = Call("fake", LaunchSpec((), "/", stdin="pipe"), "", script=scripts[part.name])
        return FakeRuntime(), call

    def left(self, call: Call) -> Sequence[int]:
        return ()

    def shown(self, text: bytes) -> bytes:
        return text


async def test_the_fake_obeys_the_rules(autojump_clock: trio.testing.MockClock) -> None:
    assert await check_runtime(FakeBench()) == [part.name for part in PARTS]


SCRIPTS = {
    "prints": 'printf %s "$TEXT"',
    "exits": 'printf %s "$TEXT"; exit 7',
    "signalled": 'printf %s "$TEXT"; kill -9 $$',
    "idles": 'printf %s "$TEXT"; exec sleep 1000',
    "stubborn": 'trap "" TERM; printf %s "$TEXT"; while :; do sleep 1000; done',
    "echoes": 'stty -echo 2>/dev/null; printf %s "$TEXT"; exec cat',
    "holds": 'trap "" HUP; sleep 1000 & printf %s "$TEXT"; exit 3',
    "chatters": """
        trap "" HUP PIPE
        (while :; do echo tick 2>/dev/null; sleep 0.02; done) &
        printf %s "$TEXT"
        exit 3
    """,
}

LEAVES = """
import os, signal, time
os.write(1, os.environ["TEXT"].encode())
signal.signal(signal.SIGHUP, signal.SIG_IGN)
here, there = os.pipe()
if os.fork() == 0:
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.write(there, b"x")
    time.sleep(1000)
os.read(here, 1)
os._exit(3)
"""

ASKS = """
import json, os
answers = json.loads(os.environ["HAFT_CALL"])["tool"].get("answers", {})
if "name" not in answers:
    question = {"id": "name", "text": "Which name?", "answer_type": "Text"}
elif "sure" not in answers:
    question = {"id": "sure", "text": "Sure?", "answer_type": {"type": "boolean"}}
else:
    said = answers["name"] + " " + json.dumps(answers["sure"])
    print(json.dumps({"type": "success", "content": said}))
    raise SystemExit
print(json.dumps({"type": "needs_input", "question": question}))
"""

FAILS = """
import json
print(json.dumps({"type": "error", "message": "no luck", "trace": ["here"], "transient": True}))
raise SystemExit(1)
"""


class ShellBench:
    """A runtime that runs processes."""

    def __init__(self, runtime: Runtime, *, terminal: bool) -> None:
        self._runtime = runtime
        self._terminal = terminal

    def stage(self, part: Part) -> tuple[Runtime, Call] | None:
        if part.name in ("asks", "fails"):
            if self._terminal:
                return None
            script = {"asks": ASKS, "fails": FAILS}[part.name]
            env = {"HAFT_CALL": '{"tool": {"name": "test"}}'}
            return self._runtime, kit.asking(kit.python(script, output="outcome", env=env))
        if part.name == "cannot start":
            return self._runtime, kit.call("no-such-program", terminal=self._terminal)
        env = {"TEXT": part.text.decode()}
        if part.name == "leaves":
            return self._runtime, kit.python(LEAVES, env=env, terminal=self._terminal)
        script = SCRIPTS[part.name]
        return self._runtime, kit.shell(script, env=env, terminal=self._terminal, stdin="pipe")

    def left(self, call: Call) -> Sequence[int]:
        return kit.lives(call)

    def shown(self, text: bytes) -> bytes:
        return text.replace(b"\n", b"\r\n") if self._terminal else text


async def test_the_process_runtime_obeys_the_rules() -> None:
    bench = ShellBench(ProcessRuntime(), terminal=False)
    assert await check_runtime(bench) == [part.name for part in PARTS]


async def test_the_terminal_runtime_obeys_the_rules() -> None:
    bench = ShellBench(TerminalRuntime(), terminal=True)
    expected = [part.name for part in PARTS if part.name not in ("asks", "fails")]
    assert await check_runtime(bench) == expected


MEDIATED = {
    "prints": "sys.stdout.write(TEXT)",
    "idles": "sys.stdout.write(TEXT); sys.stdout.flush(); time.sleep(1000)",
    "stubborn": """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sys.stdout.write(TEXT)
sys.stdout.flush()
while True:
    time.sleep(1000)
""",
    "echoes": """
sys.stdout.write(TEXT)
sys.stdout.flush()
for line in sys.stdin:
    print(json.loads(line)["params"]["input"], flush=True)
""",
    "asks": """
answers = []
for question in (
    {"id": "name", "text": "Which name?", "answer_type": "Text"},
    {"id": "sure", "text": "Sure?", "answer_type": {"type": "boolean"}},
):
    say(type="waiting", question=question)
    answers.append(hear()["params"]["input"])
say(type="stopped", result=f"{answers[0]} {json.dumps(answers[1])}")
""",
    "fails": """
say(type="stopped", error={"message": "no luck", "trace": ["here"], "transient": True})
sys.exit(1)
""",
    "leaves": mediated_tools.LEAVES + "leave('time.sleep(1000)', closes=True)",
    "holds": mediated_tools.LEAVES + "leave('time.sleep(1000)')",
    "chatters": mediated_tools.LEAVES
    + "leave('while True:\\n print(\"tick\", flush=True)\\n time.sleep(0.02)')",
}


class VfsBench:
    """Mediated tools: their input is a line of JSON each, and an end without a state is a failure."""

    def stage(self, part: Part) -> tuple[Runtime, Call] | None:
        if part.name == "cannot start":
            call = kit.call("no-such-program", output="events")
            return VfsRuntime(), mediated_tools.mediated(call)
        script = MEDIATED.get(part.name)
        if script is None:
            return None
        head = f"import signal, time\nTEXT = {part.text.decode()!r}\n"
        return VfsRuntime(), mediated_tools.tool(head + script)

    def left(self, call: Call) -> Sequence[int]:
        return kit.lives(call)

    def shown(self, text: bytes) -> bytes:
        return text


@sandboxed
async def test_the_runtime_of_mediated_tools_obeys_the_rules() -> None:
    expected = [part.name for part in PARTS if part.name not in ("exits", "signalled")]
    assert await check_runtime(VfsBench()) == expected


class BuiltinBench:
    """Tools without a process: they can ask and fail, and print nothing."""

    def stage(self, part: Part) -> tuple[Runtime, Call] | None:
        async def asks(call: Call, context: RuntimeContext) -> str:
            return " ".join(
                [
                    str(await context.ask(question).wait()).replace("T", "t")
                    for question in part.questions
                ]
            )

        async def fails(call: Call, context: RuntimeContext) -> str:
            raise ToolFailed("no luck", ("here",), transient=True)

        tools = {"asks": asks, "fails": fails}
        if part.name not in tools:
            return None
        return BuiltinRuntime({"own": tools[part.name]}), Call("own", LaunchSpec((), "/"), "")

    def left(self, call: Call) -> Sequence[int]:
        return ()

    def shown(self, text: bytes) -> bytes:
        return text


async def test_the_builtin_runtime_obeys_the_rules() -> None:
    assert await check_runtime(BuiltinBench()) == ["asks", "fails"]


class McpBench:
    """Tools of an MCP server: the process is the server's, so tools can ask, and can fail to
    start."""

    def __init__(self, servers: Servers) -> None:
        self._runtime = McpRuntime(servers)

    def stage(self, part: Part) -> tuple[Runtime, Call] | None:
        served = {"asks": ("small", "asks"), "cannot start": ("missing", "x")}.get(part.name)
        return None if served is None else (self._runtime, kit.call(served=served))

    def left(self, call: Call) -> Sequence[int]:
        return kit.lives(call)

    def shown(self, text: bytes) -> bytes:
        return text


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_the_runtime_of_mcp_servers_obeys_the_rules(era: str) -> None:
    calls: list[Call] = []

    def make_call(name: str, settings: McpServer) -> Call:
        calls.append(kit.call(*settings.argv, stdin="pipe", output="outcome"))
        return calls[-1]

    async with trio.open_nursery() as nursery:
        environment = Environment(
            nursery=nursery,
            grace_s=2.0,
            environ={},
            make_call=make_call,
            clear_up=lambda call, confirmed: None,
            listed=lambda name, tools: None,
            lost=lambda name, message, marks: None,
        )
        settings = {
            "small": McpServer(command=(sys.executable, str(SERVER), era)),
            "missing": McpServer(command=("no-such-program",)),
        }
        servers = Servers(settings, environment)
        assert await check_runtime(McpBench(servers)) == ["asks", "cannot start"]
        nursery.cancel_scope.cancel()
    assert not [pid for call in calls for pid in kit.lives(call)]
