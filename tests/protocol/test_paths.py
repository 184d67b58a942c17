from __future__ import annotations

import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haft_protocol.paths import (
    MAX_SOCKET_PATH,
    PathError,
    config_file,
    machine_lock,
    machine_name,
    modules_folder,
    socket_path,
    state_folder,
    tools_folder,
    with_login_folder,
)
from haft_protocol.runtime_paths import runtime_paths


def test_haft_socket_comes_first_then_the_runtime_folder_then_tmp() -> None:
    env = {"HAFT_SOCKET": "/s/x.sock", "XDG_RUNTIME_DIR": "/run/user/7"}
    assert socket_path(env, 7, socket="/o/y.sock") == "/o/y.sock"
    assert socket_path(env, 7) == "/s/x.sock"
    assert socket_path({"XDG_RUNTIME_DIR": "/run/user/7"}, 7) == "/run/user/7/haft/haftd.sock"
    assert socket_path({}, 7) == "/tmp/haft-7/haftd.sock"


def folder_facts(mode: int, uid: int) -> os.stat_result:
    return os.stat_result((mode, 1, 1, 1, uid, uid, 0, 0, 0, 0))


@pytest.mark.parametrize("value", [None, "", "relative"])
def test_the_login_folder_is_used_without_the_variable(value: str | None) -> None:
    """A host that starts its children with six variables leads to the daemon of the terminal
    beside."""
    env = {"HOME": "/h"} if value is None else {"HOME": "/h", "XDG_RUNTIME_DIR": value}
    asked: list[str] = []

    def lstat(path: str) -> os.stat_result:
        asked.append(path)
        return folder_facts(stat.S_IFDIR | 0o700, 7)

    assert socket_path(with_login_folder(env, 7, lstat), 7) == "/run/user/7/haft/haftd.sock"
    assert asked == ["/run/user/7"]
    chosen = {"XDG_RUNTIME_DIR": "/x"}
    assert with_login_folder(chosen, 7, lstat) == chosen and asked == ["/run/user/7"]


@pytest.mark.parametrize(
    ("mode", "uid"),
    [
        (stat.S_IFDIR | 0o700, 8),
        (stat.S_IFDIR | 0o720, 7),
        (stat.S_IFDIR | 0o702, 7),
        (stat.S_IFLNK | 0o777, 7),
        (stat.S_IFREG | 0o600, 7),
        (0, 0),
    ],
)
def test_a_login_folder_with_other_users_access_is_not_used(mode: int, uid: int) -> None:
    def lstat(path: str) -> os.stat_result:
        if not mode:
            raise FileNotFoundError(path)
        return folder_facts(mode, uid)

    assert socket_path(with_login_folder({}, 7, lstat), 7) == "/tmp/haft-7/haftd.sock"


@pytest.mark.parametrize("value", ["", "relative", "run/user/7"])
def test_a_variable_without_a_valid_folder_counts_as_absent(value: str) -> None:
    assert socket_path({"XDG_RUNTIME_DIR": value}, 7) == "/tmp/haft-7/haftd.sock"
    assert socket_path({"HAFT_SOCKET": ""}, 7) == "/tmp/haft-7/haftd.sock"
    env = {"HOME": "/h", "XDG_CONFIG_HOME": value, "XDG_STATE_HOME": value}
    assert config_file(env) == "/h/.config/haft/config.toml"
    assert state_folder(env) == "/h/.local/state/haft"
    assert modules_folder(env | {"XDG_CACHE_HOME": value}) == "/h/.cache/haft/modules"


def test_a_trailing_slash_changes_nothing() -> None:
    assert socket_path({"XDG_RUNTIME_DIR": "/run/u//"}, 7) == "/run/u/haft/haftd.sock"


def test_L04_a_chosen_path_over_the_limit_is_refused_with_path_length_and_limit() -> None:
    path = "/" + "x" * (MAX_SOCKET_PATH - 1)
    assert socket_path({"HAFT_SOCKET": path}, 7) == path
    for env, option in (({"HAFT_SOCKET": path + "y"}, None), ({}, path + "y")):
        with pytest.raises(PathError) as caught:
            socket_path(env, 7, socket=option)
        for part in (path + "y", "108", "107", "--socket" if option else "HAFT_SOCKET"):
            assert part in str(caught.value)


