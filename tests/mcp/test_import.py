"""`haft mcp import`: servers of a host's file become tables of haft's configuration."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haft.__main__ import main
from haft.mcp.server_import import ServerImport
from haftd.config.mcp_settings import read_server

Capture = pytest.CaptureFixture[str]

COMMENTED = '# mine\n[limits]\n# a comment\n\n[mcp.known]\ncommand = "x" # why\n'
SERVERS = """\
{
  // of my editor
  "mcpServers": {
    "files": {"command": "npx", "args": ["-y", "files", "--api-key", "s3cr3t-1", "--token=s3cr3t-2"],
              "env": {"API_TOKEN": "s3cr3t-3", "HOMEPAGE": "${env:HOMEPAGE}"}},
    "wiki": {"type": "http", "url": "https://wiki.example/mcp?key=s3cr3t-4",
             "headers": {"Authorization": "Bearer ${WIKI_TOKEN}", "X-Key": "s3cr3t-5"}},
    "known": {"command": "y"},
    "haft": {"command": "/usr/bin/haft", "args": ["mcp"]},
    "mine": {"command": "python", "args": ["-m", "haft", "mcp"]},
    "off": {"command": "z", "disabled": true},
    "old": {"type": "sse", "url": "https://old.example/sse"},
    "plain": {"url": "http://far.example/mcp"},
    "window": {"command": "w", "args": ["${workspaceFolder}"]},
    "files.": {"command": "w"},
    "é": {"command": "w"},
    "none": {},
  },
}
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of haft's configuration, which does not exist yet."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "config" / "haft"
    folder.mkdir(parents=True)
    return folder / "config.toml"


def test_servers_are_imported_and_their_secrets_are_not_shown(
    config: Path, tmp_path: Path, capsys: Capture
) -> None:
    source = tmp_path / ".cursor" / "mcp.json"
    source.parent.mkdir()
    source.write_text(SERVERS)
    config.write_text(COMMENTED)
    config.chmod(0o644)
    assert main(["mcp", "import", "cursor", "--yes"]) == 0
    out, err = capsys.readouterr()
    assert "s3cr3t" not in out + err and "[mcp.files]" in out
    text = config.read_text()
    assert text.startswith(COMMENTED)
    tables = tomllib.loads(text)["mcp"]
    assert set(tables) == {"known", "files", "wiki"}
    assert tables["files"] == {
        "command": ["npx"],
        "args": ["-y", "files", "--api-key", "s3cr3t-1", "--token=s3cr3t-2"],
        "env": {"API_TOKEN": "s3cr3t-3", "HOMEPAGE": True},
    }
    assert tables["wiki"]["headers"] == {
        "Authorization": "Bearer ${WIKI_TOKEN}",
        "X-Key": "s3cr3t-5",
    }
    for name, table in tables.items():
        read_server(name, table)
    left_out = ("known", "haft", "mine", "off", "old", "plain", "window", "files.", "é", "none")
    for name in left_out:
        assert f"{name} is skipped: " in err
    assert Path(f"{config}.haft-backup").read_text() == COMMENTED
    assert config.stat().st_mode & 0o777 == 0o600
    # A second import finds nothing new.
    assert main(["mcp", "import", "cursor", "--yes"]) == 0
    assert config.read_text() == text


def test_a_codex_file_keeps_its_limits_and_tools(config: Path, tmp_path: Path) -> None:
    source = tmp_path / "codex.toml"
    source.write_text(
        '[mcp_servers."my docs"]\nurl = "https://docs.example/mcp"\nbearer_token_env_var = "DOCS"\n'
        '[mcp_servers.git]\ncommand = "git-server"\nenv_vars = ["GIT_DIR"]\nstartup_timeout_sec = 20\n'
        'tool_timeout_sec = 60.5\nenabled_tools = ["log"]\n'
    )
    assert main(["mcp", "import", str(source), "--yes"]) == 0
    assert tomllib.loads(config.read_text())["mcp"] == {
        "my_docs": {
            "url": "https://docs.example/mcp",
            "headers": {"Authorization": "Bearer ${DOCS}"},
        },
        "git": {
            "command": ["git-server"],
            "env": {"GIT_DIR": True},
            "startup_s": 20,
            "call_s": 60.5,
            "tools": ["log"],
        },
    }


def test_nothing_is_written_without_a_yes(config: Path, tmp_path: Path, capsys: Capture) -> None:
    source = tmp_path / "mcp.json"
    source.write_text('{"servers": {"a": {"command": "x"}}}')
    assert main(["mcp", "import", str(source)]) == 2
    assert "--yes" in capsys.readouterr().err
    assert not config.exists()


@pytest.mark.parametrize("before", ["mcp = {}\n", "mcp = 1\n", "[mcp\n"])
def test_a_configuration_without_tables_is_left_alone(
    config: Path, tmp_path: Path, before: str, capsys: Capture
) -> None:
    source = tmp_path / "mcp.json"
    source.write_text('{"servers": {"a": {"command": "x"}}}')
    config.write_text(before)
    assert main(["mcp", "import", str(source), "--yes"]) == 1
    assert str(config) in capsys.readouterr().err
    assert config.read_text() == before


