"""Self-describing tools over the wire: described once, when needed, and only where safe."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from haftd.host.process.identity import every_pid
from tests.faults.harness import until
from tests.processes import is_running
from tests.running_daemon import RunningDaemon
from tests.wire import Refused, Wire

PROGRAM = f"""#!{sys.executable} -S
import json, os, sys, time
call = json.loads(os.environ["HAFT_CALL"])
here = os.path.dirname(os.path.abspath(sys.argv[0]))
with open(here + "/asked", "a") as log:
    log.write(json.dumps([call["context"]["action"], call["tool"]["name"], os.getcwd()]) + "\\n")
if call["context"]["action"] == "schema":
    assert sys.stdin.read() == ""
    print("noise", file=sys.stderr)
    exec(open(here + "/plays").read())
else:
    print(json.dumps({{"type": "success", "content": json.dumps(call["tool"])}}))
"""
TWO = """
string = {"type": "string", "summary": "Package to check."}
print(json.dumps({"tools": [
    {"name": "check", "summary": "Check.", "description": "At length.", "parameters": {"package": string}},
    {"name": "test", "summary": "Test.", "parameters": {"times": {"type": "integer", "default": 3}}},
]}))
"""
WAITS = f"while not os.path.exists(here + '/go'): time.sleep(0.01)\n{TWO}"
UNABLE = {
    "exits": ("sys.exit(3)", "ended with exit code 3 (its last line: noise)"),
    "junk": ("print('usage: x')", "printed no description of tools"),
    "nothing": ("pass", "printed nothing"),
    "floods": ("while True: print('x' * 1000)", "printed more than 1048576 bytes"),
    "others": ("print(json.dumps({'tools': [{'name': 'a'}, {'name': 'b'}]}))", "only 'a', 'b'"),
    "hangs": ("time.sleep(1000)", "did not end within 0.5 s"),
}


class Binary:
    """A program with a description in its own folder, and its description requests."""

    def __init__(self, folder: Path, plays: str = TWO) -> None:
        folder.mkdir()
        self.path = folder / "tool"
        self.path.write_text(PROGRAM)
        self.path.chmod(0o755)
        self.log = folder / "asked"
        self.plays(plays)

    def plays(self, script: str) -> None:
        (self.path.parent / "plays").write_text(script)

    def goes(self) -> None:
        """Release a program that `WAITS`."""
        (self.path.parent / "go").touch()

    def asked(self, action: str = "schema") -> list[list[str]]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [one for one in map(json.loads, lines) if one[0] == action]

    def defined(self, name: str, more: str = "") -> str:
        command = f"{self.path} {{{{context}}}}"
        return (
            f'[tools.{name}]\nsource = "local"\noutput = "outcome"\ncommand = "{command}"\n{more}\n'
        )


@pytest.fixture
def serve(
    make_daemon: Callable[..., RunningDaemon],
) -> Iterator[Callable[[str], tuple[RunningDaemon, Wire]]]:
    """Start a daemon with these definitions, and a connection."""
    with ExitStack() as stack:

        def start(text: str) -> tuple[RunningDaemon, Wire]:
            daemon = make_daemon()
            daemon.tools(text)
            daemon.start()
            return daemon, stack.enter_context(daemon.connect())

        yield start


Serve = Callable[[str], tuple[RunningDaemon, Wire]]


def listed(wire: Wire, **params: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """The tools and the problems of the list, by name."""
    result = wire.call("tools/list", **params)
    tools = {tool["name"]: tool for tool in result["tools"]}
    problems = {one["key"].split(".")[-1]: one["message"] for one in result.get("problems", ())}
    return tools, problems


def test_a_binary_with_several_tools_is_listed_described_and_called(
    serve: Serve, tmp_path: Path
) -> None:
    """The minimal registration, an override of its texts, and a second name for a tool."""
    binary = Binary(tmp_path / "b")
    over = 'summary = "Mine."\n[tools.test.parameters.times]\ndefault = 7'
    again = binary.defined("again").replace('"local"', '"local.check"')
    _, wire = serve(binary.defined("check") + again + binary.defined("test", over))
    assert binary.asked() == []
    tools, problems = listed(wire)
    assert problems == {}
    assert tools["check"]["description"] == "Check."
    assert tools["check"]["parameters"] == {
        "type": "object",
        "properties": {"package": {"type": "string", "description": "Package to check."}},
        "required": ["package"],
        "additionalProperties": False,
    }
    assert tools["test"]["description"] == "Mine."
    assert tools["test"]["parameters"]["properties"]["times"]["default"] == 7
    assert {name for _, name, _ in binary.asked()} == {"check", "test"}
    (check,) = wire.call("tools/describe", tools=["check"])["tools"]
    assert (check["summary"], check["description"]) == ("Check.", "At length.")
    result = wire.call("tools/call", tool="again", arguments={"package": "p"})["result"]
    assert json.loads(result)["arguments"] == {"package": "p"} and '"name": "check"' in result
    assert '"times": 7' in wire.call("tools/call", tool="test", arguments={})["result"]
    with pytest.raises(Refused, match="package: it is required") as caught:
        wire.call("tools/call", tool="check", arguments={"packag": "p"})
    assert caught.value.code == -32005
    tools, _ = listed(wire, provider="openai")
    assert tools["check"]["parameters"]["properties"]["package"]["type"] == "string"
    assert len(binary.asked()) == 3  # once for each definition


def test_concurrent_needs_share_one_description(serve: Serve, tmp_path: Path) -> None:
    """Twenty at once, of which some leave. From then on nothing is awaited."""
    binaries = {name: Binary(tmp_path / name, WAITS) for name in ("described", "called", "spawned")}
    daemon, wire = serve(
        "".join(
            binary.defined(name).replace('"local"', '"local.check"')
            for name, binary in binaries.items()
        )
    )
    package = {"package": "p"}
    asks: dict[str, Callable[[Wire, int], int]] = {
        "described": lambda one, at: one.start("tools/describe", tools=["described"]),
        "called": lambda one, at: one.start("tools/call", tool="called", arguments=package),
        "spawned": lambda one, at: one.start(
            "spawn", tool="spawned", id=f"h{at}", args=package, wait="none"
        ),
    }
    for name, ask in asks.items():
        with ExitStack() as stack:
            wires = [
                stack.enter_context(daemon.connect())
                for _ in range(20 if name == "described" else 6)
            ]
            numbers = [ask(one, at) for at, one in enumerate(wires)]
            until(binaries[name].log.exists, "it is asked")
            wires[0].close()
            cancel = {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": numbers[1]}}
            wires[1].send(cancel)
            assert wires[1].receive()["error"]["code"] == -32800
            binaries[name].goes()
            for one, number in zip(wires[2:], numbers[2:], strict=True):
                one.finish(number)
    assert binaries.keys() <= listed(wire)[0].keys()
    assert [len(binary.asked()) for binary in binaries.values()] == [1, 1, 1]
    # The id is taken before the next request is read.
    wire.start("spawn", tool="spawned", id="quick", args=package, wait="none")
    assert wire.call("fetch", id="quick", wait="stopped")["state"] == "stopped"


def test_a_batch_waits_for_a_description_before_its_ids_are_taken(
    serve: Serve, tmp_path: Path
) -> None:
    binary = Binary(tmp_path / "b", WAITS)
    _, wire = serve(binary.defined("check", "stateful = true") + binary.defined("test"))
    call = {"action": "spawn", "package": "p"}
    batch = [
        ("await", {"all": ["a", "b"]}),
        ("tools/call", {"tool": "check", "arguments": {**call, "id": "a"}}),
        ("spawn", {"tool": "check", "id": "b", "args": {"package": "p"}}),
        ("spawn", {"tool": "check", "id": "c", "args": {"package": "p"}}),
        ("tools/call", {"tool": "test", "arguments": {}}),
        ("no/method", {}),
    ]

    wire.send(
        [
            {"jsonrpc": "2.0", "id": f"n{at}", "method": method, "params": params}
            for at, (method, params) in enumerate(batch)
        ]
    )
    wire.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": "n3"}})
    assert wire.call("ping") == {"pong": True}  # The batch delays no other call.
    binary.goes()
    replies = wire.receive()
    assert [reply["id"] for reply in replies] == [f"n{at}" for at in range(len(batch))]
    assert replies[0]["result"]["completed"][1]["id"] == "b"
    assert replies[3]["error"]["code"] == -32800
    assert replies[4]["result"]["state"] == "stopped"
    assert replies[5]["error"]["code"] == -32601
    with pytest.raises(Refused, match="no handle 'c'"):
        wire.call("fetch", id="c")
    assert sorted(name for _, name, _ in binary.asked()) == ["check", "test"]


def test_a_failed_description_is_named_and_all_else_works(serve: Serve, tmp_path: Path) -> None:
    able = Binary(tmp_path / "able")
    unable = {how: Binary(tmp_path / how, script) for how, (script, _) in UNABLE.items()}
    hangs = "limits.wall_s = 0.5"
    daemon, wire = serve(
        able.defined("check")
        + '[tools.gone]\noutput = "outcome"\ncommand = "/not/there"\n'
        + "".join(one.defined(how, hangs if how == "hangs" else "") for how, one in unable.items())
    )
    tools, problems = listed(wire)
    assert "check" in tools and "run" in tools
    assert problems.keys() == {*UNABLE, "gone"} and "could not be started" in problems["gone"]
    file = daemon.config / "haft" / "tools" / "test.toml"
    lines = file.read_text().splitlines()
    for how, (_, why) in UNABLE.items():
        line = lines.index(f"[tools.{how}]") + 1
        for words in (why, f"{file}:{line},", "add `parameters`", 'action = "schema"'):
            assert words in problems[how], how
    named = {problem["key"] for problem in wire.call("daemon/status")["problems"]}
    assert {f"tools.{how}" for how in UNABLE} <= named
    for method, params in (
        ("tools/call", {"tool": "exits", "arguments": {"a": 1}}),
        ("spawn", {"tool": "exits", "id": "p"}),
        ("tools/describe", {"tools": ["check", "exits"]}),
    ):
        with pytest.raises(Refused, match=r"exit code 3 .*add `parameters`") as caught:
            wire.call(method, **params)
        assert caught.value.code == -32012 and caught.value.data["kind"] == "spawn_failed"
    assert wire.call("tools/call", tool="check", arguments={"package": "p"})["result"]
    # Not asked again before a reload, which finds the corrected program.
    assert len(unable["exits"].asked()) == 1
    unable["exits"].plays(TWO.replace('"check"', '"exits"'))
    wire.call("tools/reload")
    assert "exits" in listed(wire)[0]
    assert len(unable["exits"].asked()) == 2
    assert not running(str(tmp_path))


def test_an_optional_description_is_requested_only_when_needed(
    serve: Serve, tmp_path: Path
) -> None:
    """Not for a call without arguments; without an answer the definition stands."""
    able, unable = Binary(tmp_path / "able"), Binary(tmp_path / "unable", "pass")
    ours = '[tools.{}]\noutput = "outcome"\ncommand = "{}"\n'
    _, wire = serve(ours.format("check", able.path) + ours.format("plain", unable.path))
    assert wire.call("tools/call", tool="plain", arguments={})["result"]
    assert wire.call("spawn", tool="plain", id="a", args={}, wait="stopped")["state"] == "stopped"
    assert unable.asked() == []
    tools, problems = listed(wire)
    assert list(tools["check"]["parameters"]["properties"]) == ["package"]
    assert tools["plain"]["parameters"]["properties"] == {}
    assert list(problems) == ["plain"] and "printed nothing" in problems["plain"]
    with pytest.raises(
        Refused, match=r"takes no arguments.*printed nothing.*add `parameters`"
    ) as no:
        wire.call("tools/call", tool="plain", arguments={"a": 1})
    assert no.value.code == -32005
    with pytest.raises(Refused, match="package"):
        wire.call("tools/call", tool="check", arguments={})
    assert wire.call("tools/describe", tools=["plain"])["tools"][0]["parameters"] == []
    assert wire.call("tools/call", tool="plain", arguments={})["result"]
    assert [len(one.asked()) for one in (able, unable)] == [1, 1]


def running(text: str) -> list[int]:
    """The processes that have this in their command."""
    found = []
    for pid in every_pid():
        try:
            if text.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
        except OSError:
            continue
    return found


def test_a_reload_and_a_changed_program_are_described_again(serve: Serve, tmp_path: Path) -> None:
    binary = Binary(tmp_path / "b")
    _, wire = serve(binary.defined("check"))
    assert "check" in listed(wire)[0] and "check" in listed(wire)[0]
    assert len(binary.asked()) == 1
    assert wire.call("tools/reload")["tools"] == len(listed(wire)[0])
    assert len(binary.asked()) == 2
    binary.plays(TWO.replace("Check.", "Other."))
    os.utime(binary.path, ns=(1, 1))
    assert listed(wire)[0]["check"]["description"].startswith("Other.")
    assert wire.call("tools/call", tool="check", arguments={"package": "p"})["result"]
    assert len(binary.asked()) == 3


def test_a_hanging_program_is_asked_once_until_its_file_changes(
    serve: Serve, tmp_path: Path
) -> None:
    """Not by a second list, in another root, or by a call."""
    binary = Binary(tmp_path / "b", "time.sleep(1000)")
    _, wire = serve(binary.defined("check", "limits.wall_s = 0.5"))
    for root in ({}, {}, {"root": str(tmp_path)}):
        assert "did not end within 0.5 s" in listed(wire, **root)[1]["check"]
        with pytest.raises(Refused, match="did not end within"):
            wire.call("tools/call", tool="check", arguments={"package": "p"}, **root)
    assert len(binary.asked()) == 1
    binary.plays(TWO)
    os.utime(binary.path, ns=(1, 1))
    assert "check" in listed(wire)[0]
    assert len(binary.asked()) == 2


@pytest.mark.parametrize("command", ["{}/later/tool", "./later/tool"])
def test_a_missing_program_is_described_once_it_exists(
    serve: Serve, tmp_path: Path, command: str
) -> None:
    root = str(tmp_path)
    _, wire = serve(f'[tools.check]\ncommand = "{command.format(root)} {{{{context}}}}"\n')
    assert "could not be started" in listed(wire, root=root)[1]["check"]
    binary = Binary(tmp_path / "later")
    assert "check" in listed(wire, root=root)[0]
    assert len(binary.asked()) == 1


def test_a_program_that_appears_earlier_on_path_is_described(
    make_daemon: Callable[..., RunningDaemon], tmp_path: Path
) -> None:
    first, last = tmp_path / "first", tmp_path / "last"
    daemon = make_daemon(env={"PATH": f"{first}:{os.environ['PATH']}:{last}"})
    daemon.tools('[tools.check]\ncommand = "tool-of-two {{context}}"\n')

    def install(folder: Path, plays: str) -> None:
        Binary(folder, plays).path.rename(folder / "tool-of-two")

    with daemon.start().connect() as wire:
        assert "could not be started" in listed(wire)[1]["check"]
        install(last, TWO)
        assert listed(wire)[0]["check"]["description"].startswith("Check.")
        install(first, TWO.replace("Check.", "Other."))
        assert listed(wire)[0]["check"]["description"].startswith("Other.")


def test_a_program_is_described_in_the_requesting_root(serve: Serve, tmp_path: Path) -> None:
    binary = Binary(tmp_path / "b")
    relative = binary.defined("check").replace(str(binary.path), "./tool")
    _, wire = serve(relative)
    assert "check" not in listed(wire)[0]
    root = str(binary.path.parent)
    assert "check" in listed(wire, root=root)[0]
    assert binary.asked() == [["schema", "check", root]]


def test_a_handle_is_served_whatever_becomes_of_its_program(serve: Serve, tmp_path: Path) -> None:
    binary = Binary(tmp_path / "b")
    _, wire = serve(binary.defined("check", "stateful = true"))
    arguments = {"action": "spawn", "id": "a", "package": "p"}
    assert wire.call("tools/call", tool="check", arguments=arguments)["id"] == "a"
    binary.plays("sys.exit(3)")
    wire.call("tools/reload")
    fetch = {"action": "fetch", "id": "a", "wait": "stopped"}
    assert wire.call("tools/call", tool="check", arguments=fetch)["state"] == "stopped"
    assert len(binary.asked()) == 1


def test_no_program_without_self_description_is_run(serve: Serve, tmp_path: Path) -> None:
    """Not to list or describe tools, nor to explain an invalid call."""
    mark = tmp_path / "ran"
    touch = ["touch", str(mark)]
    definitions = {
        "plain": f"command = {json.dumps(touch)}",
        "local": f'source = "local"\ncommand = {json.dumps(touch)}',
        "text": f'command = "touch {mark}"',
        "word": f"command = {json.dumps([*touch, '{{ tool.name }}'])}",
        "raw": f'source = "local"\noutput = "raw"\ncommand = {json.dumps(touch)}',
        "script": f'source = "local"\ncommand = {{ program = "touch {mark}", shell = true }}',
        "onterminal": f'source = "local"\nruntime = "pty"\ncommand = {json.dumps(touch)}',
        "none": f'source = "local"\nparameters = {{}}\ncommand = {json.dumps(touch)}',
        "off": f'source = "local"\nenable = false\ncommand = {json.dumps(touch)}',
    }
    _, wire = serve("".join(f"[tools.{name}]\n{text}\n" for name, text in definitions.items()))
    tools, problems = listed(wire)
    assert problems == {} and definitions.keys() - tools.keys() == {"off"}
    wire.call("tools/describe", tools=["plain", "raw"])
    for name in ("plain", "text", "script"):
        with pytest.raises(Refused) as caught:
            wire.call("tools/call", tool=name, arguments={"name": "x"})
        assert caught.value.code == -32005
        assert "takes no" in caught.value.message and "parameters" in caught.value.message
    assert not mark.exists()
    wire.call("tools/call", tool="plain", arguments={})
    assert mark.exists()


def test_a_hanging_description_does_not_delay_a_stop(serve: Serve, tmp_path: Path) -> None:
    binary = Binary(tmp_path / "b", "time.sleep(1000)")
    daemon, wire = serve(binary.defined("check"))
    number = wire.start("tools/list")
    until(lambda: len(binary.asked()) == 1, "it is asked")
    assert daemon.stop() == 0
    (problem,) = wire.finish(number)["problems"]
    assert "haftd is shutting down" in problem["message"]


def test_after_a_crash_a_describing_program_is_ended(serve: Serve, tmp_path: Path) -> None:
    binary = Binary(
        tmp_path / "b", "open(here + '/pid', 'w').write(str(os.getpid())); time.sleep(1000)"
    )
    daemon, wire = serve(binary.defined("check"))
    wire.start("tools/list")
    pid = binary.path.parent / "pid"
    until(lambda: pid.exists() and pid.read_text() != "", "it is asked")
    daemon.kill9()
    daemon.start()
    until(lambda: not is_running(int(pid.read_text())), "the next daemon has ended it")


def test_a_roots_program_is_described_once_trusted(serve: Serve, tmp_path: Path) -> None:
    """The trust prompt announces the description."""
    binary = Binary(tmp_path / "b")
    root = str(binary.path.parent)
    folder = Path(root) / ".haft" / "tools"
    folder.mkdir(parents=True)
    (folder / "a.toml").write_text(binary.defined("check") + "[tools.plain]\ncommand = 'true'\n")
    _, wire = serve("")
    assert "check" not in listed(wire, root=root)[0]
    shown = wire.call("trust/show", root=root)
    tools = {tool["name"]: tool for tool in shown["files"][0]["tools"]}
    assert tools["check"]["describes_itself"] and "describes_itself" not in tools["plain"]
    assert binary.asked() == []
    wire.call("trust/grant", root=root, digest=shown["digest"])
    tools, problems = listed(wire, root=root)
    assert problems == {} and tools["check"]["description"].startswith("Check.")
    result = wire.call("tools/call", tool="check", arguments={"package": "p"}, root=root)["result"]
    assert json.loads(result)["arguments"] == {"package": "p"}
    assert "check" not in listed(wire)[0]
    assert binary.asked() == [["schema", "check", root]]


def test_a_model_reads_tool_descriptions_by_a_call(serve: Serve, tmp_path: Path) -> None:
    """Also of a program not described yet; a missing tool is named, and fails a call for no other."""
    binary = Binary(tmp_path / "b")
    _, wire = serve(binary.defined("check", 'examples = "check all"'))

    def read(*names: str) -> dict[str, Any]:
        said: dict[str, Any] = wire.call(
            "tools/call", tool="describe_tools", arguments={"tools": list(names)}
        )
        return said

    result = read("check", "run")["result"]
    assert result.startswith("# check\n\nCheck.\n\nAt length.")
    assert "- `package` (string, required): Package to check." in result and "check all" in result
    assert "# run\n" in result and "`action` (spawn, fetch, apply, abort)" in result
    assert len(binary.asked()) == 1
    result = read("await")["result"]
    assert "- `all` (" in result and "- `any` (" in result
    assert wire.call("tools/describe", tools=["await"])["tools"][0]["name"] == "await"
    assert "There is no tool 'nothing'" in read("check", "nothing")["result"]
    failed = read("nothing")
    assert "nothing" in failed["error"]["message"] and "result" not in failed
