from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from haftd.host.process.identity import every_pid, read_environ
from tests.mcpserver import SERVER, server
from tests.patience import PATIENCE_S
from tests.processes import is_running
from tests.running_daemon import RunningDaemon
from tests.wire import Refused

Make = Callable[..., RunningDaemon]
ERAS = ("modern", "legacy")


def until(fact: Callable[[], Any]) -> Any:
    """Poll for a fact, and return the fact."""
    end = time.monotonic() + PATIENCE_S
    while not (found := fact()):
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)
    return found


class Bench:
    """A daemon with servers, and a connection."""

    def __init__(self, daemon: RunningDaemon, notes: Path) -> None:
        self.daemon = daemon
        self.notes = notes
        self.wire = daemon.connect()

    def call(self, tool: str, **arguments: Any) -> Any:
        return self.wire.call("tools/call", tool=tool, arguments=arguments)

    def result(self, tool: str, **arguments: Any) -> str:
        state = self.call(tool, **arguments)
        assert "error" not in state, state
        return str(state["result"])

    def error(self, tool: str, **arguments: Any) -> str:
        state = self.call(tool, **arguments)
        assert state["state"] == "stopped"
        return str(state["error"]["message"])

    def answer(self, value: Any) -> None:
        """Answer the only open question."""
        (inquiry,) = self.wire.call("inquiries/list")["inquiries"]
        self.wire.call("inquiries/answer", inquiry_id=inquiry["inquiry_id"], answer=value)

    def printed(self, id: str) -> str:
        """Return a handle's output, which is the progress."""
        state = self.wire.call("fetch", id=id, view="raw", cursor=0)
        return base64.b64decode(state["content"]).decode()

    def noted(self) -> list[str]:
        return self.notes.read_text().splitlines() if self.notes.exists() else []

    def started(self) -> list[int]:
        """The pids of all server processes that were started."""
        return [int(line.split()[1]) for line in self.noted() if line.startswith("started ")]

    def names(self) -> list[str]:
        return [tool["name"] for tool in self.wire.call("tools/list")["tools"]]

    def problems(self) -> list[str]:
        return [rig["message"] for rig in self.wire.call("tools/list").get("problems", [])]


class Start:
    """Starts benches with a server `small` with these flags, or with a whole configuration."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._notes = folder / "notes"
        self._stack = stack

    def __call__(
        self, *flags: str, config: str = "", tools: str = "", more: str = "", **env: str
    ) -> Bench:
        table = {"NOTES": str(self._notes), **env}
        daemon = self._daemon(config or server("small", *flags, more=more, env=table), tools)
        rig = Bench(daemon, self._notes)
        self._stack.enter_context(rig.wire)
        session = f"{self._notes.parent.name}-{next(_numbers)}"
        rig.wire.call("initialize", client={"name": "bench"}, protocol=1, session=session)
        self._stack.callback(self._end, rig)
        return rig

    def _daemon(self, config: str, tools: str) -> RunningDaemon:
        raise NotImplementedError

    def _end(self, rig: Bench) -> None:
        raise NotImplementedError


class OwnDaemon(Start):
    """Each bench has a daemon of its own, which starts with the configuration."""

    def __init__(self, folder: Path, stack: ExitStack, make_daemon: Make) -> None:
        super().__init__(folder, stack)
        self._make_daemon = make_daemon

    def _daemon(self, config: str, tools: str) -> RunningDaemon:
        daemon = self._make_daemon(config)
        daemon.tools(tools)
        return daemon.start()

    def _end(self, rig: Bench) -> None:
        """The fixture ends the daemon."""


class SharedDaemon(Start):
    """A bench is a session of a daemon, which reloads the configuration; one is in use at a time."""

    def __init__(self, folder: Path, stack: ExitStack, daemon: RunningDaemon) -> None:
        super().__init__(folder, stack)
        self._shared = daemon

    def _daemon(self, config: str, tools: str) -> RunningDaemon:
        (self._shared.config / "haft" / "config.toml").write_text(config)
        self._shared.tools(tools)
        with self._shared.connect() as wire:
            wire.call("daemon/reload")
        return self._shared

    def _end(self, rig: Bench) -> None:
        rig.wire.call("session/close")


_numbers = itertools.count()


@pytest.fixture
def bench(shared_daemon: RunningDaemon, short_tmp: Path) -> Iterator[SharedDaemon]:
    with ExitStack() as stack:
        yield SharedDaemon(short_tmp, stack, shared_daemon)


@pytest.fixture
def own_bench(make_daemon: Make, short_tmp: Path) -> Iterator[OwnDaemon]:
    with ExitStack() as stack:
        yield OwnDaemon(short_tmp, stack, make_daemon)


@pytest.fixture(scope="module", params=ERAS)
def _kept(request: pytest.FixtureRequest) -> Iterator[RunningDaemon]:
    folder = Path(tempfile.mkdtemp(prefix="haft-"))
    daemon = RunningDaemon(folder, config=server("small", request.param))
    yield daemon.start()
    daemon.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def shared(
    _kept: RunningDaemon, short_tmp: Path, request: pytest.FixtureRequest
) -> Iterator[Bench]:
    """A session of a daemon with the small server, in each era, for tests that leave both as they
    are."""
    rig = Bench(_kept, short_tmp / "notes")
    with rig.wire:
        session = request.node.name.partition("[")[0]
        rig.wire.call("initialize", client={"name": "shared"}, protocol=1, session=session)
        yield rig
        rig.wire.call("session/close")


@pytest.fixture(params=ERAS)
def small(bench: Start, request: pytest.FixtureRequest) -> Bench:
    """A small server of the test's own, in each era."""
    return bench(request.param)


