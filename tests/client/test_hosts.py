"""`haft hosts`: several machines at once, their needs, and the reasons of those that do not answer."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from haft.__main__ import main
from haft.addresses import Address, Ssh
from haft.cli.commands.hosts import HostReport, _ask_all
from haft.cli.completion import complete
from haft.cli.host_list import host_list, listed_hosts
from haft.errors import InvalidAddress
from haft.local_address import Local
from tests.client.conftest import Serve
from tests.client.fake import Peer

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of hosts; ssh fails."""
    monkeypatch.delenv("HAFT_HOST", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    program = tmp_path / "ssh"
    program.write_text("#!/bin/sh\necho 'ssh: connect: Connection refused' >&2\nexit 255\n")
    program.chmod(0o755)
    monkeypatch.setenv("HAFT_SSH", str(program))
    (tmp_path / "haft").mkdir()
    return tmp_path / "haft" / "hosts"


def handle(number: int, state: str, needs: str) -> dict[str, Any]:
    common = {"id": f"h{number}", "tool": "run", "session": "s", "cursor": 0, "elapsed_ms": 1}
    more = {"ended_by": {"by": "exit"}, "result": ""} if state == "stopped" else {"needs": needs}
    shown = {
        "command": "c",
        "age_s": 1.0,
        "bytes": 0,
        "root": "/",
        "started_at": 1.0,
        "generation": 1,
    }
    return {**common, "state": state, **more, **shown}


def answer(request: dict[str, Any], peer: Peer) -> Any:
    assert request["params"].get("session") == "*"
    states = [("running", "nothing"), ("running", "line"), ("running", "secret"), ("stopped", "")]
    return {"handles": [handle(n, *state) for n, state in enumerate(states)]}


def test_handles_and_needs_are_counted_and_a_failure_has_its_reason(
    serve: Serve, capsys: Capture
) -> None:
    serve(answer)
    assert main(["hosts", "ssh://me@box", "unix://"]) == 1
    head, *lines = sorted(capsys.readouterr().out.splitlines())
    assert head.split() == ["HOST", "STATE", "VERSION", "HANDLES", "NEEDS"]
    assert "me@box has no ssh server" in lines[0]
    assert lines[1].split() == ["unix://", "running", "0.1.0", "3", "2"]


def test_the_json_document_has_the_order_of_the_command_line(serve: Serve, capsys: Capture) -> None:
    serve(answer)
    assert main(["hosts", "ssh://b", "unix://", "ssh://a", "--json"]) == 1
    hosts = json.loads(capsys.readouterr().out)["hosts"]
    assert [host["host"] for host in hosts] == ["ssh://b", "unix://", "ssh://a"]
    assert [host.get("needs") for host in hosts] == [None, 2, None]
    assert [host["state"] for host in hosts] == ["unreachable", "running", "unreachable"]


def test_no_answer_at_all_is_status_3(capsys: Capture) -> None:
    assert main(["hosts", "ssh://b", "ssh://a"]) == 3
    assert capsys.readouterr().out.count("unreachable") == 2


def test_a_machine_that_does_not_answer_holds_up_no_other() -> None:
    is_shown = threading.Event()

    def ask(text: str, address: Address) -> HostReport:
        assert text == "fast" or is_shown.wait(20)
        return HostReport(host=text, state="running")

    reports = _ask_all({"slow": Ssh("slow"), "fast": Local()}, ask)
    assert next(reports).host == "fast"
    is_shown.set()
    assert next(reports).host == "slow"


def test_the_file_lists_machines_beside_this_one(config: Path) -> None:
    assert host_list(None, {"XDG_CONFIG_HOME": str(config.parent.parent)}) == [
        ("this machine", "unix://")
    ]
    config.write_text("# mine\nssh://box  # at work\n\nssh://other\nssh://box\n")
    env = {"XDG_CONFIG_HOME": str(config.parent.parent), "HAFT_HOST": "ssh://env"}
    assert listed_hosts(env) == [(2, "ssh://box"), (4, "ssh://other"), (5, "ssh://box")]
    assert host_list(None, env) == [
        ("this machine", "unix://"), ("HAFT_HOST", "ssh://env"), (2, "ssh://box"), (4, "ssh://other"),
    ]  # fmt: skip
    named = host_list("ssh://other", env)
    assert [address for _, address in named] == ["unix://", "ssh://other", "ssh://box"]
    completed = [value for value, _ in complete(["--host", "ssh://o"])]
    assert completed == ["ssh://other"]


def test_an_unreadable_file_is_named(config: Path) -> None:
    config.mkdir()
    with pytest.raises(InvalidAddress, match="hosts cannot be read"):
        listed_hosts({"XDG_CONFIG_HOME": str(config.parent.parent)})


def test_a_file_that_is_too_long_is_refused_and_not_cut(config: Path) -> None:
    """The limit counts bytes, of which a character may have several."""
    env = {"XDG_CONFIG_HOME": str(config.parent.parent)}
    line = "ssh://box # " + "ö" * 500 + "\n"
    config.write_text(line * (1_048_576 // len(line.encode())))
    assert listed_hosts(env)[-1][1] == "ssh://box"
    config.write_text(config.read_text() + line)
    with pytest.raises(InvalidAddress, match="hosts is longer than 1 MiB"):
        listed_hosts(env)


def test_no_folder_of_the_configuration_is_no_file(
    serve: Serve, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(answer)
    (tmp_path / "file").touch()
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "file"))
    assert main(["hosts"]) == 0
    assert main(["audit"]) == 0
    assert "nothing is recorded" in capsys.readouterr().err


def test_a_line_that_is_no_address_is_reported_and_refuses_no_other(
    serve: Serve, config: Path, capsys: Capture
) -> None:
    serve(answer)
    config.write_bytes(b"# caf\xe9\xe2\x80\xa8\nssh://b\xf6x\nssh://me:canary@box\n")
    assert main(["hosts"]) == 1
    out = capsys.readouterr().out
    assert [line.split()[:2] for line in out.splitlines()[1:]] == [
        [f"{config}:2", "no"], [f"{config}:3", "no"], ["unix://", "running"],
    ]  # fmt: skip
    assert "canary" not in out
    assert main(["hosts", "--json"]) == 1
    states = [host["state"] for host in json.loads(capsys.readouterr().out)["hosts"]]
    assert states == ["running", "no address", "no address"]


@pytest.mark.parametrize(
    ("words", "source"), [(["--host", "foo:bar"], "--host"), ([], "HAFT_HOST")]
)
def test_a_wrong_address_is_reported_with_its_source(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, words: list[str], source: str
) -> None:
    if not words:
        monkeypatch.setenv("HAFT_HOST", "foo:bar")
    assert main(["hosts", *words]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"haft hosts: {source} ")
    assert ("HAFT_HOST" in err) is not bool(words)


@pytest.mark.parametrize("limit", ["0", "-1", "1e3", "9" * 30, ""])
def test_a_time_limit_is_a_whole_number_of_milliseconds(capsys: Capture, limit: str) -> None:
    assert main(["hosts", f"--timeout-ms={limit}"]) == 2
    assert "it must be a whole number from 1 to 2,000,000,000" in capsys.readouterr().err
