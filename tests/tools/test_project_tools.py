"""The tools of project roots: only trusted ones, beside the user's own, each root for itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from haft_protocol.errors import RpcError
from haftd.schemas import expose_names
from haftd.tools import catalogue as catalogue_module
from haftd.tools.catalogue import Catalogue
from haftd.tools.definitions.approval_policy import find_mode
from haftd.tools.definitions.definition import Command
from haftd.tools.projects.roots import Folder, HashedFile, resolve_root
from haftd.tools.projects.trust import Trust, TrustedFile, TrustedRoot


class Desk:
    """A user with a configuration folder, a store of trust, and roots."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "config"
        self.config.mkdir()
        self.trust = Trust(str(folder / "trust.json"))
        self.catalogue = Catalogue((self.config,), ("run",), trust=self.trust)

    def own(self, text: str) -> None:
        (self.config / "own.toml").write_text(text)
        self.catalogue.reload()

    def write(self, name: str, text: str, root: str = "root") -> Path:
        file = self.folder / root / ".haft" / "tools" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def root(self, root: str = "root") -> str:
        return str(self.folder / root)

    def grant(self, root: str = "root") -> None:
        path = resolve_root(self.root(root))
        files = {
            one.name: TrustedFile(one.digest, one.data.decode())
            for one in Folder(path).read_files()
            if isinstance(one, HashedFile)
        }
        self.trust.grant(path, TrustedRoot(0, files))

    def runs(self, name: str, root: str | None = "root") -> str:
        tool = self.catalogue.find(name, None if root is None else self.root(root))
        assert isinstance(tool.command, Command)
        return " ".join(map(str, tool.command.words))

    def refused(self, name: str, root: str | None = "root") -> RpcError:
        with pytest.raises(RpcError) as caught:
            self.catalogue.find(name, None if root is None else self.root(root))
        return caught.value

    def listed(self, root: str = "root") -> list[str]:
        return [tool.name for tool in self.catalogue.list_tools("generic", root=self.root(root))[0]]

    def said(self, root: str = "root") -> dict[str, str]:
        _, problems = self.catalogue.list_tools("generic", None, self.root(root))
        return {Path(problem.file).name: problem.message for problem in problems}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


SHOWN = expose_names(["a.b"])["a.b"]
X = '[tools.x]\ncommand = "a"\n'


def test_a_roots_tool_appears_once_its_file_is_trusted(desk: Desk) -> None:
    file = desk.write("a.toml", X)
    error = desk.refused("x")
    assert error.code == -32010
    assert error.data == {"kind": "untrusted_root", "file": str(file), "root": desk.root()}
    assert str(file) in error.message and f"haft trust {desk.root()}" in error.message
    assert "x" not in desk.listed() and "haft trust" in desk.said()["a.toml"]
    desk.grant()
    assert desk.runs("x") == "a" and "x" in desk.listed() and desk.said() == {}
    assert desk.refused("x", None).code == -32003
    assert desk.refused("x", "elsewhere").code == -32003
    desk.trust.revoke(desk.root())
    assert desk.refused("x").code == -32010 and "x" not in desk.listed()


def test_the_named_command_can_be_typed(desk: Desk) -> None:
    desk.write("a.toml", X, "a b")
    assert f"`haft trust '{desk.root('a b')}'`" in desk.refused("x", "a b").message
    assert f"`haft trust '{desk.root('a b')}'`" in desk.said("a b")["a.toml"]


def test_a_changed_file_asks_again_and_a_restored_one_is_trusted(desk: Desk) -> None:
    file = desk.write("a.toml", X)
    desk.grant()
    assert desk.runs("x") == "a"
    desk.write("a.toml", X.replace('"a"', '"b"'))
    error = desk.refused("x")
    assert error.code == -32010 and "has changed since it was trusted" in error.message
    assert "has changed" in desk.said()["a.toml"]
    desk.write("a.toml", X)
    assert desk.runs("x") == "a"
    desk.write("a.toml", X.replace('"a"', '"b"'))
    desk.grant()
    assert desk.runs("x") == "b"
    file.unlink()
    assert desk.refused("x").code == -32003


def test_a_new_file_awaits_trust_alone(desk: Desk) -> None:
    desk.write("b.toml", X)
    desk.grant()
    desk.write("a.toml", X.replace('"a"', '"evil"') + '[tools.y]\ncommand = "y"\n')
    desk.write("c.toml", '[tools.x]\nrun = "unattended"\nenv = { PATH = "/evil" }\n')
    assert desk.runs("x") == "a" and dict(desk.catalogue.find("x", desk.root()).env) == {}
    assert desk.refused("y").data["file"].endswith("a.toml")
    assert set(desk.said()) == {"a.toml", "c.toml"}


