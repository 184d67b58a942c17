from __future__ import annotations

import itertools
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.running_daemon import RunningDaemon
from tests.wire import Refused, Wire

TOOLS = '''
import asyncio, os, subprocess, sys, time
from typing import Annotated, Literal
from haft.tools import Secret, ToolError, ask, tool

@tool
async def release(package: str, copies: Annotated[int, "How many."] = 1, how: Literal["fast", "slow"] = "fast"):
    """Release a package.

    At length.

    package: The package to release.
    """
    print("checking", package)
    if not await ask(f"Release {package}?", bool, id="sure"):
        raise ToolError("it was not confirmed", ["by the caller"], transient=True)
    for number in range(copies):
        print("copy", number + 1, flush=True)
    return f"released {package} {how}"

@tool(stateful=True, name="wait.for.end")
async def wait():
    print("ready")
    try:
        await asyncio.sleep(3600)
    finally:
        print("cleaned up")

@tool(stateful=True)
def count(to: int) -> None:
    """Count."""
    for number in range(to):
        print(number)
    subprocess.run(["echo", "child"])

@tool
def where() -> dict:
    return {"pid": os.getpid(), "stdin": sys.stdin.read(), "path": sys.path[0]}

@tool
def broken():
    {}["key"]

@tool(stateful=True)
def announce():
    print("copy", 1)
    print("copy", 2)
    return "done"

@tool
def stumble():
    print("a line")
    1 / 0

@tool
async def chained(kind: Literal["cause", "group"]):
    try:
        await divide()
    except ZeroDivisionError as error:
        if kind == "cause":
            raise ValueError("chained") from error
    async with asyncio.TaskGroup() as group:
        group.create_task(divide())

async def divide():
    await asyncio.wait_for(dividing(), 60)

async def dividing():
    1 / 0

@tool(stateful=True)
def spin():
    print("ready", flush=True)
    try:
        while True:
            time.sleep(0.01)
    finally:
        print("stopped spinning")

@tool(stateful=True)
async def several():
    """Ask two questions at once."""
    first, second = await asyncio.gather(ask("A?", ["x", "y"]), ask("B?", {"web": ["keep", "drop"]}))
    return [first, second, await ask("C?"), await ask("D?", Secret)]

@tool
def size(text: str) -> int:
    return len(text)

def helper(): ...
'''


@pytest.fixture(scope="module")
def running(shared_daemon: RunningDaemon) -> RunningDaemon:
    """A daemon with the tools, each of which is described once for all tests."""
    shared_daemon.tools(TOOLS, "mine.py")
    with shared_daemon.connect() as wire:
        wire.call("tools/reload")
    return shared_daemon


@pytest.fixture
def wire(running: RunningDaemon) -> Iterator[Wire]:
    with running.connect() as wire:
        yield wire
        wire.call("session/close")


def test_a_function_is_listed_with_its_description(wire: Wire) -> None:
    listed = wire.call("tools/list")
    tools = {tool["name"]: tool for tool in listed["tools"]}
    assert {"release", "wait.for.end", "count", "where", "spin", "several"} <= tools.keys()
    assert "helper" not in tools
    assert listed.get("problems", []) == []
    assert tools["release"]["description"] == "Release a package."
    assert tools["release"]["parameters"] == {
        "type": "object",
        "properties": {
            "package": {"type": "string", "description": "The package to release."},
            "copies": {"type": "integer", "default": 1, "description": "How many."},
            "how": {"type": "string", "enum": ["fast", "slow"], "default": "fast"},
        },
        "required": ["package"],
        "additionalProperties": False,
    }
    assert (tools["release"]["stateful"], tools["count"]["stateful"]) == (False, True)
    described = wire.call("tools/describe", tools=["release"])["tools"][0]
    assert described["description"] == "At length."


def test_a_function_asks_streams_and_returns(wire: Wire) -> None:
    args = {"package": "haft", "copies": 2}
    state = wire.call("spawn", tool="release", id="r", args=args, wait="input")
    assert state["state"] == "waiting"
    assert state["content"] == "checking haft\n"
    assert state["question"] == {
        "id": "sure",
        "text": "Release haft?",
        "answer_type": {"type": "boolean"},
    }
    state = wire.call("apply", id="r", input=True, wait="stopped")
    assert state["result"] == "released haft fast"
    found = wire.call("output/search", pattern="copy", ids=["r"])["matches"]
    assert [line["line"] for line in found] == ["copy 1", "copy 2"]