def test_a_servers_tools_are_listed_and_called(small: Bench) -> None:
    assert small.noted() == []
    listed = {tool["name"]: tool for tool in small.wire.call("tools/list")["tools"]}
    echo = listed["small_echo"]
    assert echo["description"] == "The tool echo."
    assert echo["parameters"]["required"] == ["text"]
    assert (echo["source"], echo["runtime"]) == ("mcp.small.echo", "mcp")
    assert json.loads(small.result("small_echo", text="hé")) == {"text": "hé"}
    assert small.result("small_structured") == '{"n": 1}'
    assert small.error("small_fail") == "no luck"
    assert "it broke" in small.error("small_fault")
    assert len(small.started()) == 1


def test_a_spawn_gives_a_handle_with_the_result(shared: Bench) -> None:
    state = shared.wire.call("spawn", tool="small_count", id="c", wait="stopped")
    assert state["result"] == "counted"
    assert shared.printed("c") == "one\n2 of 3\nthree\n"


def test_a_spawn_starts_the_server_when_nothing_was_listed_before(small: Bench) -> None:
    state = small.wire.call("spawn", tool="small_echo", id="e", args={"text": "x"}, wait="stopped")
    assert json.loads(state["result"]) == {"text": "x"}


def test_an_invalid_argument_is_refused_before_the_server_sees_it(shared: Bench) -> None:
    with pytest.raises(Refused) as refused:
        shared.call("small_echo", txt=1)
    assert refused.value.code == -32005
    # A JSON text is converted, as for every tool.
    assert json.loads(shared.result("small_echo", text="a", times="3"))["times"] == 3


def test_all_sessions_share_one_process(small: Bench) -> None:
    pids = set()
    for number in range(4):
        with small.daemon.connect() as wire:
            for _ in range(5):
                state = wire.call(
                    "tools/call", tool="small_pid", arguments={}, session=f"s{number}"
                )
                pids.add(state["result"])
    assert len(pids) == 1
    assert len(small.started()) == 1


def test_a_server_that_dies_in_a_call_fails_the_call_and_the_next_gets_a_new_one(
    small: Bench,
) -> None:
    state = small.call("small_die")
    assert state["error"]["message"] == (
        "The MCP server `small` exited with status 3 during the call. Its standard error ended with: last words"
    )
    assert state["error"]["trace"] == ["first", "last words"]
    assert [notice["kind"] for notice in state["notifications"]] == ["mcp.disconnected"]
    assert state["elapsed_ms"] < 1000
    assert json.loads(small.result("small_echo", text="again"))["text"] == "again"
    assert "was killed by SIGKILL during the call" in small.error("small_kill")
    first, second, third = (small.result("small_pid") for _ in range(3))
    assert first == second == third
    assert len(small.started()) == 3


def test_a_server_that_closes_its_output_is_ended(small: Bench) -> None:
    assert "closed its standard output during the call" in small.error("small_mute")
    assert json.loads(small.result("small_echo", text="again"))["text"] == "again"


