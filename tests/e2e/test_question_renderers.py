from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.approval_client import Host, Join, records
from tests.faults.harness import until
from tests.running_daemon import RunningDaemon

_TOOL = """
[tools.{name}]
source = "local"
stateful = true
command = ["echo", "{{{{ tool.arguments.text }}}}"]
parameters.text = {{ type = "string", required = true }}
parameters.times = {{ type = "integer", default = 1 }}
run = "{run}"
style.parameters = {style}
"""
_SCRIPTS = {
    "template": ["echo", "{{ context.action }} {{ tool.name }}: {{ tool.arguments.text }} {{ tool.arguments.times }}"],
    "context": ["sh", "-c", 'printf %s "$HAFT_CALL"'],
    "outcome": ["echo", '{"type": "success", "content": "as it should be read"}'],
    "hostile": ["printf", r"a\342\200\256b\033[2J\001\tc\n\nd\n"],
    "long": ["sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' y"],
    "floods": ["sh", "-c", "exec yes"],
    "fails": ["sh", "-c", "echo shown; echo why >&2; exit 3"],
    "says_so": ["echo", '{"type": "error", "message": "no\\u202e idea", "trace": [], "transient": false}'],
    "asks": ["echo", '{"type": "needs_input", "question": {"id": "q", "text": "?", "answer_type": {"type": "boolean"}}}'],
    "silent": ["true"],
    "sleeps": ["sleep", "60"],
    "missing": ["/no/such/program"],
}  # fmt: skip


def definition(name: str, style: object, run: str = "ask") -> str:
    written = style if isinstance(style, str) else json.dumps(style)
    return _TOOL.format(name=name, run=run, style=written)


CLIENT = Host
TOOLS = "".join(
    [
        *(definition(name, argv) for name, argv in _SCRIPTS.items()),
        definition("piped", '{ program = "echo {{ tool.arguments.text }} | tr a-z A-Z", shell = true }'),
        definition("free", ["sh", "-c", "touch ran"], run = "unattended"),
        definition("counted", ["sh", "-c", "echo shown >> $0; cat $0", "{{ context.root }}/shown"]),
    ]
)  # fmt: skip
JSON = '{\n  "text": "hello",\n  "times": 1\n}'


def shown_by(host: Host, tool: str) -> str:
    """Return the text shown for approval, which is then denied."""
    spawned = host.spawn(tool)
    asked = host.asked()
    assert asked["params"]["arguments"] == {"text": "hello", "times": 1}
    host.say(asked, "deny")
    assert host.refused(spawned).code == -32007
    return str(asked["params"]["rendered"])


@pytest.mark.parametrize(
    ("tool", "rendered"),
    [
        ("template", "format_arguments template: hello 1"),
        ("outcome", "as it should be read"),
        ("hostile", "a\\u202eb\\x1b[2J\\x01\\tc\n\nd"),
        ("piped", "HELLO"),
    ],
)
def test_the_programs_output_is_shown(join: Join, tool: str, rendered: str) -> None:
    assert shown_by(join(), tool) == rendered


def test_the_program_gets_the_call(join: Join) -> None:
    report = json.loads(shown_by(join(), "context"))
    assert report["context"]["action"] == "format_arguments"
    assert report["tool"]["arguments"] == {"text": "hello", "times": 1}


def test_a_long_rendering_is_cut(join: Join) -> None:
    shown = shown_by(join(), "long")
    assert len(shown) < 17_000 and shown.endswith("983616 more characters are not shown")


@pytest.mark.parametrize(
    ("tool", "why"),
    [
        ("fails", "ended with exit code 3"),
        ("says_so", "has failed: no\\u202e idea"),
        ("asks", "asks a question, and nobody answers it"),
        ("silent", "printed nothing"),
        ("floods", "the arguments"),
        ("missing", "cannot be run: "),
    ],
)
def test_a_failed_rendering_still_asks(join: Join, tool: str, why: str) -> None:
    head, _, rest = shown_by(join(), tool).partition("\n")
    assert head.startswith("The program that shows the arguments ") and why in head
    assert head.endswith("; they are shown as JSON.") and rest == JSON


def test_a_slow_program_delays_no_other_call(asker: RunningDaemon, join: Join) -> None:
    host, other = join(able=False), join("other", able=False)
    spawned = host.spawn("sleeps")
    assert other.call("ping") == {"pong": True} and other.waiting() == []
    assert host.states() == {"h": "pending"}
    found = host.one_waiting()
    head, _, rest = found["rendered"].partition("\n")
    assert "did not end within 3 s" in head and rest == JSON
    host.decide(found, "allow")
    assert host.finish(spawned)["state"] in ("running", "stopped")
    assert [record["event"] for record in records(asker, host.session)] == ["approval", "spawn"]


def test_a_cancelled_call_ends_the_program(join: Join) -> None:
    host = join()
    number = host.spawn("sleeps")
    assert host.states() == {"h": "pending"}
    host.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": number}})
    assert host.refused(number).code == -32800
    until(lambda: host.states() == {}, "the program's end")
    assert host.is_asked_nothing()


def test_without_an_approval_nothing_is_run(join: Join, tmp_path: Path) -> None:
    host = join()
    host.finish(host.spawn("free", "first", root=str(tmp_path)))
    assert not (tmp_path / "ran").exists()
    spawned = host.spawn("counted", "second", root=str(tmp_path))
    asked = host.asked()
    assert asked["params"]["rendered"] == "shown"
    host.say(asked, "allow", remember="session")
    host.finish(spawned)
    host.finish(host.spawn("counted", "again", root=str(tmp_path)))
    assert (tmp_path / "shown").read_text() == "shown\n"


def test_the_rendering_is_listed_for_other_clients(join: Join) -> None:
    host = join(able=False)
    called = host.start("tools/call", tool="template", arguments={"text": "x"})
    found = host.one_waiting()
    assert found["rendered"] == "format_arguments template: x 1" and found["action"] == "call"
    host.decide(found, "edit", arguments={"text": "y"})
    assert host.finish(called)["result"] == "y\n"