def test_a_tool_error_is_passed_on_and_any_other_has_its_traceback(wire: Wire) -> None:
    wire.call("spawn", tool="release", id="r", args={"package": "haft"}, wait="input")
    state = wire.call("apply", id="r", input=False, wait="stopped")
    assert state["error"] == {
        "message": "it was not confirmed",
        "trace": ["by the caller"],
        "transient": True,
    }
    error = wire.call("tools/call", tool="broken", arguments={})["error"]
    assert error["message"] == "KeyError: 'key'"
    assert any('{}["key"]' in line for line in error["trace"])


@pytest.mark.parametrize(
    ("tool", "arguments", "frames"),
    [
        ("stumble", {}, ["stumble"]),
        ("chained", {"kind": "cause"}, ["chained", "divide", "*", "dividing", "chained"]),
        ("chained", {"kind": "group"}, ["chained", "*", "divide", "*", "dividing"]),
    ],
)
def test_a_trace_begins_in_the_tools_own_file(
    wire: Wire, tool: str, arguments: dict[str, str], frames: list[str]
) -> None:
    trace = wire.call("tools/call", tool=tool, arguments=arguments)["error"]["trace"]
    found = [
        line.rpartition(", in ")[2] if "mine.py" in line else "*"
        for line in trace
        if ", in " in line
    ]
    assert [name for name, _ in itertools.groupby(found)] == frames, trace
    assert not any("process.py" in line or "async_call.py" in line for line in trace)


def test_arguments_are_checked_before_anything_runs(wire: Wire) -> None:
    with pytest.raises(Refused, match="copies") as refused:
        wire.call("tools/call", tool="release", arguments={"package": "x", "copies": "many"})
    assert refused.value.code == -32005


def test_a_function_without_a_result_returns_its_output(wire: Wire) -> None:
    state = wire.call("tools/call", tool="count", arguments={"action": "spawn", "id": "c", "to": 3})
    state = wire.call("fetch", id="c", wait="stopped", cursor=0)
    assert state["exit"] == {"code": 0}
    assert set(state["result"].splitlines()) == {"0", "1", "2", "child"}


def test_each_call_is_its_own_process_with_empty_input(wire: Wire, running: RunningDaemon) -> None:
    import json

    document = [
        json.loads(wire.call("tools/call", tool="where", arguments={})["result"]) for _ in "ab"
    ]
    assert len({document[0]["pid"], document[1]["pid"], running.pid}) == 3
    assert document[0]["stdin"] == ""
    assert document[0]["path"] == str(running.config / "haft" / "tools")


def test_arguments_too_long_for_an_environment_arrive_whole(wire: Wire) -> None:
    called = wire.call("tools/call", tool="size", arguments={"text": "äx" * 150_000})
    assert called["result"] == "300000"


@pytest.mark.parametrize(
    ("name", "last"), [("wait.for.end", "cleaned up"), ("spin", "stopped spinning")]
)
def test_an_abort_cancels_the_function(wire: Wire, name: str, last: str) -> None:
    wire.call("spawn", tool=name, id="w", wait="pattern", pattern="ready")
    state = wire.call("fetch", id="w", wait="input", timeout_ms=50)
    assert state["waited"] == "deadline", "a function that runs does not wait for input"
    state = wire.call("abort", id="w", grace_ms=20_000)
    assert state["ended_by"]["by"] == "abort"
    assert state["exit"] == {"code": 128 + signal.SIGINT}
    assert last in wire.call("fetch", id="w", view="all")["content"]


def test_several_questions_are_asked_in_turn(wire: Wire) -> None:
    state = wire.call("spawn", tool="several", id="s", wait="input")
    assert (state["question"]["id"], state["question"]["text"]) == ("q1", "A?")
    state = wire.call("apply", id="s", input="y", wait="input")
    assert state["question"]["answer_type"]["fields"] == {"web": {"options": ["keep", "drop"]}}
    state = wire.call("apply", id="s", input={"web": "drop"}, wait="input")
    state = wire.call("apply", id="s", input="text", wait="input")
    assert state["question"]["answer_type"] == {"type": "secret"}
    state = wire.call("apply", id="s", input="hush", wait="stopped")
    assert state["result"] == '["y", {"web": "drop"}, "text", "hush"]'