@pytest.mark.parametrize("tool", ["small_sleep", "small_late"])
def test_an_abort_cancels_the_call_and_leaves_the_server(small: Bench, tool: str) -> None:
    small.wire.call("spawn", tool=tool, id="a")
    until(lambda: "sleeping" in small.noted())
    state = small.wire.call("abort", id="a")
    assert (state["state"], state["ended_by"]["by"]) == ("stopped", "abort")
    until(lambda: "cancelled" in small.noted())
    assert int(small.result("small_pid")) in small.started()
    assert len(small.started()) == 1


def test_a_cancelled_request_cancels_the_call(small: Bench) -> None:
    number = small.wire.start("tools/call", tool="small_sleep", arguments={})
    until(lambda: "sleeping" in small.noted())
    small.wire.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": number}})
    until(lambda: "cancelled" in small.noted())
    with pytest.raises(Refused):
        small.wire.finish(number)


def test_a_form_is_asked_property_by_property(shared: Bench) -> None:
    shared.wire.call("spawn", tool="small_ask", id="a")
    question = until(lambda: _question(shared, "a", "Tell me."))
    assert question["id"] == "name" and "at least 2 characters" in question["text"]
    shared.answer("A")
    again = until(lambda: _question(shared, "a", "The previous answer was not valid"))
    assert again["id"] == "name"
    shared.answer("Ada")
    until(lambda: _question(shared, "a", "Sure"))
    shared.answer(True)
    state = shared.wire.call("fetch", id="a", wait="stopped")
    answer = {"action": "accept", "content": {"name": "Ada", "sure": True}}
    assert json.loads(state["result"]) == answer


def _question(bench: Bench, id: str, text: str) -> Any:
    state = bench.wire.call("fetch", id=id)
    question = state.get("question")
    return question if question is not None and text in question["text"] else None


def test_a_form_of_choices_is_one_question(shared: Bench) -> None:
    shared.wire.call("spawn", tool="small_choose", id="a")
    question = until(lambda: _question(shared, "a", "Choose."))
    assert question["answer_type"]["type"] == "form"
    shared.answer({"size": "large", "sure": False})
    state = shared.wire.call("fetch", id="a", wait="stopped")
    assert json.loads(state["result"])["content"] == {"size": "l", "sure": False}


def test_a_url_goes_to_a_user_and_is_shown_with_its_host(shared: Bench) -> None:
    shared.wire.call("spawn", tool="small_ask_url", id="a")
    (inquiry,) = until(lambda: shared.wire.call("inquiries/list")["inquiries"])
    assert inquiry["target"] == "user"
    text = inquiry["question"]["text"]
    assert (
        "Log in." in text and "at example.org" in text and "https://example.org/login?x=1" in text
    )
    shared.wire.call("inquiries/answer", inquiry_id=inquiry["inquiry_id"], answer=True)
    state = shared.wire.call("fetch", id="a", wait="stopped")
    assert json.loads(state["result"]) == {"action": "accept"}


def test_a_secret_goes_to_a_user_and_into_no_output(shared: Bench) -> None:
    shared.wire.call("spawn", tool="small_ask_secret", id="a")
    (inquiry,) = until(lambda: shared.wire.call("inquiries/list")["inquiries"])
    assert (inquiry["target"], inquiry["question"]["answer_type"]) == ("user", {"type": "secret"})
    shared.wire.call("inquiries/answer", inquiry_id=inquiry["inquiry_id"], answer="hunter22")
    assert shared.wire.call("fetch", id="a", wait="stopped")["result"] == "accept 8"
    assert "hunter22" not in shared.daemon.log_text()


def test_a_definition_answers_a_servers_question(bench: Start) -> None:
    tools = """
        [tools.asks]
        source = "mcp.small.ask"
        summary = "Ask nobody."
        questions.name.answer = "Ada"
        questions.sure.answer = true
    """
    server = bench(tools=tools)
    assert json.loads(server.result("asks"))["content"] == {"name": "Ada", "sure": True}
    assert "small_ask" not in server.names()


def test_a_definition_overrides_the_servers_tool(bench: Start) -> None:
    tools = """
        [tools.say]
        source = "mcp.small.echo"
        summary = "Say it."
        stateful = true
        [tools.say.parameters.times]
        summary = "How often."
        default = 2
        [tools.gone]
        source = "mcp.small.nothing"
        [tools.nowhere]
        source = "mcp.other.x"
        [tools.small_echo]
        command = ["echo", "mine"]
    """
    server = bench(tools=tools)
    listed = {tool["name"]: tool for tool in server.wire.call("tools/list")["tools"]}
    assert listed["say"]["description"] == "Say it."
    state = server.call("say", action="spawn", id="s", text="x", wait="stopped")
    assert json.loads(state["result"]) == {"text": "x", "times": 2}
    described = server.wire.call("tools/describe", tools=["say"])["tools"][0]
    assert described["description"] == "The tool echo."
    assert server.result("small_echo").strip() == "mine"
    with pytest.raises(Refused) as refused:
        server.call("gone")
    assert "has no tool 'nothing'; its tools are 'echo'" in refused.value.message
    with pytest.raises(Refused) as refused:
        server.call("nowhere")
    assert (refused.value.code, "[mcp.other]" in refused.value.message) == (-32014, True)
    assert any("nothing" in text for text in server.problems())


