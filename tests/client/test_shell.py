"""`haft shell`: a user's own shell in the daemon."""

from __future__ import annotations

import os
import sys
from typing import Any

from tests.client.conftest import Serve
from tests.client.fake import Peer, Refuse
from tests.client.person import DETACH, Person, Place
from tests.running_daemon import RunningDaemon
from tests.wire import Wire

CAREFUL = "[tools.careful]\noutput = 'raw'\ncommand = ['echo', 'done']\nrun = 'ask'\n"


def shell(daemon: RunningDaemon, *arguments: str) -> Person:
    env = {"SHELL": "/bin/sh", "PS1": "ready> ", "ENV": "", "HAFT": f"{sys.executable} -m haft"}
    return Person(daemon, *arguments, command="shell", rows=40, cols=120, env=env)


def waiting(wire: Wire) -> str:
    while not (found := wire.call("approvals/list")["approvals"]):
        pass
    return str(found[0]["approval_id"])


def test_a_user_approves_from_a_shell_in_haftd(daemon: RunningDaemon) -> None:
    daemon.tools(CAREFUL)
    with daemon.connect() as host, daemon.connect() as wire, shell(daemon) as person:
        person.until("ready>")
        wire.call("tools/reload")
        started = host.start("spawn", tool="careful", id="c", wait="stopped")
        approval = waiting(wire)
        person.type(f"$HAFT --socket {daemon.socket} approve {approval} --allow; echo status-$?\r")
        assert host.finish(started)["result"] == "done\n"
        person.until("status-0")
        person.type(f"$HAFT --socket {daemon.socket} ps -a; echo status-$?\r")
        person.until("user_shell")
        person.type(DETACH)
        assert person.ends() == 0
        state = wire.call("fetch", id="shell")
        assert (state["tool"], state["state"]) == ("user_shell", "running")


def test_each_shell_has_a_fresh_name_and_a_taken_one_is_refused(
    daemon: RunningDaemon,
) -> None:
    with daemon.connect() as wire:
        for _ in range(2):
            with shell(daemon) as person:
                person.until("ready>")
                person.type("exit 3\r" if _ else DETACH)
                assert person.ends() == 3 * _
        handles = wire.call("handles/list")["handles"]
        assert [(handle["id"], handle["state"]) for handle in handles] == [
            ("shell", "running"),
            ("shell-2", "stopped"),
        ]
        with shell(daemon, "shell") as person:
            assert person.ends() == 4
            assert "taken" in " ".join(person.lines)


def test_an_opened_shell_leaves_its_output_for_the_session(serve: Serve, place: Place) -> None:
    """The start is replayed with a wait, so that the prompt is there before the reply."""

    def answer(request: dict[str, Any], peer: Peer) -> object:
        raise Refuse(-32009, "limit_exceeded", "Not here.", limit="max_handles")

    daemon = serve(answer)
    env = {"HAFT_SOCKET": str(daemon.path), "SHELL": "/bin/sh", "PS1": "ready>", "ENV": ""}
    with Person(place.daemon, "h", command="shell", env=env) as person:
        assert person.ends() == 4
    (params,) = daemon.calls("spawn")
    params = {**params, "session": place.session, "wait": "output"}
    assert place.wire.call("spawn", **params)["content"] == ""
    assert "ready>" in place.call("fetch", id="h", pattern="ready>")["content"]


def test_a_shell_that_a_signal_ends_has_the_status_that_shells_give_it(
    daemon: RunningDaemon,
) -> None:
    with shell(daemon) as person:
        person.until("ready>")
        person.type("kill -KILL $$\r")
        assert person.ends() == 128 + 9


def test_size_and_environment_are_the_users(daemon: RunningDaemon) -> None:
    with shell(daemon) as person:
        person.until("ready>")
        person.type("stty size; echo pager-${PAGER-none}; echo folder-$PWD\r")
        person.until("40 120")
        person.until("pager-none")
        person.until(f"folder-{os.getcwd()}")
        person.type("exit\r")
        assert person.ends() == 0


def test_no_tool_opens_a_user_shell(daemon: RunningDaemon) -> None:
    with daemon.connect() as wire:
        haft = [sys.executable, "-m", "haft", "--socket", str(daemon.socket)]
        args = {"argv": [*haft, "shell", "sly"], "terminal": True, "cols": 200}
        state = wire.call("spawn", tool="run", id="w", args=args, wait="stopped")
        assert state["exit"] == {"code": 4} and "cannot start 'user_shell'" in state["content"]
        assert [row["id"] for row in wire.call("handles/list")["handles"]] == ["w"]