def test_each_file_is_trusted_separately(desk: Desk) -> None:
    desk.write("a.toml", X)
    desk.write("b.toml", '[tools.x]\ncommand = "b"\n[tools.y]\ncommand = "y"\n')
    desk.write("c.toml", '[tools."*"]\nrun = "skip"\n')
    desk.grant()
    assert desk.runs("x") == "a" and desk.runs("y") == "y"
    assert desk.catalogue.find("x", desk.root()).run is None
    assert "a.toml also defines this tool" in desk.said()["b.toml"]


@pytest.mark.parametrize("trusted", [False, True])
def test_a_taken_name_stays_the_users(desk: Desk, trusted: bool) -> None:
    desk.own(
        '[tools.mine]\ncommand = "mine"\nrun = "ask"\n[tools.off]\ncommand = "o"\nenable = false\n[tools."a.b"]\ncommand = "dotted"\n'
    )
    desk.write(
        "a.toml",
        '[tools.mine]\nrun = "unattended"\ncommand = "evil"\n[tools.run]\ncommand = "evil"\n'
        '[tools.off]\ncommand = "evil"\n[tools.ask_user]\ncommand = "evil"\n'
        f'[tools.{SHOWN}]\ncommand = "evil"\n',
    )
    if trusted:
        desk.grant()
    assert desk.runs("mine") == "mine"
    assert find_mode(desk.catalogue.find("mine", desk.root()), "spawn") == "ask"
    assert "evil" not in desk.runs("run")
    assert desk.refused("off").code == -32003
    assert desk.runs(SHOWN) == "dotted"
    if trusted:
        _, problems = desk.catalogue.list_tools("generic", None, desk.root())
        assert [problem.key for problem in problems if "a root can only add" in problem.message] == [
            "tools.mine", "tools.run", "tools.off", f"tools.{SHOWN}",
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("own", "root", "modes"),
    [
        ('run = "ask"', 'run = "unattended"', {"spawn": "ask", "fetch": "unattended"}),
        ('run = "ask"', 'run = "skip"', {"spawn": "skip"}),
        ('run = "unattended"', 'run = "ask"', {"spawn": "ask", "call": "ask"}),
        ('run = { default = "ask" }', "", {"spawn": "ask", "apply": "ask"}),
        (
            'run = { default = "ask", fetch = "unattended" }',
            'run = { default = "unattended", abort = "edit" }',
            {"spawn": "ask", "apply": "ask", "fetch": "unattended", "abort": "edit"},
        ),
        ("", 'run = "edit"', {"spawn": "edit"}),
        ('run = "sandboxed"', "", {"spawn": "ask", "call": "ask", "apply": "unattended"}),
        ('run = "sandboxed"', 'sandbox = "root"', {"spawn": "unattended", "call": "unattended"}),
        ('run = "sandboxed"', 'sandbox = "root"\nrun = "ask"', {"spawn": "ask"}),
        ('run = "ask"', 'sandbox = "root"\nrun = "sandboxed"', {"spawn": "ask"}),
        ('run = { default = "sandboxed" }', "", {"spawn": "ask", "apply": "ask", "fetch": "ask"}),
        ('result = "ask"', 'result = "unattended"', {"result": "ask", "spawn": "unattended"}),
        ('result = "ask"', "", {"result": "ask"}),
        ("", 'result = "skip"', {"result": "skip"}),
    ],
)
def test_no_action_is_freer_than_the_users_setting_for_all_tools(
    desk: Desk, own: str, root: str, modes: dict[str, str]
) -> None:
    desk.own(f'[tools."*"]\n{own}\n')
    desk.write("a.toml", f'[tools.x]\ncommand = "a"\n{root}\n')
    desk.grant()
    tool = desk.catalogue.find("x", desk.root())
    assert {action: find_mode(tool, action) for action in modes} == modes  # type: ignore[arg-type]


def test_roots_do_not_mix(desk: Desk) -> None:
    desk.write("a.toml", X, "one")
    desk.write("a.toml", X.replace('"a"', '"b"'), "two")
    desk.grant("one")
    assert desk.runs("x", "one") == "a" and desk.refused("x", "two").code == -32010
    desk.grant("two")
    assert (desk.runs("x", "one"), desk.runs("x", "two")) == ("a", "b")


def test_a_root_is_the_same_by_any_path(desk: Desk, tmp_path: Path) -> None:
    desk.write("a.toml", X)
    (tmp_path / "link").symlink_to("root")
    desk.grant("link")
    assert (
        desk.runs("x") == desk.runs("x", "link") == desk.runs("x", "link/../root/.haft/..") == "a"
    )
    (tmp_path / "link").unlink()
    desk.write("a.toml", X, "other")
    (tmp_path / "link").symlink_to("other")
    assert desk.refused("x", "link").code == -32010, "trust is of a place and a content"


