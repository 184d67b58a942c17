from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from haft.__main__ import main
from haft.cli.commands import doctor, version
from tests.client.conftest import Serve
from tests.client.fake import FakeDaemon, Peer, Refuse, hello
from tests.running_daemon import RunningDaemon

Capture = pytest.CaptureFixture[str]

STATUS: dict[str, Any] = {
    "version": "0.1.0",
    "pid": 4711,
    "started_at": 1.0,
    "uptime_s": 4000.0,
    "socket": "/run/s",
    "state": "running",
    "containment": "cgroup",
    "connections": 1,
    "sessions": 2,
    "handles": {"pending": 0, "running": 3, "waiting": 0, "stopped": 1},
    "memory": 40 << 20,
    "cpu_s": 1.5,
    "descriptors": 12,
    "threads": 2,
    "spooled": 0,
    "problems": [],
}
PROBLEM = {
    "file": "/c/tools/a.toml",
    "line": 3,
    "key": "tools.x.command",
    "message": "Wrong.",
}
NOTE = {
    "file": "/c/config.toml",
    "key": "websocket",
    "message": "takes effect at the next start",
    "advice": "`haft stop`",
    "level": "note",
}


def findings(capsys: Capture) -> dict[str, tuple[str, str, str]]:
    listed = json.loads(capsys.readouterr().out)["findings"]
    return {f["check"]: (f["level"], f["message"], f.get("advice", "")) for f in listed}


