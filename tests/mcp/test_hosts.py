"""`haft mcp install` and removal."""

from __future__ import annotations

import json
import socket
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haft.__main__ import main
from haft.errors import SetupFailed
from haft.mcp.hosts import HOSTS, entry_for
from haft.mcp.jsonc import Malformed, decode, remove_member, set_member

Capture = pytest.CaptureFixture[str]

COMMENTED = """\
// my settings
{
  "theme": "dark", // "mcpServers": {
  /* servers */
  "mcpServers": {
    "other": { "command": "x", "args": ["}", "//"] }, // mine
  },
  "last": [1, 2,],
}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (
        "XDG_CONFIG_HOME",
        "XDG_STATE_HOME",
        "HAFT_SOCKET",
        "XDG_RUNTIME_DIR",
        "CODEX_HOME",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("host", HOSTS)
def test_an_entry_is_written_into_a_new_file_and_removed(
    home: Path, host: str, capsys: Capture
) -> None:
    (home / "project").mkdir()
    words = ["--root", str(home / "project")] if HOSTS[host].needs_root else []
    assert main(["mcp", "install", host, *words]) == 0
    out, err = capsys.readouterr()
    path = Path(HOSTS[host].path.replace("~", str(home)))
    text = path.read_text()
    configuration = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    entry = configuration[HOSTS[host].section]["haft"]
    assert ("type" in entry) == (host in ("claude-code", "vscode")), "other hosts know no such key"
    assert entry["command"].startswith("/") and "mcp" in entry["args"]
    assert str(path) in out and str(path) in err
    assert main(["mcp", "install", host, *words]) == 0
    assert path.read_text() == text
    assert main(["mcp", "uninstall", host, *words]) == 0
    assert not path.exists()


def test_comments_and_order_are_kept_with_a_backup(home: Path) -> None:
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text(COMMENTED)
    path.chmod(0o640)
    assert main(["mcp", "install", "cursor"]) == 0
    text = path.read_text()
    for line in COMMENTED.splitlines():
        assert line in text
    assert decode(text)["mcpServers"]["haft"]["args"][-2:] == ["--root", "${workspaceFolder}"]
    assert Path(f"{path}.haft-backup").read_text() == COMMENTED
    assert path.stat().st_mode & 0o777 == 0o640
    assert main(["mcp", "uninstall", "cursor"]) == 0
    assert path.read_text() == COMMENTED


def test_a_toml_file_keeps_its_other_content(home: Path) -> None:
    path = home / ".codex" / "config.toml"
    path.parent.mkdir()
    before = '# mine\nmodel = "x"\n\n[mcp_servers.other]\ncommand = "y" # why\n'
    path.write_text(before)
    assert main(["mcp", "install", "codex"]) == 0
    assert path.read_text().startswith(before)
    assert set(tomllib.loads(path.read_text())["mcp_servers"]) == {"other", "haft"}
    assert main(["mcp", "uninstall", "codex"]) == 0
    assert path.read_text() == before


@pytest.mark.parametrize("text", ["[1]", "{", '{"mcpServers": []}', '{"a": "', "{/* }"])
def test_an_unparsable_file_is_left_alone(home: Path, text: str, capsys: Capture) -> None:
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text(text)
    assert main(["mcp", "install", "cursor"]) == 1
    assert path.read_text() == text and not Path(f"{path}.haft-backup").exists()
    err = capsys.readouterr().err
    assert str(path) in err and "haft mcp --print cursor" in err


@pytest.mark.parametrize("host", HOSTS)
def test_a_host_without_a_folder_requires_one(home: Path, host: str) -> None:
    if host in ("claude-desktop", "zed"):
        with pytest.raises(SetupFailed, match="--root"):
            entry_for(host, {"HOME": str(home)}, None)
    else:
        assert entry_for(host, {"HOME": str(home)}, None).host == host


def test_the_daemons_location_is_written_into_the_entry(home: Path) -> None:
    env = {"HOME": str(home), "XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "/r", "LANG": "C"}
    assert entry_for("cursor", env, None).value["env"] == {
        "XDG_STATE_HOME": "/s",
        "XDG_RUNTIME_DIR": "/r",
    }


def test_an_unknown_host_is_refused_with_the_known_ones(home: Path, capsys: Capture) -> None:
    assert main(["mcp", "install", "claude-cod"]) == 2
    assert "did you mean 'claude-code'" in capsys.readouterr().err
    assert main(["mcp", "install"]) == 2
    assert "claude-desktop, codex" in capsys.readouterr().err


def test_print_writes_nothing(home: Path, capsys: Capture) -> None:
    assert main(["mcp", "--print", "vscode"]) == 0
    assert json.loads(capsys.readouterr().out)["servers"]["haft"]["type"] == "stdio"
    assert list(home.iterdir()) == []


def test_uninstall_restores_the_file_before_install(home: Path, capsys: Capture) -> None:
    path = home / ".config/Code/User/mcp.json"
    path.parent.mkdir(parents=True)
    backup = Path(f"{path}.haft-backup")
    for before in (b"", b"{}\n", b'{"servers": {}, "inputs": []}', b'{\r\n  "servers": {}\r\n}'):
        path.write_bytes(before)
        assert main(["mcp", "install", "vscode"]) == 0
        assert main(["mcp", "install", "vscode", "--session", "other"]) == 0
        assert backup.read_bytes() == before
        assert main(["mcp", "uninstall", "vscode"]) == 0
        assert path.read_bytes() == before and not backup.exists()


def test_uninstall_keeps_other_changes_and_the_backup(home: Path, capsys: Capture) -> None:
    path = home / ".config/Code/User/mcp.json"
    path.parent.mkdir(parents=True)
    before = '{"servers": {}, "inputs": []}'
    path.write_text(before)
    assert main(["mcp", "install", "vscode"]) == 0
    path.write_text(path.read_text().replace("[]", "[1]"))
    assert main(["mcp", "uninstall", "vscode"]) == 0
    assert json.loads(path.read_text()) == {"servers": {}, "inputs": [1]}
    assert Path(f"{path}.haft-backup").read_text() == before


def test_uninstall_from_a_broken_file_names_the_entry_to_remove(
    home: Path, capsys: Capture
) -> None:
    path = home / ".gemini/settings.json"
    path.parent.mkdir()
    path.write_text('{"mcpServers": {"haft": {}')
    assert main(["mcp", "uninstall", "gemini"]) == 1
    err = capsys.readouterr().err
    assert "take `haft` out of its `mcpServers` by hand" in err and "--print" not in err


def test_print_is_an_option_of_install_too(home: Path, capsys: Capture) -> None:
    assert main(["mcp", "--print", "cursor"]) == 0
    entry = capsys.readouterr().out
    for words in (["install", "cursor", "--print"], ["install", "--print", "cursor"]):
        assert main(["mcp", *words]) == 0
        assert capsys.readouterr().out == entry
    assert list(home.iterdir()) == []
    assert main(["mcp", "--print"]) == 2
    assert "name a host; it is one of claude-code" in capsys.readouterr().err
    for action in ("uninstall", "import"):
        assert main(["mcp", action, "cursor", "--print"]) == 2
        assert f"{action} has no --print" in capsys.readouterr().err


def test_the_entry_has_the_options_of_the_command_line(home: Path, capsys: Capture) -> None:
    words = ["--session", "foo", "--socket", "/s/haft.sock", "--surface", "actions"]
    assert main(["mcp", "--print", "cursor", *words]) == 0
    shown = json.loads(capsys.readouterr().out)["mcpServers"]["haft"]["args"]
    assert shown[-8:] == ["--root", "${workspaceFolder}", *words]
    assert main(["mcp", "install", "cursor", *words]) == 0
    assert (
        json.loads((home / ".cursor/mcp.json").read_text())["mcpServers"]["haft"]["args"] == shown
    )
    capsys.readouterr()
    assert main(["mcp", "--print", "cursor", "--http", "8765"]) == 2
    assert "--http" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["--http"], ["install", "cursor"]])
def test_a_missing_root_is_refused_at_the_start(
    home: Path, words: list[str], capsys: Capture
) -> None:
    assert main(["mcp", *words, "--root", str(home / "gone")]) == 2
    assert f"--root is not a folder: {home}/gone" in capsys.readouterr().err
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("port", ["-1", "65536", "99999", "x"])
def test_a_port_out_of_range_is_a_mistake(port: str, capsys: Capture) -> None:
    assert main(["mcp", f"--http={port}"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("haft mcp: ") and "--http" in err and err.count("\n") == 1


def test_a_port_in_use_is_reported_in_one_sentence(capsys: Capture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert main(["mcp", "--http", str(port)]) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"haft mcp: port {port} of 127.0.0.1 cannot be used: ")
    assert err.count("\n") == 1


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    known=st.dictionaries(st.text(), VALUES, max_size=3),
    others=st.dictionaries(st.text().filter(lambda name: name != "haft"), VALUES, max_size=3),
    value=VALUES,
    indent=st.sampled_from([None, 2, "\t"]),
)
def test_a_member_is_set_and_removed_in_any_object(
    known: dict[str, object], others: dict[str, object], value: object, indent: int | str | None
) -> None:
    known["servers"] = others
    text = json.dumps(known, indent=indent)
    changed = set_member(text, "servers", "haft", value)
    assert decode(changed) == {**known, "servers": {**others, "haft": value}}
    removed = decode(remove_member(changed, "servers", "haft"))
    assert removed == (known if others else {k: v for k, v in known.items() if k != "servers"})


def test_a_non_object_is_refused() -> None:
    with pytest.raises(Malformed):
        set_member('{"servers": 1}', "servers", "haft", {})


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('{\n  "s": {\n    "a": 1,\n    "h": 2\n  }\n}\n', '{\n  "s": {\n    "a": 1\n  }\n}\n'),
        ('{\n  "s": {\n    "h": 2,\n    "a": 1\n  }\n}\n', '{\n  "s": {\n    "a": 1\n  }\n}\n'),
        ('{"s": {"h": 2, "a": 1}}', '{"s": { "a": 1}}'),
        ('{"s": {"a": 1, "h": 2}}', '{"s": {"a": 1}}'),
        ('{"s": {"h": 2}, "t": 3}', '{ "t": 3}'),
        ('{"s": {"h": 2\n}, "t": 3}', '{ "t": 3}'),
        ('{"s": {"h": 2,\n"a": 1}}', '{"s": {\n"a": 1}}'),
        ('{"s": {\n"h": 2}}', "{}"),
        ('{"s": {\n"h": 2, "a": 1}}', '{"s": {\n "a": 1}}'),
        ('{"s": {"h": 2} // mine\n}', "{ // mine\n}"),
        ('{"s": { // mine\n"h": 2}}', '{"s": { // mine\n}}'),
        ('{"s": {"a": 1, /* x */ "h": 2}}', '{"s": {"a": 1}}'),
        ('{"s": {"a": 1}}', '{"s": {"a": 1}}'),
        ('{"t": 1}', '{"t": 1}'),
        ("", ""),
    ],
)
def test_a_removed_member_takes_its_line_and_one_comma_along(text: str, left: str) -> None:
    assert remove_member(text, "s", "h") == left


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("", '{\n  "s": {\n    "h": 2\n  }\n}\n'),
        ("{}", '{\n  "s": {\n    "h": 2\n  }\n}'),
        ('{"s": {}}', '{"s": {\n  "h": 2\n}}'),
        ('{"s": {"a": 1}}', '{"s": {"a": 1,\n"h": 2}}'),
        ('{\n\t"s": {\n\t\t"a": 1,\n\t}\n}', '{\n\t"s": {\n\t\t"a": 1,\n\t\t"h": 2,\n\t}\n}'),
        ('{\n\t"s": {\n\t\t"a": 1 // x\n\t}\n}', '{\n\t"s": {\n\t\t"a": 1, // x\n\t\t"h": 2\n\t}\n}'),
        ('{\n\t"s": {\n\t\t"a": 1, // x\n\t}\n}', '{\n\t"s": {\n\t\t"a": 1, // x\n\t\t"h": 2,\n\t}\n}'),
        ('{"s": {"h": 1, "a": 1}}', '{"s": {"h": 2, "a": 1}}'),
        ('{"s": { // x\n}}', '{"s": { // x\n  "h": 2\n}}'),
    ],
)  # fmt: skip
def test_an_added_member_is_indented_as_the_others(text: str, more: str) -> None:
    assert set_member(text, "s", "h", 2) == more