def test_a_definition_overrides_a_functions_description(
    make_daemon: Callable[..., RunningDaemon],
) -> None:
    daemon = make_daemon()
    daemon.tools(TOOLS, "mine.py")
    daemon.tools(
        "[tools.release]\nsummary = 'Ours.'\nquestions.sure.answer = true\n"
        "[tools.release.parameters]\ncopies.maximum = 3\n"
        "[tools.count]\ncommand = 'echo counted'\nparameters = {}\n[tools.where]\nenable = false\n"
    )
    with daemon.start().connect() as wire:
        tools = {tool["name"]: tool for tool in wire.call("tools/list")["tools"]}
        assert tools["release"]["description"] == "Ours."
        assert tools["release"]["parameters"]["properties"]["copies"]["maximum"] == 3
        assert "where" not in tools
        called = wire.call("tools/call", tool="release", arguments={"package": "a"})
        assert called["result"] == "released a fast"
        assert wire.call("tools/call", tool="count", arguments={})["result"] == "counted\n"
        assert wire.call("daemon/status")["problems"] == []


def test_a_changed_tool_file_is_described_again(daemon: RunningDaemon) -> None:
    """A function's parameters are known at the next list; new functions are, after a reload."""
    text = "from haft.tools import tool\n@tool\ndef grow(a: int): ...\n"
    with daemon.connect() as wire:
        for reload, parameter in ((True, "a"), (False, "bb"), (False, "ccc")):
            daemon.tools(text.replace("a: int", f"{parameter}: int"), "grows.py")
            if reload:
                wire.call("tools/reload")
            listed = {tool["name"]: tool for tool in wire.call("tools/list")["tools"]}
            assert list(listed["grow"]["parameters"]["properties"]) == [parameter]


