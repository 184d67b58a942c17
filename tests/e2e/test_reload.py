from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.harness import until
from tests.running_daemon import RunningDaemon
from tests.wire import Refused, Wire

MakeDaemon = Callable[..., RunningDaemon]


def definition(name: str, says: str) -> str:
    return (
        f'[tools.{name}]\nsource = "local"\nstateful = true\noutput = "raw"\n'
        f'command = ["echo", "{says}"]\n'
    )


def signalled(daemon: RunningDaemon, wire: Wire) -> None:
    """Send SIGHUP, and wait until the log reports the reload."""
    wire.call("ping")  # from READY on a signal is handled and clients are answered
    before = daemon.log_text().count('"reloaded"')
    os.kill(daemon.pid, signal.SIGHUP)
    until(lambda: daemon.log_text().count('"reloaded"') > before, "it has read everything again")


def called(method: str) -> Callable[[RunningDaemon, Wire], None]:
    def ask(daemon: RunningDaemon, wire: Wire) -> None:
        reply = wire.call(method)
        assert reply["tools"] == len(wire.call("tools/list")["tools"])
        assert reply["problems"] == wire.call("daemon/status")["problems"]

    return ask


ASKING = [
    pytest.param(signalled, id="SIGHUP"),
    pytest.param(called("daemon/reload"), id="daemon/reload"),
    pytest.param(called("tools/reload"), id="tools/reload"),
]


def tools(wire: Wire) -> set[str]:
    return {tool["name"] for tool in wire.call("tools/list")["tools"]}


def says(wire: Wire, tool: str) -> str:
    state = wire.call("spawn", tool=tool, id=tool, wait="stopped", timeout_ms=20_000)
    text: str = state["result"]
    return text.strip()


def problems(wire: Wire) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = wire.call("daemon/status")["problems"]
    return found


@pytest.mark.parametrize("reload", ASKING)
def test_changed_files_are_read_and_invalid_ones_are_problems(
    make_daemon: MakeDaemon, reload: Callable[[RunningDaemon, Wire], None]
) -> None:
    daemon = make_daemon()
    daemon.tools(definition("keeps", "same"), "a.toml")
    daemon.tools(definition("changes", "old") + definition("goes", "away"), "b.toml")
    daemon.start()
    with daemon.connect() as wire:
        packed = tools(wire) - {"keeps", "changes", "goes"}
        assert {"run", "shell"} <= packed and says(wire, "changes") == "old"
        wire.call("spawn", tool="run", id="lives", args={"argv": ["cat"]}, wait="none")

        daemon.tools(definition("changes", "new"), "b.toml")
        daemon.tools(definition("comes", "fresh"), "c.toml")
        assert says(wire, "changes") == "old", "nothing is read unless asked to"
        reload(daemon, wire)
        assert tools(wire) == packed | {"keeps", "changes", "comes"} and problems(wire) == []
        assert says(wire, "changes") == "new" and says(wire, "comes") == "fresh"
        with pytest.raises(Refused, match="-32003"):
            wire.call("spawn", tool="goes", id="x")

        # An unreadable file, and an invalid definition beside a valid one.
        daemon.tools('[tools.broken\nsource = "local"\n', "d.toml")
        bad = '[tools.bad]\nsource = "local"\ncommand = 5\n'
        daemon.tools(bad + definition("comes", "still"), "c.toml")
        reload(daemon, wire)
        assert tools(wire) == packed | {"keeps", "changes", "comes"}
        assert says(wire, "keeps") == "same" and says(wire, "comes") == "still"
        found = {os.path.basename(problem["file"]): problem for problem in problems(wire)}
        assert found.keys() == {"c.toml", "d.toml"} and len(problems(wire)) == 2
        assert found["d.toml"]["line"] == 1 and found["d.toml"]["message"]
        assert "bad" in found["c.toml"]["key"] and "command" in str(found["c.toml"])

        # Once corrected, they are no problems; running handles are unaffected.
        daemon.tools(definition("broken", "mended"), "d.toml")
        daemon.tools("", "c.toml")
        reload(daemon, wire)
        assert tools(wire) == packed | {"keeps", "changes", "broken"} and problems(wire) == []
        reply = wire.call("apply", id="lives", input={"line": "yes"}, wait="pattern", pattern="yes")
        assert reply["content"] == "yes\n" and reply["generation"] == 1