def test_the_defaults_for_all_tools_apply_to_server_tools(bench: Start) -> None:
    server = bench(tools="[tools.'*']\nrun = 'skip'")
    assert "was skipped" in server.result("small_pid")
    assert server.noted() == [f"started {server.started()[0]}"]


def test_only_the_named_tools_are_offered(bench: Start) -> None:
    server = bench(more='tools = ["echo"]', tools='[tools.pid]\nsource = "mcp.small"')
    assert [name for name in server.names() if "small" in name or name == "pid"] == [
        "pid",
        "small_echo",
    ]
    assert int(server.result("pid")) in server.started()


def test_sampling_is_refused_with_the_reason(bench: Start) -> None:
    server = bench("legacy")
    assert "does not offer sampling" in server.result("small_sample")
    assert "neither sampling nor roots" in bench("modern").error("small_sample")


def test_non_text_content_is_kept_in_a_file_beside_the_text(shared: Bench) -> None:
    state = shared.wire.call("spawn", tool="small_picture", id="p", wait="stopped")
    text, line = state["result"].split("\n")
    assert text == "Look:"
    path = Path(line.removeprefix("[image/png, 15 bytes: ").removesuffix("]"))
    assert path.suffix == ".png" and path.read_bytes() == b"\x89PNG not really"
    assert path.stat().st_mode & 0o777 == 0o600
    shared.wire.call("session/close")
    until(lambda: not path.exists())
    result = shared.result("small_link")
    assert result == (
        "[resource x (text/plain): file:///x]\n[resource note://1]\na note\n"
        "[a block of the type 'hologram', which haft does not know]"
    )


def test_a_changed_list_is_notified_once(small: Bench) -> None:
    small.names()
    small.call("small_pid", session="other")
    notices = small.call("small_change")[
        "notifications"
    ]  # if the list was read before the call ended
    until(lambda: "small_extra" in small.names())
    notices += small.wire.call("notifications/drain")["notifications"]
    assert [notice["kind"] for notice in notices] == ["mcp.tools_changed"]
    assert small.result("small_pid")


def test_a_task_is_followed_to_its_end(bench: Start) -> None:
    server = bench("modern")
    server.wire.call("spawn", tool="small_task", id="t")
    until(lambda: _question(server, "t", "Tell me."))
    server.answer("Ada")
    until(lambda: _question(server, "t", "Sure"))
    server.answer(True)
    state = server.wire.call("fetch", id="t", wait="stopped")
    assert state["result"] == "the task is done"
    assert server.printed("t") == "at work\n"
    assert any('"Ada"' in line for line in server.noted())


def test_an_aborted_task_is_cancelled_at_the_server(bench: Start) -> None:
    server = bench("modern")
    server.wire.call("spawn", tool="small_task", id="t")
    until(lambda: _question(server, "t", "Tell me."))
    server.wire.call("abort", id="t")
    until(lambda: "task cancelled" in server.noted())


@pytest.mark.parametrize("flag", ["banner", "glued", "latin", "noisy", "pages", "touchy"])
def test_a_nonconforming_server_is_understood(bench: Start, flag: str) -> None:
    server = bench(flag)
    for number in range(5):
        assert json.loads(server.result("small_echo", text=str(number))) == {"text": str(number)}
    assert server.result("small_twice") == "first"
    # The other servers disturb no line of a reply.
    length = 10 << 20 if flag in ("glued", "noisy") else 200_000
    assert len(server.call("small_big", length=length)["result"]) > 100_000
    assert len(server.started()) == (2 if flag == "touchy" else 1)


def test_a_silent_server_is_ended_after_its_timeout_and_retried_later(
    bench: Start,
) -> None:
    server = bench("silent", more="startup_s = 0.5\nera = 'legacy'")
    assert any("was not ready within 0.5 s" in text for text in server.problems())
    until(lambda: server.started() and not any(map(is_running, server.started())))
    with pytest.raises(Refused) as refused:
        server.call("small_echo", text="x")
    assert (refused.value.code, "may be a tool of the server `small`" in refused.value.message) == (
        -32003,
        True,
    )
    assert len(server.started()) < 4


