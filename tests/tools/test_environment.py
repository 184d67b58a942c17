from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haft_protocol.errors import RpcError
from haftd.config.settings import DaemonSettings
from haftd.tools.calls.environment import (
    MAX_CALL_BYTES,
    Variables,
    build,
    find_granted_variables,
    make_call_value,
    path_of,
)

from .definition_kit import called, environment, tool

SECRETS = DaemonSettings().secret_env
BASE = {"PATH": "/usr/bin:/bin", "HOME": "/home/a", "LANG": "de_DE.UTF-8", "MORE": "1"}


def made(base: Mapping[str, str] = BASE, **options: object) -> dict[str, str]:
    return build(base, secret_env=SECRETS, socket="/s", mark="m", call="{}", **options)  # type: ignore[arg-type]


def dumped(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment that a child reports."""
    done = subprocess.run(["/usr/bin/env", "-0"], env=env, capture_output=True, check=True)
    return dict(item.split("=", 1) for item in done.stdout.decode().split("\0") if item)


def test_X05_secrets_of_the_daemon_do_not_reach_tools() -> None:
    secret = {
        "OPENAI_API_KEY": "canary",
        "GITHUB_TOKEN": "canary",
        "github_token": "canary",
        "AWS_SECRET": "canary",
        "PGPASSWORD": "canary",
        "MY_PASSWORD_FILE": "canary",
    }
    for env in (made({**BASE, **secret}), made(BASE, client={**BASE, **secret})):
        child = dumped(env)
        assert "canary" not in str(child)
        assert child["MORE"] == "1"


def test_remembered_variables_give_the_same_environment() -> None:
    base = {**BASE, "A_TOKEN": "canary", "BAD=NAME": "x"}
    for variables in (Variables(base), Variables({**base, "PATH": "/bin"})):
        for _ in range(2):
            assert made(variables) == made(dict(variables))
            assert made(variables, terminal=True) == made(dict(variables), terminal=True)
            assert made(variables, may_inherit=lambda _: True) == made(variables)
            assert path_of(variables) == path_of(dict(variables))
    env = made(variables)
    env["PATH"] = "changed"
    assert made(variables)["PATH"] == "/bin"


def test_X05_a_definition_passes_a_secret_on_by_name() -> None:
    own = tool('[tools.x]\ncommand = "a"\nenv = { GITHUB_TOKEN = true, MISSING = true }\n')
    base = {**BASE, "GITHUB_TOKEN": "given", "OTHER_TOKEN": "canary"}
    env = made(base, overlay=called(own, {}).env_overlay)
    assert env["GITHUB_TOKEN"] == "given"
    assert "MISSING" not in env
    assert "OTHER_TOKEN" not in env


def test_secret_patterns_are_the_users() -> None:
    env = build({**BASE, "A_TOKEN": "1"}, secret_env=("MORE",), socket="/s", mark="m", call="{}")
    assert env["A_TOKEN"] == "1"
    assert "MORE" not in env


def test_P36_no_path_to_the_user_manager_is_left() -> None:
    names = ("DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "NOTIFY_SOCKET", "LISTEN_FDS")
    base = {**BASE, **dict.fromkeys(names, "x")}
    for env in (made(base), made(BASE, client=dict.fromkeys(names, "x"))):
        assert not set(names) & set(env)


def test_haft_variables_come_from_the_daemon_alone() -> None:
    env = made(
        {**BASE, "HAFT_SOCKET": "x", "HAFT_HANDLE": "old", "HAFT_CALL": "old", "HAFT_ARG": "x"}
    )
    ours = {name: value for name, value in env.items() if name.startswith("HAFT_")}
    assert ours == {"HAFT_CALL": "{}", "HAFT_HANDLE": "m", "HAFT_SOCKET": "/s"}
    assert list(env)[-1] == "HAFT_HANDLE"
    assert made(overlay={"HAFT_HANDLE": "forged"})["HAFT_HANDLE"] == "m"
    assert made(client={"HAFT_SOCKET": "forged"})["HAFT_SOCKET"] == "/s"


def test_pipes_and_terminals_get_fitting_variables() -> None:
    base = {
        **BASE,
        "TERM": "vt52",
        "COLUMNS": "3",
        "LINES": "3",
        "FORCE_COLOR": "1",
        "TERMCAP": "x",
    }
    pipe, terminal = made(base), made(base, terminal=True)
    assert (pipe["TERM"], pipe["NO_COLOR"]) == ("dumb", "1")
    assert "FORCE_COLOR" not in pipe
    assert terminal["TERM"] == "xterm-256color"
    assert "NO_COLOR" not in terminal
    for env in (pipe, terminal):
        assert (env["PAGER"], env["GIT_PAGER"], env["GIT_TERMINAL_PROMPT"]) == ("cat", "cat", "0")
        assert not {"COLUMNS", "LINES", "TERMCAP"} & set(env)


def test_the_definition_overrides_these_variables() -> None:
    overlay = {"TERM": "vt100", "PAGER": None, "LANG": "C", "COLUMNS": "99", "PATH": "bin:/x"}
    env = made(overlay=overlay)
    assert (env["TERM"], env["LANG"], env["COLUMNS"], env["PATH"]) == ("vt100", "C", "99", "bin:/x")
    assert "PAGER" not in env


@pytest.mark.parametrize(
    ("given_names", "expected"),
    [
        ({}, {"LANG": "C.UTF-8"}),
        ({"LANG": "C"}, {"LANG": "C.UTF-8"}),
        ({"LANG": "de_DE.ISO-8859-1"}, {"LANG": "C.UTF-8"}),
        ({"LANG": "de_DE.utf8@euro"}, {"LANG": "de_DE.utf8@euro"}),
        ({"LANG": "C", "LC_ALL": "de_DE.UTF-8"}, {"LANG": "C.UTF-8", "LC_ALL": "de_DE.UTF-8"}),
        ({"LANG": "de_DE.UTF-8", "LC_ALL": "C"}, {"LANG": "de_DE.UTF-8", "LC_ALL": "C.UTF-8"}),
        (
            {"LANG": "de_DE.UTF-8", "LC_CTYPE": "POSIX"},
            {"LANG": "de_DE.UTF-8", "LC_CTYPE": "C.UTF-8"},
        ),
        ({"LANG": "de_DE.UTF-8", "LC_ALL": ""}, {"LANG": "de_DE.UTF-8", "LC_ALL": ""}),
    ],
)
def test_text_is_utf8_in_any_locale_of_the_daemon(
    given_names: dict[str, str], expected: dict[str, str]
) -> None:
    env = made({"PATH": "/bin", **given_names})
    assert {name: env[name] for name in env if name in ("LANG", "LC_ALL", "LC_CTYPE")} == expected


def test_a_client_replaces_the_daemons_environment_except_a_few_names() -> None:
    base = {**BASE, "USER": "a", "LOGNAME": "a", "SHELL": "/bin/sh", "ONLY_OURS": "1"}
    env = made(base, client={"THEIRS": "1", "HOME": "/other", "USER": None})
    assert env["THEIRS"] == "1"
    assert env["HOME"] == "/other"
    assert (env["PATH"], env["LOGNAME"], env["SHELL"]) == ("/usr/bin:/bin", "a", "/bin/sh")
    assert env["LANG"] == "de_DE.UTF-8"
    assert not {"ONLY_OURS", "USER", "MORE"} & set(env)


@pytest.mark.parametrize("env", [{"A=B": "x"}, {"": "x"}, {"A\0": "x"}, {"A": "x\0y"}])
def test_an_invalid_client_variable_name_is_refused(env: dict[str, str | None]) -> None:
    with pytest.raises(RpcError) as caught:
        made(client=env)
    assert caught.value.kind == "invalid_params"


def test_a_client_value_that_no_process_accepts_is_refused() -> None:
    with pytest.raises(RpcError) as caught:
        made(client={"A": "x" * 131_070})
    assert caught.value.kind == "limit_exceeded"
    assert "x" * 20 not in caught.value.message
    assert len(dumped(made(client={"A": "x" * 131_069}))["A"]) == 131_069


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".:/bin::bin:/usr/bin:", "/bin:/usr/bin"),
        ("", "/usr/local/bin:/usr/bin:/bin"),
        (None, "/usr/local/bin:/usr/bin:/bin"),
    ],
)
def test_X12_no_folder_of_PATH_is_relative(path: str | None, expected: str) -> None:
    base = {} if path is None else {"PATH": path}
    assert made(base)["PATH"] == expected
    assert path_of(base) == expected
    assert path_of({"PATH": "/a"}, {"PATH": "/b"}) == "/b"
    assert path_of({"PATH": "/a"}, {"PATH": None}) == "/usr/local/bin:/usr/bin:/bin"


def test_a_long_call_is_passed_in_a_file() -> None:
    short, long = "x" * MAX_CALL_BYTES, "x" * (MAX_CALL_BYTES + 1)
    written: list[bytes] = []

    def write(data: bytes) -> str:
        written.append(data)
        return "/path"

    assert make_call_value(short, write) == short
    assert make_call_value(long, write) == "/path"
    assert written == [long.encode()]


def test_variables_of_another_terminal_or_shell_are_removed() -> None:
    names = ("PWD", "OLDPWD", "SHLVL", "_", "GPG_TTY", "SSH_TTY", "TERM_PROGRAM", "WINDOWID")
    assert not set(names) & set(made({**BASE, **dict.fromkeys(names, "x")}))


@given(
    st.dictionaries(st.text(), st.text()),
    st.none() | st.dictionaries(st.text(), st.none() | st.text()),
)
def test_any_environment_becomes_a_valid_one(
    base: dict[str, str], client: dict[str, str | None] | None
) -> None:
    try:
        env = made(base, client=client)
    except RpcError as error:
        assert error.kind in ("invalid_params", "limit_exceeded")
        return
    for name, value in env.items():
        assert name
        assert "=" not in name
        assert "\0" not in name + value
    assert env["HAFT_HANDLE"] == "m"
    assert "PATH" in env


def test_values_of_a_script_reach_its_process() -> None:
    """The overlay may set haft's own names, which a base may not."""
    own = tool("""
[tools.x]
command = { program = "echo {{ tool.name }}", shell = true }
""")
    assert environment(called(own, {}), BASE)["HAFT_VALUE_0"] == "x"


HELPER = "/opt/bin/haft-askpass"
ASKERS = ("SUDO_ASKPASS", "SSH_ASKPASS", "GIT_ASKPASS")


@pytest.mark.parametrize("terminal", [False, True])
def test_secrets_are_asked_through_the_daemon_whatever_the_client_has(terminal: bool) -> None:
    theirs = {**dict.fromkeys(ASKERS, "/theirs"), "SSH_ASKPASS_REQUIRE": "never"}
    for options in ({"base": {**BASE, **theirs}}, {"client": theirs}):
        env = made(**options, askpass=HELPER, terminal=terminal)
        assert {env[name] for name in ASKERS} == {HELPER}
        assert env.get("SSH_ASKPASS_REQUIRE") == (None if terminal else "force")


def test_a_definition_overrides_the_askpass_helper() -> None:
    own = '[tools.x]\ncommand = "a"\nenv = { SSH_ASKPASS = "/own", GIT_ASKPASS = true }\n'
    overlay = {**called(tool(own), {}).env_overlay, "SUDO_ASKPASS": None}
    env = made({**BASE, "GIT_ASKPASS": "/theirs"}, askpass=HELPER, overlay=overlay)
    assert (env["SSH_ASKPASS"], env["GIT_ASKPASS"]) == ("/own", "/theirs")
    assert "SUDO_ASKPASS" not in env


def test_without_the_helper_no_askpass_variable_is_set() -> None:
    env = made({**BASE, "SSH_ASKPASS": "/theirs"})
    assert env["SSH_ASKPASS"] == "/theirs"
    assert not {"SUDO_ASKPASS", "GIT_ASKPASS", "SSH_ASKPASS_REQUIRE"} & env.keys()


def test_host_calls_get_a_secret_variable_by_its_own_name_only() -> None:
    base = {"API_TOKEN": "secret", "API_URL": "plain", "OTHER": "x", "EMPTY": ""}
    granted = partial(find_granted_variables, base, None, ("*TOKEN*",))
    assert granted(lambda name: True, ["API_*"]) == {"API_URL": "plain", "OTHER": "x"}
    assert granted(lambda name: name.startswith("API"), ["API_TOKEN"]) == {
        "API_TOKEN": "secret",
        "API_URL": "plain",
    }


@pytest.mark.parametrize("name", ["API_TOKEN", "PLAIN"])
def test_no_cache_keeps_a_value_of_a_clients_environment(name: str) -> None:
    base, value = Variables({"PATH": "/bin"}), f"value of {object()}"
    before = sys.getrefcount(value)
    for terminal in (False, True):
        env = build(
            base,
            client={name: value},
            secret_env=("*TOKEN*",),
            terminal=terminal,
            socket="/s",
            mark="m",
            call="{}",
        )
        assert (name in env) == (name == "PLAIN")
        del env
    assert sys.getrefcount(value) == before
