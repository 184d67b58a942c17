from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from haft_protocol.methods import LimitsResult
from haftd.config.command_line import EXIT_CONFIG
from haftd.config.inquiry_settings import InquiryCommand
from haftd.config.mcp_settings import McpServer
from haftd.config.options import ConfigError, Options, Paths, find_paths, read_options
from haftd.config.settings import Settings, WebSocketSettings, load_settings

MIB = 1024 * 1024


def places(folder: Path, **options: str) -> Paths:
    env = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config")}
    return find_paths(env, 1000, Options(**options))  # type: ignore[arg-type]


def written(folder: Path, text: str, **further: str) -> Paths:
    """Return paths whose configuration file contains `text`, with further files in the tools
    folder."""
    tools = folder / "config" / "haft" / "tools"
    tools.mkdir(parents=True, exist_ok=True)
    (tools.parent / "config.toml").write_text(text)
    for name, content in further.items():
        (tools / f"{name}.toml").write_text(content)
    return places(folder)


EXAMPLE = """
[daemon]
max_handles = 2048
retain_stopped_s = 600
abort_grace_ms = 2000
approval_timeout_s = 600
secret_env = ["*_TOKEN", "*_KEY", "*_SECRET", "*PASSWORD*"]

[spool]
memory = "1 MiB"
disk = "64 MiB"
total = "2 GiB"

[inquiry]
backends = ["client"]

[toolpack]
enable = ["run", "shell", "git_stage", "git_rebase"]
"""


def test_the_documented_example_equals_the_defaults(tmp_path: Path) -> None:
    assert load_settings(places(tmp_path)) == (Settings(), [])
    assert load_settings(written(tmp_path, EXAMPLE)) == (Settings(), [])


def test_every_limit_of_the_protocol_has_a_key(tmp_path: Path) -> None:
    assert Settings().limits == LimitsResult(
        max_message=8 * MIB,
        max_nesting=64,
        max_values=100_000,
        max_batch=256,
        max_connections=256,
        max_in_flight=1024,
        max_handles_session=256,
        max_handles=2048,
        max_queued=8 * MIB,
    )
    for name in LimitsResult.__struct_fields__:
        settings, problems = load_settings(written(tmp_path, f"[daemon]\n{name} = 100000\n"))
        if name == "max_nesting":
            assert [p.key for p in problems] == ["daemon.max_nesting"]
        else:
            assert problems == []
            assert getattr(settings.limits, name) == 100_000


@pytest.mark.parametrize(
    ("key", "least", "most"),
    [
        ("retain_stopped_s", 0, 31_536_000),
        ("approval_timeout_s", 0, 31_536_000),
        ("question_timeout_s", 0, 31_536_000),
        ("abort_grace_ms", 0, 600_000),
    ],
)
def test_bounds_of_a_duration_are_part_of_the_range(
    tmp_path: Path, key: str, least: int, most: int
) -> None:
    def problems(value: int) -> list[str]:
        _, problems = load_settings(written(tmp_path, f"[daemon]\n{key} = {value}\n"))
        return [problem.key for problem in problems]

    assert problems(least) == problems(most) == []
    assert problems(least - 1) == problems(most + 1) == [f"daemon.{key}"]


def test_all_sections_are_read(tmp_path: Path) -> None:
    settings, problems = load_settings(
        written(
            tmp_path,
            """
[daemon]
max_message = "16 MiB"
retain_stopped_s = 1.5
cgroup = "off"
[websocket]
port = 0
host = "::1"
origins = ["https://editor.example"]
hosts = ["localhost", "127.0.0.1"]
[mcp.github]
command = ["server", "stdio"]
env = { A = "b" }
tools = ["search"]
start = "eager"
[mcp.web]
url = "https://example.org/mcp"
[toolpack]
enable = ["run"]
[tools.x]
command = "a"
[conversation.tools.y]
command = "a"
""",
        )
    )
    assert problems == []
    assert settings.daemon.max_message == 16 * MIB
    assert (settings.daemon.retain_stopped_s, settings.daemon.cgroup) == (1.5, "off")
    assert settings.websocket == WebSocketSettings(
        port=0, host="::1", origins=("https://editor.example",), hosts=("localhost", "127.0.0.1")
    )
    assert settings.mcp["github"] == McpServer(
        command=("server", "stdio"), env={"A": "b"}, tools=("search",), start="eager"
    )
    assert settings.mcp["web"].url == "https://example.org/mcp"
    assert settings.toolpack.enable == ("run",)