def test_a_server_that_cannot_be_started_gives_the_reason(bench: Start) -> None:
    config = '[mcp.none]\ncommand = "no-such-program-here --stdio"\n'
    server = bench(config=config, tools='[tools.x]\nsource = "mcp.none.x"')
    with pytest.raises(Refused) as refused:
        server.call("x")
    assert refused.value.code == -32012
    assert "The MCP server `none` could not be started: " in refused.value.message
    assert "no-such-program-here" in refused.value.message
    assert any("could not be started" in text for text in server.problems())


def test_a_server_that_exits_at_once_is_shown_with_its_stderr(
    bench: Start,
) -> None:
    config = '[mcp.bad]\ncommand = ["sh", "-c", "echo no licence >&2; exit 4"]\n'
    server = bench(config=config)
    problems = server.problems()
    assert any("exited with status 4" in text and "no licence" in text for text in problems), (
        problems
    )


def test_haft_is_no_server_of_itself(bench: Start) -> None:
    server = bench("haft")
    assert any("is haft itself" in text for text in server.problems())
    config = f'[mcp.me]\ncommand = [{json.dumps(sys.executable)}, "-m", "haft", "mcp"]\n'
    problems = bench(config=config).wire.call("daemon/status")["problems"]
    assert [problem["key"] for problem in problems] == ["mcp.me.command"]


def test_tool_names_fit_every_provider_and_route_to_their_server(
    bench: Start,
) -> None:
    long = "n" * 70
    tools = [
        {"name": name, "inputSchema": {"type": "object"}}
        for name in ("search", "a.b/c é", f"{long}1", f"{long}2")
    ]
    first = server("srv one", "legacy", env={"TOOLS": json.dumps(tools)})
    second = server("srv-two", "legacy", env={"TOOLS": json.dumps(tools[:1])})
    rig = bench(config=first + second)
    shown = [tool["name"] for tool in rig.wire.call("tools/list", provider="openai")["tools"]]
    found = [name for name in shown if name.startswith(("srv", "_srv"))]
    assert len(set(found)) == 5
    assert all(len(name) <= 64 for name in found)
    for name in found:
        assert "no such tool" in rig.error(name)


def test_a_server_gets_a_minimal_environment_and_its_configured_variables(
    make_daemon: Make,
) -> None:
    env = {"OPENAI_API_KEY": "s3cr3t-B", "GIVEN_TOKEN": "s3cr3t-C", "PLAIN": "p"}
    config = server("small", more='cwd = "~"\nenv = { GIVEN_TOKEN = true, MINE = "m" }')
    daemon = make_daemon(config, env=env).start()
    with daemon.connect() as wire:
        state = wire.call("tools/call", tool="small_env", arguments={})
    got = json.loads(state["result"])
    assert got["cwd"] == str(daemon.home)
    assert (got["GIVEN_TOKEN"], got["MINE"]) == ("s3cr3t-C", "m")
    assert not {"OPENAI_API_KEY", "PLAIN", "XDG_RUNTIME_DIR"} & got.keys()
    assert "s3cr3t" not in daemon.log_text()


def lives(name: str) -> list[int]:
    """Return the small server's processes with that word in the command."""
    needle = f"\0{name}\0".encode()
    found = []
    for pid in every_pid():
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if os.fsencode(SERVER) in command and needle in command:
            found.append(pid)
    return found


def test_an_unresponsive_server_behind_a_wrapper_is_gone_after_a_reload(
    own_bench: Start,
) -> None:
    word = f"deaf\0{os.getpid()}"
    script = f"exec 3<&0; {sys.executable} -S {SERVER} {' '.join(word.split(chr(0)))} <&3 & wait"
    server = own_bench(
        config=f"[daemon]\nabort_grace_ms = 300\n[mcp.w]\ncommand = {json.dumps(['sh', '-c', script])}\n"
    )
    assert server.result("w_pid")
    assert lives(word)
    (server.daemon.config / "haft" / "config.toml").write_text("")
    server.wire.call("daemon/reload")
    assert "w_pid" not in server.names()
    until(lambda: not lives(word))


