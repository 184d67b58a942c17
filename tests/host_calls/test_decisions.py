"""Commands of mediated tools, messages, and the replacement of values."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from haftd.host_calls.calls import HostCalls, Run, RunResult
from haftd.host_calls.decisions import HostAccess, require_command
from haftd.host_calls.messages import HostCallError, Request, read_request
from haftd.host_calls.redaction import Redaction
from haftd.tools.definitions.access import AccessPolicy, CommandRule

from .rules import access_of

COMMANDS = """
commands.git = { args = [["log", "**"], ["show", "--format=*", "HEAD"], ["status"]], envs = ["GIT_DIR"] }
commands.make = {}
commands.cat = { args = [["what?"], ["[ab]"], ["a*b*c"]] }
"""


@pytest.mark.parametrize(
    ("words", "is_permitted"),
    [
        ("git status", True),
        ("git log", True),
        ("git log -p src", True),
        ("git show --format=%H HEAD", True),
        ("make anything -j4", True),
        ("make", True),
        ("git", False),
        ("git push", False),
        ("git status --short", False),
        ("git -c core.pager=x log", False),
        ("git --exec-path=/x status", False),
        ("git show --format HEAD", False),
        ("git show --format=x HEAD extra", False),
        ("git show HEAD --format=x", False),
        ("git  status", False),
        ("git status ", False),
        (" git status", False),
        ("./git status", False),
        ("/usr/bin/git status", False),
        ("GIT status", False),
        ("gitx status", False),
        ("sh -c git", False),
        ("cat what?", True),
        ("cat [ab]", True),
        ("cat abc", True),
        ("cat a-bb-cc", True),
        ("cat whatX", False),
        ("cat a", False),
        ("cat ac", False),
        ("cat acb", False),
        ("cat abcd", False),
    ],
)
def test_a_program_is_run_with_permitted_arguments_only(words: str, is_permitted: bool) -> None:
    program, *args = words.split(" ")
    access = access_of(COMMANDS)
    if is_permitted:
        require_command(access, program, args)
        return
    with pytest.raises(HostCallError, match=r"`access\.commands`") as caught:
        require_command(access, program, args)
    assert caught.value.kind == "denied"


def test_a_rule_gives_its_variables() -> None:
    access = access_of(COMMANDS)
    assert require_command(access, "git", ["status"]) == ("GIT_DIR",)
    assert require_command(access, "make", []) == ()


def test_a_rule_for_other_arguments_gives_no_variable() -> None:
    rules = (
        CommandRule("git", (("push", "**"),), ("TOKEN", "GIT_DIR")),
        CommandRule("git", (("status",),), ("GIT_DIR",)),
        CommandRule("git", (("**",),), ("GIT_DIR", "HOME")),
    )
    access = HostAccess("/r", AccessPolicy(commands=rules))
    assert require_command(access, "git", ["status"]) == ("GIT_DIR", "HOME")
    assert require_command(access, "git", ["push"]) == ("TOKEN", "GIT_DIR", "HOME")


def test_a_denial_shows_four_patterns_and_counts_the_others() -> None:
    rules = (CommandRule("git", tuple((word,) for word in ("a", "b", "c", "d", "e", "f"))),)
    with pytest.raises(HostCallError, match=r"'git a', 'git b', 'git c', 'git d', 2 more\.$"):
        require_command(HostAccess("/r", AccessPolicy(commands=rules)), "git", ["x"])


@pytest.mark.parametrize(
    "line",
    [
        b'{"type": "running", "method": "fs.read", "id": 1}',
        b'{"jsonrpc": "2.0", "method": "state", "params": {"type": "running"}}',
        b'{"jsonrpc": "2.0", "method": "fs.read", "id": null}',
        b'{"jsonrpc": "2.0", "method": "fs.read", "id": 1.5}',
        b'{"jsonrpc": "1.0", "method": "fs.read", "id": 1}',
        b'{"jsonrpc": "2.0", "method": 5, "id": 1}',
        b'[{"jsonrpc": "2.0", "method": "fs.read", "id": 1}]',
        b'{"jsonrpc": "2.0", "method": "fs.read", "id": 1',
        b'{"jsonrpc": "2.0", "method": "\xff", "id": 1}',
        b'"method"' + b"[" * 100_000,
        b"",
    ],
)
def test_any_other_line_is_no_request(line: bytes) -> None:
    assert read_request(line) is None


def test_a_longer_value_is_replaced_before_one_within() -> None:
    redaction = Redaction({"A": "password", "B": "password-long"})
    assert redaction.redact_text("password password-long") == "${A} ${B}"
    assert Redaction({"A": "ab"}).redact_text("ab") == "ab"
    assert "password" not in repr(redaction)


async def test_a_program_s_output_has_no_value_of_its_variables(tmp_path: Path) -> None:
    """Also in the errors, and however short the value of a variable that the program was given."""

    async def run(params: Run, envs: tuple[str, ...], folder: str) -> RunResult:
        return RunResult("out s3cr3t-value 42 77", "err s3cr3t-value 42 77", 0)

    access = access_of(
        'commands.show = { args = [["**"]], envs = ["PIN"] }',
        tmp_path,
        {"TOKEN": "s3cr3t-value", "PIN": "42", "OTHER": "77"},
    )
    calls = HostCalls(access, run)
    calls.open()
    try:
        params = msgspec.Raw(msgspec.json.encode({"program": "show", "args": ["x"]}))
        answer = msgspec.json.decode(await calls.answer(Request(1, "process.run", params)))
    finally:
        calls.close()
    assert answer["result"]["stdout"] == "out ${TOKEN} ${PIN} 77"
    assert answer["result"]["stderr"] == "err ${TOKEN} ${PIN} 77"