def test_a_file_is_run_once_to_describe_the_functions_that_start_the_same(
    daemon: RunningDaemon, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    daemon.tools(
        "import os\nfrom haft.tools import tool\n"
        f"with open({str(runs)!r}, 'a') as runs:\n    print(os.environ.get('MODE'), file=runs)\n"
        "@tool\ndef one(a: int): ...\n@tool\ndef two(b: int): ...\n"
        "@tool(env={'MODE': 'other'})\ndef other(c: int): ...\n"
        "@tool\ndef faulty(d: complex): ...\n",
        "several.py",
    )
    with daemon.connect() as wire:
        wire.call("tools/reload")
        for _ in "ab":
            listed = wire.call("tools/list")
            parameters = {tool["name"]: tool["parameters"] for tool in listed["tools"]}
            names = {"one": "a", "two": "b", "other": "c"}
            assert {name: [*parameters[name]["properties"]] for name in names} == {
                name: [parameter] for name, parameter in names.items()
            }
            (problem,) = listed["problems"]
            assert problem["key"] == "tools.faulty", problem
            assert sorted(runs.read_text().split()) == ["None", "other"]


FAULTS: list[tuple[str, str]] = [
    ("from haft.tools import tool\n@tool\ndef f(x: complex): ...\n", "JSON cannot represent"),
    ("from haft.tools import tool\n@tool\ndef f(*args): ...\n", "cannot be given by name"),
    ("from haft.tools import tool\nimport nothing_of_that_name\n@tool\ndef f(): ...\n", "nothing_of_that_name"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "why"), FAULTS)
def test_a_fault_in_a_tool_file_is_named(daemon: RunningDaemon, text: str, why: str) -> None:
    daemon.tools(text, "faulty.py")
    with daemon.connect() as wire:
        wire.call("tools/reload")
        problems = wire.call("tools/list")["problems"]
        assert any(why in problem["message"] for problem in problems), problems
        with pytest.raises(Refused, match=why):
            wire.call("tools/call", tool="f", arguments={})


def test_the_problem_of_a_tool_file_is_known_at_its_reload_and_goes_with_the_file(
    daemon: RunningDaemon, tmp_path: Path
) -> None:
    daemon.tools(FAULTS[0][0], "faulty.py")
    with daemon.connect() as wire:
        reload = wire.call("tools/reload")
        (problem,) = reload["problems"]
        assert "JSON cannot represent" in problem["message"]
        assert wire.call("daemon/status")["problems"] == [problem]
        listed = wire.call("tools/list", root=str(tmp_path))
        assert listed["problems"] == [problem] and len(listed["tools"]) == reload["tools"]
        (daemon.config / "haft/tools/faulty.py").unlink()
        assert wire.call("tools/reload")["problems"] == []
        assert "problems" not in wire.call("tools/list", root=str(tmp_path))
        assert wire.call("daemon/status")["problems"] == []


def package(folder: Path) -> None:
    """Install a package with a function as a tool."""
    (folder / "acme_tools.py").write_text(
        "def shout(text: str, loud: bool = True) -> str:\n"
        '    "Shout a text."\n'
        "    return text.upper() if loud else text\n"
    )
    (folder / "acme-1.dist-info").mkdir()
    (folder / "acme-1.dist-info/entry_points.txt").write_text(
        "[haft.tools]\nshout = acme_tools:shout\nrun = acme_tools:shout\n\n[other]\nx = y:z\n"
    )


def test_a_package_offers_its_functions_by_entry_points(
    make_daemon: Callable[..., RunningDaemon], tmp_path: Path
) -> None:
    package(tmp_path)
    daemon = make_daemon(env={"PYTHONPATH": str(tmp_path)})
    with daemon.start().connect() as wire:
        listed = {tool["name"]: tool for tool in wire.call("tools/list")["tools"]}
        assert listed["shout"]["description"] == "Shout a text."
        called = wire.call("tools/call", tool="shout", arguments={"text": "hey"})
        assert called["result"] == "HEY"
        (problem,) = wire.call("daemon/status")["problems"]
        assert problem["key"] == "haft.tools.run"
        assert "its own tool" in problem["message"]
        loaded = Path(f"/proc/{daemon.pid}/maps").read_text()
        assert "acme" not in loaded


def test_an_executable_tool_file_is_its_own_program(
    make_daemon: Callable[..., RunningDaemon],
) -> None:
    daemon = make_daemon()
    text = f"#!{sys.executable} -S\nimport sys\nsys.path.extend({sys.path!r})\n"
    text += "from haft.tools import run, tool\n@tool\ndef flags() -> int:\n    return sys.flags.no_site\nrun()\n"
    daemon.tools(text, "own.py")
    (daemon.config / "haft/tools/own.py").chmod(0o700)
    with daemon.start().connect() as wire:
        assert wire.call("tools/call", tool="flags", arguments={})["result"] == "1"


def test_printed_lines_stand_before_the_result_and_the_trace_behind_the_error(wire: Wire) -> None:
    def call(tool: str, **arguments: object) -> str:
        called = wire.call(
            "tools/call", tool=tool, arguments=arguments, surface="verbs", format="text"
        )
        return str(called["text"])

    _, *lines = call("announce", id="a").splitlines()
    assert lines == ["copy 1", "copy 2", "done"]
    state = wire.call("fetch", id="a", view="all")
    assert (state["output"], state["result"]) == ("copy 1\ncopy 2\n", "done")
    assert "left" not in call("handle_read", id="a", view="all")
    assert call("handle_read", id="a", view="all").splitlines()[1:] == lines
    text = call("stumble")
    assert text.splitlines()[1:3] == ["a line", "ZeroDivisionError: division by zero"]
    assert text.count("ZeroDivisionError") == 1 and "1 / 0" in text


def test_a_function_without_a_form_in_json_leaves_the_others_of_its_file(
    daemon: RunningDaemon,
) -> None:
    daemon.tools(
        "from haft.tools import tool\n@tool\ndef bad(x: object): ...\n@tool\ndef good(x: int): ...\n",
        "pr.py",
    )
    with daemon.connect() as wire:
        wire.call("tools/reload")
        listed = wire.call("tools/list")
    names = {tool["name"] for tool in listed["tools"]}
    assert ("good" in names, "bad" in names) == (True, False)
    (problem,) = listed["problems"]
    assert problem["message"].startswith("the parameter 'x' of the tool 'bad' has the type")


def test_a_file_that_fails_is_reported_without_a_remedy_for_definitions(
    daemon: RunningDaemon,
) -> None:
    daemon.tools("from haft.tools import tool\n@tool\ndef good(): ...\nhere\n", "pr.py")
    with daemon.connect() as wire:
        wire.call("tools/reload")
        (problem,) = wire.call("tools/list")["problems"]
    assert "name 'here' is not defined" in problem["message"]
    assert "parameters" not in problem["message"]