@pytest.mark.parametrize("text", ["[]", "{", "{}", '{"servers": []}'])
def test_a_file_without_servers_is_named(
    config: Path, tmp_path: Path, text: str, capsys: Capture
) -> None:
    source = tmp_path / "mcp.json"
    source.write_text(text)
    assert main(["mcp", "import", str(source), "--yes"]) == 1
    assert str(source) in capsys.readouterr().err


def test_an_unknown_host_is_refused_with_the_known_ones(config: Path, capsys: Capture) -> None:
    assert main(["mcp", "import", "cursr"]) == 2
    assert "did you mean 'cursor'" in capsys.readouterr().err
    assert main(["mcp", "import"]) == 2
    assert "claude-desktop, codex" in capsys.readouterr().err


PROJECTS = {
    "mcpServers": {"all": {"command": "a"}, "both": {"command": "user"}, "off": {"command": "o"}},
    "projects": {
        "/srv/site": {
            "mcpServers": {"both": {"command": "site"}, "own": {"command": "b"}},
            "disabledMcpServers": ["off"],
        },
        "/srv/other": {"mcpServers": {"far": {"command": "c"}}},
    },
}


def test_the_servers_of_the_project_win_over_those_of_the_user(
    config: Path, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / ".claude.json").write_text(json.dumps(PROJECTS))
    assert main(["mcp", "import", "claude-code", "--root", "/srv/site", "--yes"]) == 0
    tables = tomllib.loads(config.read_text())["mcp"]
    assert {name: table["command"] for name, table in tables.items()} == {
        "all": ["a"], "both": ["site"], "own": ["b"],
    }  # fmt: skip
    assert "off is skipped: the host has it switched off" in capsys.readouterr().err
    only = ServerImport(str(tmp_path / ".claude.json"), {"HOME": str(tmp_path)}, folder="/else")
    assert set(only.tables) == {"all", "both", "off"}


ASKING = """\
{
  "inputs": [
    {"id": "key", "type": "promptString", "description": "The key", "password": true},
    {"id": "team", "type": "pickString", "options": ["core", "web"], "default": "core"},
    {"id": "made", "type": "command", "command": "x"},
  ],
  "servers": {
    "issues": {
      "command": "issues", "args": ["--team=${input:team}"], "env": {"KEY": "${input:key}", "TEAM": "t-${input:team}"},
    },
    "wiki": {"url": "https://wiki.example/mcp", "headers": {"Authorization": "Bearer ${input:key}"}},
    "made": {"command": "x", "args": ["${input:made}"]},
    "unknown": {"command": "x", "args": ["${input:none}"]},
    "plain": {"command": "p"},
  },
}
"""


def test_inputs_of_the_host_are_asked_for_once_each(config: Path, tmp_path: Path) -> None:
    source = tmp_path / "mcp.json"
    source.write_text(ASKING)
    servers = ServerImport(str(source), {"HOME": str(tmp_path)}, can_ask=True)
    assert set(servers.left_out) == {"made", "unknown"}
    assert servers.inputs["key"] == ("The key", True, "")
    assert servers.inputs["team"] == ("team", False, "core")
    assert '"--team=${input:team}"' in servers.shown()
    servers.fill({"key": "s3cr3t", "team": "web"})
    assert "s3cr3t" not in servers.shown()
    servers.write()
    tables = tomllib.loads(servers.config.read_text())["mcp"]
    assert tables["issues"]["args"] == ["--team=web"]
    assert tables["issues"]["env"] == {"KEY": "s3cr3t", "TEAM": "t-web"}
    assert tables["wiki"]["headers"] == {"Authorization": "Bearer s3cr3t"}
    for name, table in tables.items():
        read_server(name, table)


def test_a_server_that_asks_is_left_out_where_no_person_can_answer(
    config: Path, tmp_path: Path, capsys: Capture
) -> None:
    source = tmp_path / "mcp.json"
    source.write_text(ASKING)
    # Without a terminal: shown, and nothing written.
    assert main(["mcp", "import", str(source)]) == 2
    assert "[mcp.issues]" in capsys.readouterr().out and not config.exists()
    assert main(["mcp", "import", str(source), "--yes"]) == 0
    assert set(tomllib.loads(config.read_text())["mcp"]) == {"plain"}
    assert (
        "issues is skipped: it asks for 'team'; import it in a terminal" in capsys.readouterr().err
    )


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SERVER = st.fixed_dictionaries(
    {},
    optional={
        "command": TEXTS,
        "args": st.lists(TEXTS, max_size=3),
        "env": st.dictionaries(st.sampled_from(["A", "B_1", "x"]), TEXTS, max_size=2),
        "url": st.just("https://a.example/") | TEXTS,
        "headers": st.dictionaries(st.sampled_from(["X-A", "B"]), TEXTS, max_size=2),
    },
)


@given(servers=st.dictionaries(TEXTS, SERVER, max_size=3))
def test_any_server_is_left_out_or_imported_unchanged(
    tmp_path_factory: pytest.TempPathFactory, servers: dict[str, Any]
) -> None:
    folder = tmp_path_factory.mktemp("import")
    source = folder / "mcp.json"
    source.write_text(json.dumps({"servers": servers}))
    taken = ServerImport(str(source), {"HOME": str(folder)})
    assert len(taken.tables) + len(taken.left_out) == len(servers)
    taken.shown()
    if taken.tables:
        taken.write()
        written = tomllib.loads(taken.config.read_bytes().decode())["mcp"]
        assert written == taken.tables
        for name, table in written.items():
            read_server(name, table)