def test_a_healthy_daemon_has_no_findings(
    serve: Serve, capsys: Capture, short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    serve(lambda request, peer: {**STATUS, "path": os.environ["PATH"]})
    assert main(["doctor", "--json"]) == 0
    found = findings(capsys)
    assert {level for level, _, _ in found.values()} == {"ok"}
    checks = {"socket", "runtime folder", "state folder", "configuration", "daemon", "version"}
    assert checks | {"containment", "PATH", "editor"} == set(found)


def test_each_fault_is_reported_with_its_remedy(
    serve: Serve, capsys: Capture, short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ill = {
        **STATUS,
        "path": "/bin",
        "version": "0.0.9",
        "containment": "processes",
        "problems": [PROBLEM],
    }
    serve(lambda request, peer: {**ill, "unconfirmed": [99]})
    short_tmp.chmod(0o775)
    monkeypatch.setenv("PATH", "/only/here")
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert main(["doctor", "--json"]) == 1
    found = findings(capsys)
    assert found["runtime folder"][0] == "problem"
    assert found["definitions"][2] == "fix it, then run `haft reload`"
    assert found["runtime folder"][2] == f"chmod go-w {short_tmp}"
    assert found["version"] == (
        "problem",
        "the client is 0.1.0, the daemon 0.0.9",
        "`haft stop`; the next command starts the new one",
    )
    assert found["definitions"][1] == "/c/tools/a.toml:3: tools.x.command: Wrong."
    assert "99" in found["processes"][1]
    assert "/only/here" in found["PATH"][1]
    assert found["containment"][0] == found["editor"][0] == found["git"][0] == "note"
    assert all(advice for level, _, advice in found.values() if level != "ok")


def test_folders_of_another_owner_are_problems(
    capsys: Capture, short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAFT_SOCKET", str(short_tmp / "link" / "s"))
    (short_tmp / "link").symlink_to(short_tmp)
    monkeypatch.setenv("XDG_STATE_HOME", str(short_tmp))
    assert main(["doctor", "--json"]) == 3
    found = findings(capsys)
    assert found["runtime folder"][:2] == ("problem", f"{short_tmp}/link is not a folder")
    assert found["state folder"] == ("ok", f"{short_tmp}/haft will be made", "")
    assert found["daemon"][0] == "note"


def test_without_a_daemon_an_invalid_toml_file_is_named(
    capsys: Capture, short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon that starts with defaults reports nothing to its starter."""
    monkeypatch.setenv("HAFT_SOCKET", str(short_tmp / "s"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(short_tmp))
    tools = short_tmp / "haft" / "tools"
    tools.mkdir(parents=True)
    (short_tmp / "haft" / "config.toml").write_text("[daemon]\n")
    (tools / "right.toml").write_text("")
    (tools / "folder.toml").mkdir()
    assert main(["doctor", "--json"]) == 3
    assert "definitions" not in findings(capsys)
    (tools / "wrong.toml").write_text("[tools")
    assert main(["doctor", "--json"]) == 3
    level, message, advice = findings(capsys)["definitions"]
    assert (level, advice) == ("problem", "fix it: haftd ignores it")
    assert message.startswith(f"{tools}/wrong.toml: it is not valid TOML: ")


def test_a_state_folder_may_be_a_symlink(
    capsys: Capture, short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (short_tmp / "large").mkdir(mode=0o700)
    (short_tmp / "haft").symlink_to(short_tmp / "large")
    monkeypatch.setenv("XDG_STATE_HOME", str(short_tmp))
    main(["doctor", "--json"])
    assert findings(capsys)["state folder"] == ("ok", f"{short_tmp}/haft, mode 0700", "")


def test_a_socket_path_over_the_limit_is_found(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAFT_SOCKET", "/tmp/" + "x" * 120)
    assert main(["doctor", "--json"]) == 1
    level, message, advice = findings(capsys)["socket"]
    assert (level, "107" in message, "HAFT_SOCKET" in advice) == ("problem", True, True)


def is_status(request: dict[str, Any]) -> bool:
    method: str = request["method"]
    return method == "daemon/status"


def test_status_has_a_readable_form(serve: Serve, capsys: Capture) -> None:
    status = {**STATUS, "problems": [PROBLEM], "refused": {"token": 2}}
    serve(lambda request, peer: status if is_status(request) else {"approvals": []})
    assert main(["status"]) == 0
    out = capsys.readouterr().out
    assert f"haftd       0.1.0, pid {STATUS['pid']}, running, up 1 h 6 min\n" in out
    assert "handles     3 running, 1 stopped\n" in out
    assert "refused     2 token\n" in out
    assert "problem     /c/tools/a.toml:3: tools.x.command: Wrong.\n" in out


def test_status_shows_open_questions(serve: Serve, capsys: Capture) -> None:
    question = {
        "inquiry_id": "tool_call.t.c1",
        "session": "s",
        "question": "na\x1bme",
        "since": 0.0,
        "asked": False,
        "tool": "t",
        "handle": "h",
    }
    status = {**STATUS, "questions": [question, {**question, "asked": True}]}
    serve(lambda request, peer: status if is_status(request) else {"approvals": []})
    assert main(["status"]) == 0
    first, second = (
        line for line in capsys.readouterr().out.splitlines() if line.startswith("question")
    )
    assert "na me of h (t), open for " in first and "na me of h (t), open for " in second
    assert first.endswith("`haft answer tool_call.t.c1` answers it") and "haft answer" not in second


def test_reload_shows_problems_and_fails(serve: Serve, capsys: Capture) -> None:
    serve(lambda request, peer: {"tools": 4, "problems": [PROBLEM]})
    assert main(["reload"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "/c/tools/a.toml:3: tools.x.command: Wrong.",
        "haftd: 4 tools, 1 problem",
    ]


def test_a_setting_that_waits_for_the_next_start_is_no_problem(
    serve: Serve, capsys: Capture
) -> None:
    status = {**STATUS, "problems": [NOTE]}
    replies = {
        "daemon/reload": {"tools": 4, "problems": [NOTE]},
        "approvals/list": {"approvals": []},
    }
    serve(lambda request, peer: replies.get(request["method"], status))
    assert main(["reload"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "/c/config.toml: websocket: takes effect at the next start",
        "haftd: 4 tools, 0 problems",
    ]
    assert main(["doctor", "--json"]) == 0
    assert findings(capsys)["definitions"] == (
        "note",
        "/c/config.toml: websocket: takes effect at the next start",
        "`haft stop`",
    )
    assert main(["status"]) == 0
    (line,) = [row for row in capsys.readouterr().out.splitlines() if "websocket" in row]
    assert line.split()[0] == "note"


@pytest.mark.parametrize(("problems", "status"), [([PROBLEM], 1), ([], 0), ([NOTE], 0)])
def test_reload_as_json_has_the_same_status(
    serve: Serve, capsys: Capture, problems: list[object], status: int
) -> None:
    serve(lambda request, peer: {"tools": 4, "problems": problems})
    assert main(["--json", "reload"]) == status
    assert json.loads(capsys.readouterr().out) == {"tools": 4, "problems": problems}


def test_stop_returns_when_the_process_has_ended(
    short_tmp: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAFT_SOCKET", str(short_tmp / "s"))
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    def answer(request: dict[str, Any], peer: Peer) -> Any:
        if request["method"] == "initialize":
            return {**hello(request), "pid": process.pid}
        assert process.stdin is not None
        process.stdin.close()
        return {}

    daemon = FakeDaemon(short_tmp / "s", answer)
    assert main(["stop"]) == 0
    # Ended, and not yet reaped by us, its parent.
    assert process.wait(0) != 0
    daemon.close()
    assert daemon.calls("daemon/shutdown")[0]["policy"] == "abort"
    assert capsys.readouterr().err == f"haftd: stopped (pid {process.pid})\n"


def test_stop_if_idle_reports_the_refusal(serve: Serve, capsys: Capture) -> None:
    def answer(request: dict[str, Any], peer: Peer) -> Any:
        raise Refuse(-32009, "limit_exceeded", "1 handles still run.")

    daemon = serve(answer)
    assert main(["stop", "--if-idle"]) == 4
    assert daemon.calls("daemon/shutdown")[0]["policy"] == "refuse"


def test_a_suspended_daemon_is_named_with_the_signal_that_resumes_it(
    capsys: Capture, short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon's time to answer is cut: a stopped process never does."""
    monkeypatch.setattr(doctor, "_PATIENCE_S", 0.2)
    daemon = RunningDaemon(short_tmp).start()
    try:
        for name, value in daemon.env.items():
            monkeypatch.setenv(name, value)
        assert daemon.process is not None
        pid = daemon.process.pid
        os.kill(pid, signal.SIGSTOP)
        assert main(["doctor", "--json"]) == 1
        level, message, advice = findings(capsys)["daemon"]
        assert (level, advice) == ("problem", f"`kill -CONT {pid}` continues it")
        assert message.startswith(f"haftd (pid {pid}) is suspended")
        monkeypatch.setattr(version, "_PATIENCE_S", 0.2)
        assert main(["version"]) == 0
        out, err = capsys.readouterr()
        assert "haftd (does not answer)" in out and "in time" in err
        os.kill(pid, signal.SIGCONT)
        monkeypatch.setattr(version, "_PATIENCE_S", 60.0)
        assert main(["version"]) == 0
        assert "haftd 0.1.0" in capsys.readouterr().out
    finally:
        os.kill(pid, signal.SIGCONT)
        daemon.close()


@pytest.mark.parametrize("pid", [None, 7, 8])
@pytest.mark.parametrize("service", ["active", "inactive", "failed"])
@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("listening", ["active", "inactive", "failed"])
def test_the_first_fault_of_the_units_is_reported(
    monkeypatch: pytest.MonkeyPatch,
    short_tmp: Path,
    listening: str,
    is_there: bool,
    service: str,
    pid: int | None,
) -> None:
    path = short_tmp / "s"
    if is_there:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
    units = {
        "haftd.socket": {
            "LoadState": "loaded",
            "ActiveState": listening,
            "Listen": f"{path} (Stream)",
            "Result": "resources",
        },
        "haftd.service": {"ActiveState": service, "MainPID": "7", "Result": "signal"},
    }
    manager = SimpleNamespace(properties=lambda unit, *names: units[unit])
    monkeypatch.setattr(doctor, "UserManager", SimpleNamespace(connect=lambda: manager))
    monkeypatch.setattr(doctor, "check_units", lambda manager: ())
    (finding,) = doctor._service(pid)
    if listening != "active":
        words = (
            f"and {listening}{' (resources)' if listening == 'failed' else ''}: systemd does not"
        )
    elif not is_there:
        words = f"its file {path} is gone"
    elif pid == 8:
        words = "the daemon that answers (pid 8) is not the daemon of haftd.service"
    elif service == "failed":
        words = "haftd.service has failed (signal)"
    else:
        words = f"haftd.socket listens at {path}"
    assert words in finding.message
    assert finding.level == ("ok" if "listens" in words else "problem")
    units["haftd.socket"]["LoadState"] = "not-found"
    assert list(doctor._service(pid)) == []