@pytest.mark.parametrize("reload", ASKING)
def test_settings_that_need_a_restart_are_reported(
    make_daemon: MakeDaemon, reload: Callable[[RunningDaemon, Wire], None]
) -> None:
    daemon = make_daemon().start()
    config = daemon.config / "haft" / "config.toml"
    with daemon.connect() as wire:
        config.write_text("[daemon]\nmax_handles = 1\n[toolpack]\nenable = ['run']\n")
        reload(daemon, wire)
        (problem,) = problems(wire)
        assert problem["key"] == "daemon" and "next start" in problem["message"]
        assert problem["level"] == "note"
        assert "haft stop" in problem["advice"], "to reload again would say the same for ever"
        left = {"run", "await", "ask_user", "describe_tools"}
        assert tools(wire) == left, "the toolpack is no such thing"
        config.write_text(
            "[inquiry]\nbackends = ['llm']\n[inquiry.llm]\nprovider = 'openai'\nmodel = 'm'\n"
            "key_file = '/nowhere/key'\n[toolpack]\nenable = ['run']\n"
        )
        reload(daemon, wire)
        messages = {problem["key"]: problem["message"] for problem in problems(wire)}
        assert "/nowhere/key" in messages["inquiry.llm"], "a key that it lacks"
        config.write_text(
            "[inquiry]\nbackends = ['command']\n[inquiry.command]\nargv = ['/bin/nope']\n"
            "[toolpack]\nenable = ['run']\n"
        )
        reload(daemon, wire)
        messages = {problem["key"]: problem["message"] for problem in problems(wire)}
        assert "/bin/nope" in messages["inquiry.command.argv"], "a program that it lacks"
        config.write_text("[daemon\n")
        reload(daemon, wire)
        settings, kept, definitions = problems(wire)
        assert "/bin/nope" in kept["message"] and tools(wire) == left, "all is as before"
        assert settings["file"] == definitions["file"] == str(config)
        assert settings["message"].startswith("its settings are not read: it is not valid TOML")
        assert wire.call("ping") == {"pong": True} and "run" in tools(wire)


ASKS = """
[tools.asks]
source = "local"
stateful = true
output = "outcome"
command = ["sh", "-c", 'case $HAFT_CALL in *\\"q\\":*) echo "$HAFT_CALL" | grep -o \\"q\\":.*;; *) cat "$0"; esac', "QUESTION"]
parameters = {}
"""


def test_a_changed_inquiry_section_answers_questions_after_a_reload(
    make_daemon: MakeDaemon, tmp_path: Path
) -> None:
    """Also an open question that all earlier backends had declined."""
    question = tmp_path / "question"
    question.write_text(
        '{"type": "needs_input", "question": {"id": "q", "text": "?", "answer_type": "Text"}}'
    )
    daemon = make_daemon()
    daemon.tools(ASKS.replace("QUESTION", str(question)))
    daemon.start()
    config = daemon.config / "haft" / "config.toml"
    with daemon.connect() as wire:
        state = wire.call("spawn", tool="asks", id="before", wait="input")
        assert state["state"] == "waiting"
        for answer in ("first", "second"):
            config.write_text(
                f'[inquiry]\nbackends = ["static"]\n[inquiry.static.asks]\nq = "{answer}"\n'
            )
            assert wire.call("daemon/reload")["problems"] == []
            state = wire.call("spawn", tool="asks", id="after", wait="stopped")
            assert answer in state["result"]
        assert "first" in wire.call("fetch", id="before", wait="stopped")["result"]
        config.write_text("")
        wire.call("daemon/reload")
        state = wire.call("spawn", tool="asks", id="again", wait="input")
        assert state["state"] == "waiting"