def test_the_length_of_a_path_is_counted_in_bytes() -> None:
    with pytest.raises(PathError):
        socket_path({"HAFT_SOCKET": "/" + "é" * 60}, 7)


@pytest.mark.parametrize("path", ["rel.sock", "\0abstract", "/a\0b", "/folder/", "@abstract"])
def test_U03_a_path_that_is_no_absolute_file_is_refused(path: str) -> None:
    with pytest.raises(PathError, match="HAFT_SOCKET"):
        socket_path({"HAFT_SOCKET": path}, 7)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=80, max_size=300))
def test_a_long_runtime_folder_is_replaced_by_a_short_one(name: str) -> None:
    base = "/" + name
    found = socket_path({"XDG_RUNTIME_DIR": base}, 7)
    assert len(found.encode()) <= MAX_SOCKET_PATH
    assert found == socket_path({"XDG_RUNTIME_DIR": base, "HOME": "/h", "LANG": "C"}, 7)
    if not found.startswith(base):
        assert found.startswith("/tmp/haft-7/")
        assert found != socket_path({}, 7)
        assert found != socket_path({"XDG_RUNTIME_DIR": base + "2"}, 7)
        assert found != socket_path({"XDG_RUNTIME_DIR": base}, 8)


def test_a_folder_name_with_invalid_utf8_is_kept() -> None:
    assert socket_path({"XDG_RUNTIME_DIR": "/\udcff"}, 7) == "/\udcff/haft/haftd.sock"
    assert socket_path({"XDG_RUNTIME_DIR": "/" + "\udcff" * 100}, 7).startswith("/tmp/haft-7/")


def test_runtime_files_are_beside_the_socket() -> None:
    found = runtime_paths({"XDG_RUNTIME_DIR": "/run/user/7"}, 7)
    assert found.folder == "/run/user/7/haft"
    assert found.token == "/run/user/7/haft/token"
    assert found.handles_lock == "/run/user/7/haft/handles.lock"
    assert found.daemon_lock == "/run/user/7/haft/daemon.lock"
    assert found.recover_lock == "/run/user/7/haft/recover.lock"
    assert found.ours
    found = runtime_paths({"HAFT_SOCKET": "/s/a.sock"}, 7)
    assert (found.folder, found.token, found.ours) == ("/s", "/s/token", False)
    found = runtime_paths({}, 7, socket="/a.sock")
    assert (found.folder, found.token) == ("/", "/token")


MACHINE = "0123456789abcdef0123456789abcdef"


def test_a_machine_has_one_name_that_does_not_disclose_its_id() -> None:
    name = machine_name(f"{MACHINE}\n", "boot", 1)
    assert name == machine_name(MACHINE, "another boot", 2) != machine_name("f" * 32, "boot", 1)
    assert len(name) == 16 and name not in MACHINE
    assert machine_lock("/s/haft", name) == f"/s/haft/daemon-{name}.lock"


@pytest.mark.parametrize("text", ["", "uninitialized\n", MACHINE[1:], MACHINE.upper()])
def test_without_a_machine_id_boot_and_pid_namespace_identify_the_machine(text: str) -> None:
    names = {machine_name(text, boot, ns) for boot in ("a\n", "b") for ns in (1, 2)}
    assert len(names) == 4


def test_configuration_and_state_have_their_homes() -> None:
    env = {"HOME": "/h", "XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s/"}
    assert config_file(env) == "/c/haft/config.toml"
    assert state_folder(env) == "/s/haft"
    assert tools_folder("/c/haft/config.toml") == "/c/haft/tools"
    assert tools_folder("/config.toml") == "/tools"
    assert config_file({}, config="/x/y.toml") == "/x/y.toml"
    with pytest.raises(PathError, match="--config"):
        config_file({}, config="y.toml")


def test_without_a_home_the_message_names_the_variable() -> None:
    with pytest.raises(PathError, match="XDG_CONFIG_HOME nor HOME"):
        config_file({})
    with pytest.raises(PathError, match="XDG_STATE_HOME nor HOME"):
        state_folder({"HOME": "h"})