WRONG = [
    ('[daemon]\nmax_handles = "many"', "daemon.max_handles"),
    ("[daemon]\nmax_handles = 0", "daemon.max_handles"),
    ("[daemon]\nmax_handles = true", "daemon.max_handles"),
    ("[daemon]\nmax_handles = 1.5", "daemon.max_handles"),
    ("[daemon]\nmax_handels = 5", "daemon.max_handels"),
    ('[daemon]\nmax_message = "8 MB/s"', "daemon.max_message"),
    ("[daemon]\nmax_message = 10", "daemon.max_message"),
    ('[daemon]\nsecret_env = "A"', "daemon.secret_env"),
    ("[daemon]\nsecret_env = [3]", "daemon.secret_env"),
    ('[daemon]\ncgroup = "maybe"', "daemon.cgroup"),
    ("[daemon]\nretain_stopped_s = nan", "daemon.retain_stopped_s"),
    ("[daemon]\nretain_stopped_s = inf", "daemon.retain_stopped_s"),
    ('[spool]\nmemory = "-1 MiB"', "spool.memory"),
    ('[toolpack]\nenable = ["rum"]', "toolpack.enable"),
    ('[inquiry]\nbackends = ["oracle"]', "inquiry.backends"),
    ('[inquiry.command]\nargv = "ask"', "inquiry.command.argv"),
    ("[inquiry.command]\nargv = []", "inquiry.command.argv"),
    ('[inquiry.command]\nargv = ["ask"]\ntimeout = 5', "inquiry.command.timeout"),
    ('[inquiry.command]\nargv = ["ask"]\ntimeout_s = 0', "inquiry.command.timeout_s"),
    ('[inquiry.static]\ntool = "yes"', "inquiry.static.tool"),
    ('[inquiry.static.tool]\nsure = ["yes"]', "inquiry.static.tool.sure"),
    ("[mcp]\nx = 3", "mcp.x"),
    ("[mcp.x]\ntools = 3", "mcp.x.tools"),
    ('[mcp.x]\ncommand = ["a"]\nurl = "https://b"', "mcp.x"),
    ('[mcp.x]\nurl = "http://elsewhere.example"', "mcp.x.url"),
    ('[mcp.x]\nurl = "https://b"\nargs = ["c"]', "mcp.x.args"),
    ('[mcp.x]\nurl = "https://[b"', "mcp.x.url"),
    ('[mcp.x]\nurl = "https://b:port"', "mcp.x.url"),
    ('[mcp.x]\nurl = "https://:word@b"', "mcp.x.url"),
    ('[mcp.x]\ncommand = "a"\nheaders = { a = "b" }', "mcp.x.headers"),
    ('[mcp.x]\ncommand = "a"\nenv.HAFT_HANDLE = "b"', "mcp.x.env.HAFT_HANDLE"),
    ('[mcp.x]\ncommand = "a"\ncwd = "b"', "mcp.x.cwd"),
    ('[mcp.x]\ncommand = "/usr/bin/haft mcp"', "mcp.x.command"),
    ('[mcp."a.b"]\ncommand = "a"', "mcp.a.b"),
    ('[mcp.x]\ncommand = ["a"]\nstrt = "lazy"', "mcp.x.strt"),
    ("[deamon]\na = 1", "deamon"),
    ("daemon = 3", "daemon"),
    ("mcp = 3", "mcp"),
]


@pytest.mark.parametrize(("text", "key"), WRONG)
def test_an_invalid_key_is_named_and_the_default_stands(
    tmp_path: Path, text: str, key: str
) -> None:
    settings, problems = load_settings(written(tmp_path, f"# first line\n{text}\n"))
    assert [(p.key, p.file) for p in problems] == [(key, places(tmp_path).config)]
    assert problems[0].line in (2, 3, 4)
    assert settings == Settings()