def test_no_server_outlives_the_daemon(own_bench: Start) -> None:
    word = f"deaf\0{os.getpid()}9"
    script = f"exec 3<&0; {sys.executable} -S {SERVER} {' '.join(word.split(chr(0)))} <&3 & wait"
    server = own_bench(
        config=f"[daemon]\nabort_grace_ms = 300\n[mcp.w]\ncommand = {json.dumps(['sh', '-c', script])}\n"
    )
    assert server.result("w_pid")
    assert server.daemon.stop() == 0
    assert not lives(word)


def test_a_crash_of_the_daemon_leaves_no_server(own_bench: Start) -> None:
    word = f"deaf\0{os.getpid()}8"
    argv = [sys.executable, "-S", str(SERVER), *word.split("\0")]
    server = own_bench(config=f"[mcp.w]\ncommand = {json.dumps(argv)}\n")
    assert server.result("w_pid")
    server.daemon.kill9()
    server.daemon.start()
    until(lambda: not lives(word))


def test_a_reload_keeps_an_unchanged_server(bench: Start) -> None:
    server = bench()
    pid = server.result("small_pid")
    server.wire.call("daemon/reload")
    assert server.result("small_pid") == pid


def test_a_reload_with_an_unreadable_file_keeps_the_servers(bench: Start) -> None:
    rig = bench()
    pid = rig.result("small_pid")
    config = rig.daemon.config / "haft" / "config.toml"
    text = config.read_text()
    config.write_text(f"{text}[mcp")
    problems = rig.wire.call("daemon/reload")["problems"]
    assert any("its settings are not read" in problem["message"] for problem in problems)
    assert rig.result("small_pid") == pid
    config.write_text(text)
    assert rig.wire.call("daemon/reload")["problems"] == []
    assert rig.result("small_pid") == pid


def test_a_reconfigured_server_lists_its_tools_anew(
    bench: Start,
) -> None:
    rig = bench()
    assert "small_echo" in rig.names()
    other = server("small", env={"TOOLS": json.dumps([{"name": "other", "inputSchema": {}}])})
    (rig.daemon.config / "haft" / "config.toml").write_text(other)
    rig.wire.call("daemon/reload")
    assert [name for name in rig.names() if name.startswith("small")] == ["small_other"]


def test_an_added_eager_server_starts_at_the_reload(bench: Start) -> None:
    rig = bench(config="[daemon]\n")
    added = server("small", more='start = "eager"', env={"NOTES": str(rig.notes)})
    (rig.daemon.config / "haft" / "config.toml").write_text(added)
    rig.wire.call("daemon/reload")
    until(rig.started)


def test_a_running_call_ends_when_its_server_is_removed(
    bench: Start,
) -> None:
    server = bench()
    server.wire.call("spawn", tool="small_sleep", id="a")
    (server.daemon.config / "haft" / "config.toml").write_text("")
    server.wire.call("daemon/reload")
    state = server.wire.call("fetch", id="a", wait="stopped")
    assert "its configuration has changed" in state["error"]["message"]


def test_an_eager_server_starts_with_the_daemon(own_bench: Start) -> None:
    server = own_bench(more='start = "eager"')
    until(server.started)


def test_a_call_without_progress_is_bounded(bench: Start) -> None:
    server = bench(more="call_s = 0.3")
    assert "neither an answer nor progress within 0.3 s" in server.error("small_sleep")
    until(lambda: "cancelled" in server.noted())


def test_a_limit_of_the_definition_bounds_the_call(bench: Start) -> None:
    server = bench(tools='[tools.x]\nsource = "mcp.small.sleep"\nlimits.wall_s = 0.3')
    state = server.call("x")
    assert state["ended_by"]["by"] == "limit"
    until(lambda: "cancelled" in server.noted())


def test_a_servers_process_tag_is_no_handles(shared: Bench) -> None:
    """A server's process may not act for a user."""
    pid = int(shared.result("small_pid"))
    environ = read_environ(pid) or b""
    assert b"HAFT_HANDLE=" in environ


def test_questions_of_two_calls_reach_their_callers(bench: Start) -> None:
    """A legacy server does not name the asking call: an ambiguous question waits for the end of
    the other call."""
    server = bench("legacy")
    server.wire.call("spawn", tool="small_sleep", id="a")
    until(lambda: "sleeping" in server.noted())
    server.wire.call("spawn", tool="small_ask", id="b")
    assert server.wire.call("fetch", id="b")["state"] == "running"
    server.wire.call("abort", id="a")
    until(lambda: _question(server, "b", "Tell me."))
    assert server.wire.call("fetch", id="a")["state"] == "stopped"