def test_a_fault_in_a_trusted_file_removes_no_other(desk: Desk) -> None:
    desk.write("a.toml", "[tools.x\n")
    desk.write("b.toml", '[tools.y]\ncommand = "y"\n[tools.z]\nrows = 0\n')
    (desk.folder / "root/.haft/tools/c.toml").write_bytes(b"\xff")
    os.mkfifo(desk.folder / "root/.haft/tools/d.toml")
    path = resolve_root(desk.root())
    files = {
        one.name: TrustedFile(one.digest, "")
        for one in Folder(path).read_files()
        if isinstance(one, HashedFile)
    }
    desk.trust.grant(path, TrustedRoot(0, files))
    assert desk.runs("y") == "y"
    said = desk.said()
    assert "not valid TOML" in said["a.toml"] and "UTF-8" in said["c.toml"]
    assert "not a regular file" in said["d.toml"] and "number from 1" in said["b.toml"]


@pytest.mark.parametrize(
    "text",
    [
        "a." * 20_000 + "a = 1\n",
        "[" + "a." * 20_000 + "a]\n",
        "x = 1\n[tools.x]\n" + "b." * 99 + "c = 1",
        "x = {" + "a." * 20_000 + "a = 1}\n",
        "x." + ('"\u2028".' + "a." * 50) * 200 + "a = 1\n",
        'x = ["""a""""", {' + "a." * 20_000 + "a = 1}]\n",
    ],
)
def test_a_costly_key_is_not_read(desk: Desk, text: str) -> None:
    desk.write("a.toml", text)
    desk.grant()
    assert "a key of more than 64 parts" in desk.said()["a.toml"]


@pytest.mark.parametrize(
    "text",
    [
        'description = "' + "a." * 200 + '"',
        "description = " + '"""' + "\n" + "a." * 200 + "\n" + '"""',
        "description = '" + "a." * 200 + "'  # " + "a." * 200,
        "examples = '''" + "a." * 200 + "'''",
    ],
)
def test_dots_in_a_text_are_no_key(desk: Desk, text: str) -> None:
    desk.write("a.toml", f"[tools.x]\ncommand = 'true'\n{text}\n")
    desk.grant()
    assert desk.runs("x") == "true"


def test_text_that_cannot_end_is_scanned_once(desk: Desk) -> None:
    desk.write("a.toml", "a = " + '"' + '\\"' * 30_000)
    desk.grant()
    assert "not valid TOML" in desk.said()["a.toml"]


@pytest.mark.parametrize("form", ["tools", "conversation.tools"])
def test_a_file_of_very_many_tools_is_not_read(desk: Desk, form: str) -> None:
    desk.write("a.toml", "".join(f"[{form}.t{n}]\ncommand = 'a'\n" for n in range(129)))
    desk.grant()
    assert "more than 128 tools" in desk.said()["a.toml"]


def test_an_unknown_name_is_not_found(desk: Desk) -> None:
    desk.write("a.toml", '[tools.x-y]\ncommand = "a"\nsummary = "axe"\n')
    assert desk.refused("nothing").code == -32003
    assert desk.refused("x").code == -32003
    assert desk.refused("x-y").code == -32010
    assert desk.refused(".*").code == -32003


def test_a_reload_reads_the_users_part_of_a_root_anew(desk: Desk) -> None:
    desk.write("a.toml", X)
    desk.grant()
    assert desk.runs("x") == "a"
    desk.own('[tools.x]\ncommand = "mine"\n')
    assert desk.runs("x") == "mine"
    desk.own("")
    assert desk.runs("x") == "a"


def test_removed_tools_are_still_known_to_their_handles(desk: Desk) -> None:
    desk.write("a.toml", X)
    desk.grant()
    tool = desk.catalogue.find("x", desk.root())
    desk.write("a.toml", X + "#")
    assert desk.refused("x").code == -32010
    assert desk.catalogue.find_for_handle("x", desk.root()) is tool
    with pytest.raises(RpcError) as caught:
        desk.catalogue.find_for_handle("y", desk.root())
    assert caught.value.code == -32003


def test_remembered_roots_are_bounded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue_module, "_MAX_ROOTS", 3)
    for number in range(6):
        desk.write("a.toml", X, str(number))
        desk.grant(str(number))
        assert desk.runs("x", str(number)) == "a"
        assert desk.runs("x", "0") == "a"
    remembered = [Path(path).name for path in desk.catalogue._roots]
    assert remembered == ["4", "5", "0"]


def test_without_a_store_no_root_has_tools(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.write("a.toml", X)
    plain = Catalogue((), ("run",))
    with pytest.raises(RpcError) as caught:
        plain.find("x", desk.root())
    assert caught.value.code == -32003
