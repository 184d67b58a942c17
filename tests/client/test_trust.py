"""`haft trust`: a user reviews and trusts a project's commands."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from tests.client.terminal import HaftTerminal
from tests.forkserver import run_haft
from tests.running_daemon import RunningDaemon

TEXT = """
[tools.build_it]
summary = "Build. \u202e"
command = ["make", "--", "{{ tool.arguments.a b }}"]
env = { CFLAGS = "-O2" }
parameters.target = {}
""".replace("a b", "target")
SCRIPT = (
    r"""
[tools.deploy]
run = "ask"
command = { shell = true, program = '''
set -e ESC HIDDEN
EMPTY./deploy.sh
''' }
""".replace("ESC", "\u3164")
    .replace("HIDDEN", " " * 300 + "; evil")
    .replace("EMPTY", "\n" * 80)
)


class Person:
    """A project root, and the command line beside the root."""

    def __init__(self, daemon: RunningDaemon, root: Path) -> None:
        self.daemon = daemon
        self.root = root
        self.tools = root / ".haft" / "tools"
        self.tools.mkdir(parents=True)

    def haft(self, *words: str) -> tuple[int, str, str]:
        done = run_haft(words, env=self.daemon.env, cwd=self.root)
        return done.returncode, done.stdout, done.stderr

    def terminal(self) -> HaftTerminal:
        return HaftTerminal("trust", env=self.daemon.env, cwd=self.root)


@pytest.fixture(scope="module")
def running() -> Iterator[RunningDaemon]:
    folder = Path(tempfile.mkdtemp(prefix="haft-"))
    daemon = RunningDaemon(folder).start()
    yield daemon
    daemon.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def person(running: RunningDaemon, tmp_path: Path) -> Person:
    return Person(running, tmp_path / "project")


def test_trust_shows_the_commands_and_scripts_confirm_with_yes(person: Person) -> None:
    (person.tools / "a.toml").write_text(TEXT)
    (person.tools / "b.toml").write_text(SCRIPT)
    (person.tools / "c.toml").symlink_to("/etc/passwd")
    status, out, err = person.haft("trust")
    assert status == 2 and "--yes" in err
    assert ".haft/tools/a.toml (new)" in out
    assert "runs: make -- '{{ tool.arguments.target }}'" in out
    assert 'env = {"CFLAGS":"-O2"}' in out and "asks first: never" in out
    assert "asks first: spawn: ask, call: ask" in out
    assert "set -e \\u3164" in out and "(301 spaces) ; evil" in out and "(80 empty lines)" in out
    assert "\u202e" not in out and "\u3164" not in out and "\\u202e" in out
    assert "c.toml: it cannot be trusted" in out
    assert person.haft("trust", "--yes")[0] == 0
    status, out, err = person.haft("tools")
    assert status == 0 and "build_it" in out and "deploy" in out
    status, out, err = person.haft("--json", "trust", "--list")
    assert [root["root"] for root in json.loads(out)["roots"]] == [str(person.root)]
    assert str(person.root) in person.haft("trust", "--list")[1]
    assert f"trust {person.root}: a.toml, b.toml" in person.haft("audit")[1]
    status, out, err = person.haft("trust", "--revoke", str(person.root))
    assert status == 0 and "no longer trusted" in err
    assert "was not trusted" in person.haft("trust", "--revoke")[2]
    status, out, err = person.haft("tools")
    assert "build_it" not in out and "haft trust" in out
    status, out, err = person.haft("tools", "build_it")
    assert status == 4 and "a.toml" in err and "haft trust" in err, "the list alone knows no reason"


def test_changes_are_shown_and_unchanged_parts_are_short(person: Person) -> None:
    (person.tools / "a.toml").write_text(TEXT)
    (person.tools / "b.toml").write_text(SCRIPT)
    assert person.haft("trust", "--yes")[0] == 0
    status, out, err = person.haft("trust")
    assert status == 0 and "all of it is trusted already" in err
    (person.tools / "a.toml").write_text(TEXT.replace("-O2", "-O3"))
    (person.tools / "b.toml").unlink()
    status, out, err = person.haft("trust")
    assert status == 2 and "changed since it was trusted on 20" in out
    assert '- env = { CFLAGS = "-O2" }' in out and '+ env = { CFLAGS = "-O3" }' in out
    assert "b.toml: it was trusted and no longer exists" in out
    (person.tools / "a.toml").write_bytes(TEXT.replace("\n", "\r\n").encode())
    assert "only the ends of its lines" in person.haft("trust")[1]


def test_only_a_yes_at_a_terminal_counts(person: Person) -> None:
    (person.tools / "a.toml").write_text(TEXT)
    for answer in ("", "n", "perhaps"):
        session = person.terminal()
        session.expect_exact("trust this file to run the commands shown? [y/N]")
        session.sendline(answer)
        session.expect_exact("nothing was trusted")
        session.expect(pexpect.EOF)
        session.close()
        assert session.exitstatus == 1
    session = person.terminal()
    session.expect_exact("runs: make")
    session.expect_exact("[y/N]")
    session.sendline("y")
    session.expect_exact("is trusted as shown")
    session.expect(pexpect.EOF)
    session.close()
    assert session.exitstatus == 0 and "build_it" in person.haft("tools")[1]


def test_a_change_between_review_and_confirmation_is_refused(person: Person) -> None:
    (person.tools / "a.toml").write_text(TEXT)
    session = person.terminal()
    session.expect_exact("[y/N]")
    (person.tools / "a.toml").write_text(TEXT.replace("make", "evil"))
    session.sendline("y")
    session.expect_exact("changed since they were shown")
    session.expect(pexpect.EOF)
    session.close()
    assert session.exitstatus == 4 and "build_it" not in person.haft("tools")[1]


def test_nothing_to_trust_has_status_1(person: Person) -> None:
    status, _, err = person.haft("trust", "--yes")
    assert status == 1 and f"there is no definition in {person.root}/.haft/tools" in err
    status, out, _ = person.haft("--json", "trust", str(person.root / "nowhere"))
    assert status == 0 and json.loads(out)["files"] == []


def test_the_json_form_asks_nothing_and_returns_the_trusted_commands(person: Person) -> None:
    (person.tools / "a.toml").write_text(TEXT)
    status, out, _ = person.haft("--json", "trust")
    assert status == 0 and json.loads(out)["files"][0]["state"] == "new"
    status, out, _ = person.haft("--json", "trust", "--yes")
    assert (status, json.loads(out)) == (0, {"root": str(person.root), "files": ["a.toml"]})


def test_trust_works_from_a_subfolder_of_the_project(person: Person) -> None:
    (person.tools / "git").mkdir()
    (person.tools / "git" / "a.toml").write_text('[tools.where]\ncommand = "pwd"\n')
    below = person.root / "src" / "deep"
    below.mkdir(parents=True)

    def haft(*words: str) -> tuple[int, str]:
        status, out, err = person.haft("--root", str(below), *words)
        return status, out + err

    status, output = haft("trust")
    assert status == 2 and ".haft/tools/git/a.toml (new)" in output
    assert haft("trust", "--yes")[0] == 0
    status, output = haft("trust")
    assert status == 0 and "all of it is trusted already" in output
    status, output = haft("spawn", "--id", "w", "--wait", "stopped", "where")
    assert (status, output.splitlines()[0]) == (0, str(person.root))
    status, output = haft("trust", "--revoke")
    assert (status, output.strip()) == (0, f"haft trust: {person.root} is no longer trusted")