def test_a_backend_without_configuration_is_left_out(tmp_path: Path) -> None:
    text = '[inquiry]\nbackends = ["command", "client"]\n'
    settings, problems = load_settings(written(tmp_path, text))
    assert settings.inquiry.backends == ("client",) and [p.key for p in problems] == [
        "inquiry.backends"
    ]
    settings, problems = load_settings(written(tmp_path, f'{text}command.argv = ["ask", "-q"]\n'))
    assert settings.inquiry.backends == ("command", "client") and problems == []
    assert settings.inquiry.command == InquiryCommand(argv=("ask", "-q"), timeout_s=600)


def test_an_invalid_key_does_not_drop_its_neighbours(tmp_path: Path) -> None:
    settings, problems = load_settings(
        written(tmp_path, "[daemon]\nmax_batch = 0\nmax_handles = 5\n")
    )
    assert len(problems) == 1
    assert (settings.daemon.max_batch, settings.daemon.max_handles) == (256, 5)


@pytest.mark.parametrize(
    "text",
    [
        'host = "0.0.0.0"',
        'host = "192.168.1.1"',
        'host = "example.org"',
        "host = 3",
        "port = 70000",
        'port = "ws"',
        'hosts = ["a b"]',
        'hosts = ["box:"]',
        'hosts = ["box:port"]',
        'origins = "*"',
    ],
)
def test_W16_an_invalid_websocket_setting_disables_the_websocket(tmp_path: Path, text: str) -> None:
    """Rather none than a listener on another address."""
    port = "" if text.startswith("port") else "port = 0\n"
    settings, problems = load_settings(written(tmp_path, f"[websocket]\n{port}{text}\n"))
    assert settings.websocket is None
    assert "the WebSocket stays off" in problems[0].message


def test_without_a_port_there_is_no_websocket(tmp_path: Path) -> None:
    settings, problems = load_settings(written(tmp_path, '[websocket]\norigins = ["https://a"]\n'))
    assert (settings.websocket, problems) == (None, [])


def test_later_files_override_key_by_key(tmp_path: Path) -> None:
    paths = written(
        tmp_path,
        "[daemon]\nmax_handles = 1\nmax_batch = 1\n",
        a="[daemon]\nmax_handles = 2\n",
        b="[daemon]\nmax_handles = 3\nmax_in_flight = 0\n",
    )
    settings, problems = load_settings(paths)
    assert (settings.daemon.max_handles, settings.daemon.max_batch) == (3, 1)
    assert [p.key for p in problems] == ["daemon.max_in_flight"]


def test_sections_of_other_programs_are_skipped(tmp_path: Path) -> None:
    text = '[assistant]\nname = "x"\n[conversation.tools.x]\ncommand = "a"\n'
    assert load_settings(written(tmp_path, "", a=text)) == (Settings(), [])


@pytest.mark.parametrize(
    ("spoil", "reason", "line"),
    [
        (lambda path: path.write_text("\n[daemon\n"), "it is not valid TOML: ", 2),
        (lambda path: path.write_bytes(b"# \xff"), "it is not UTF-8", None),
        (lambda path: path.chmod(0o666), "it is writable by everybody", None),
        (lambda path: path.unlink() or path.mkdir(), "it is not a regular file", None),
    ],
)
def test_the_lost_settings_of_an_unreadable_file_are_a_problem_with_a_remedy(
    tmp_path: Path, spoil: Callable[[Path], None], reason: str, line: int | None
) -> None:
    paths = written(tmp_path, "[daemon]\nmax_handles = 3\n", a="[daemon")
    spoil(Path(paths.config))
    settings, (problem,) = load_settings(paths)
    assert settings == Settings()
    assert (problem.file, problem.line) == (paths.config, UNSET if line is None else line)
    assert problem.message.startswith(f"its settings are not read: {reason}")
    assert "`haft reload`" in str(problem.advice)


@pytest.mark.parametrize("spoilt", ["config.toml", "tools/a.toml", "tools"])
def test_a_reload_keeps_the_settings_that_an_unreadable_file_may_have(
    tmp_path: Path, spoilt: str
) -> None:
    server = '[mcp.{0}]\ncommand = ["{0}"]\n'
    text = '[toolpack]\nenable = []\n[inquiry]\nbackends = ["client"]\n' + server.format("x")
    paths = written(tmp_path, text, a=server.format("y"), b="[spool]\nmemory = 65_536\n")
    before, problems = load_settings(paths)
    assert before.mcp.keys() == {"x", "y"} and not problems
    file = tmp_path / "config" / "haft" / spoilt
    if file.is_dir():
        file.chmod(0o777)
    else:
        file.write_text("[daemon")
    assert load_settings(paths, before)[0] == before
    assert load_settings(paths)[0] != before


def test_a_reload_drops_what_no_file_has_any_more(tmp_path: Path) -> None:
    before, _ = load_settings(written(tmp_path, '[mcp.x]\ncommand = ["x"]\n', a="# empty\n"))
    after, problems = load_settings(written(tmp_path, ""), before)
    assert (after, problems) == (Settings(), [])
    Path(places(tmp_path).config).unlink()
    assert load_settings(places(tmp_path), before) == (Settings(), [])


def test_without_a_configuration_file_nothing_is_a_problem(tmp_path: Path) -> None:
    assert load_settings(places(tmp_path)) == (Settings(), [])


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load_settings(places(tmp_path, config=str(tmp_path / "nope.toml")))
    assert EXIT_CONFIG == 78


def test_L04_a_socket_path_over_the_limit_is_reported_before_binding(
    tmp_path: Path,
) -> None:
    path = "/" + "x" * 107
    with pytest.raises(ConfigError) as caught:
        places(tmp_path, socket=path)
    for said in (path, "108", "107"):
        assert said in str(caught.value)


def test_without_a_home_the_message_names_the_variable() -> None:
    with pytest.raises(ConfigError, match="HOME"):
        find_paths({}, 1000)


def test_all_paths_follow_from_the_environment() -> None:
    env = {"HOME": "/h", "XDG_RUNTIME_DIR": "/run/user/1000", "XDG_STATE_HOME": "/s"}
    paths = find_paths(env, 1000)
    assert paths.socket == "/run/user/1000/haft/haftd.sock"
    assert (paths.state, paths.spool) == ("/s/haft", "/s/haft/spool")
    assert paths.definitions == (Path("/h/.config/haft/config.toml"), Path("/h/.config/haft/tools"))


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    given_all = ["--config", "/c", "--socket", "/s", "--log-level", "debug", "--log-format", "json"]
    assert read_options(given_all) == Options(
        config="/c", socket="/s", log_level="debug", log_format="json"
    )
    assert read_options([]) == Options()
    assert read_options(["--socket", "rel"]).socket == str(Path.cwd() / "rel")
    with pytest.raises(SystemExit) as caught:
        read_options(["--log-level", "loud"])
    assert caught.value.code == 2
    assert "loud" in capsys.readouterr().err


VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats()
LINES = st.builds(
    lambda key, value: f"{key} = {value}",
    st.sampled_from(["max_handles", "max_message", "secret_env", "port", "host", "command", "x"]),
    st.sampled_from(["1", "-1", "true", '"1 MiB"', "[]", "{}", '["a"]', "1.5", "inf", '""']),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(
        st.builds(
            lambda section, lines: "\n".join([f"[{section}]", *lines]),
            st.sampled_from(
                ["daemon", "spool", "websocket", "mcp.a", "toolpack", "tools.a", "odd"]
            ),
            st.lists(LINES, max_size=4, unique_by=lambda line: line.split()[0]),
        ),
        max_size=4,
        unique_by=lambda text: text.partition("]")[0],
    )
)
def test_any_file_yields_settings(tmp_path: Path, parts: list[str]) -> None:
    text = "\n".join(parts)
    tomllib.loads(text)
    found, problems = load_settings(written(tmp_path, text))
    assert found.limits.max_handles >= 1
    assert all(problem.file and problem.message for problem in problems)
