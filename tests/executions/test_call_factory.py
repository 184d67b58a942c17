from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import structs

from haft_protocol.errors import RpcError
from haftd.executions.call_factory import (
    CallFactory,
    LaunchSettings,
    _grant_call_file,
    find_askpass,
)
from haftd.host.files import memory_folder
from haftd.host.limit_group import Containment
from haftd.host.process.identity import Identity
from haftd.host.process.process_tag import ProcessTag
from haftd.host.recovery.record import Record
from haftd.launch_spec import Grant, LaunchSpec, Sandbox
from haftd.proxy.server import Proxy
from haftd.runtimes.base import Call
from haftd.tools.calls.resolve import ResolvedCall
from haftd.tools.definitions.definition import Tool


def test_the_askpass_helper_is_beside_the_first_program_that_has_one(
    tmp_path: Path,
) -> None:
    programs = []
    for name in ("without", "not runnable", "first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        programs.append(str(folder / "haftd"))
        if name != "without":
            helper = folder / "haft-askpass"
            helper.touch(mode=0o644 if name == "not runnable" else 0o755)
    assert find_askpass(("haftd", *programs)) == str(tmp_path / "first/haft-askpass")
    assert find_askpass(programs[:2]) is None


@pytest.mark.parametrize("confirmed", [True, False])
def test_unconfirmed_processes_keep_their_cgroup_and_record_and_lose_the_proxy(
    confirmed: bool,
) -> None:
    """The next start finds and ends the processes by them."""
    unmade: list[object] = []
    settings = LaunchSettings({}, "", "", Path("/nowhere"), Containment(), 1024, "/", "/s")
    journal = SimpleNamespace(end=lambda mark: unmade.append(mark))
    cgroup = SimpleNamespace(remove=lambda: unmade.append("cgroup"))
    proxy = SimpleNamespace(revoke=lambda mark: unmade.append(f"proxy of {mark}"))
    calls = CallFactory(settings, (), cast(Any, journal), lambda: False, cast(Any, proxy))
    call = Call("t", LaunchSpec((), "/"), "m", cgroup=cast(Any, cgroup))
    calls.clear_up(call, confirmed, lambda: unmade.append("reported"))
    made, of_confirmed = ["proxy of m", "reported"], ["proxy of m", "cgroup", "reported", "m"]
    assert unmade == (of_confirmed if confirmed else made)


def test_a_call_too_long_for_an_environment_is_in_a_file_for_its_duration(
    tmp_path: Path,
) -> None:
    settings = LaunchSettings({}, "", "", tmp_path, Containment(), 1024, "/", "/s")
    journal = SimpleNamespace(end=lambda mark: None)
    calls = CallFactory(settings, (), cast(Any, journal), lambda: False, Proxy(cast(Any, None)))
    path = Path(calls._call_file("m", is_answered=False)(b"{}"))
    assert path.read_bytes() == b"{}" and path.stat().st_mode & 0o777 == 0o600
    calls.clear_up(Call("t", LaunchSpec((), "/"), "another"), True)
    assert path.exists()
    calls.clear_up(Call("t", LaunchSpec((), "/"), "m"), False)
    assert not path.exists()


def test_a_long_call_with_answers_is_in_memory_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the first run's file was on a disk; without a place in memory the run is refused."""
    folders = tmp_path / "disk/calls", tmp_path / "memory/calls"
    for folder in folders:
        folder.parent.mkdir()
    in_memory = [folders[1].parent]
    monkeypatch.setattr(memory_folder, "is_in_memory", in_memory.__contains__)
    settings = LaunchSettings(
        {}, "", "", tmp_path / "state", Containment(), 1024, "/", "/s", answered_calls=folders
    )
    calls = CallFactory(settings, (), cast(Any, None), lambda: False, Proxy(cast(Any, None)))
    first = Path(calls._call_file("m", is_answered=False)(b"{}"))
    answered = Path(calls._call_file("m", is_answered=True)(b"secret"))
    assert answered == folders[1] / "m" and not first.exists() and not folders[0].exists()
    assert answered.read_bytes() == b"secret" and answered.stat().st_mode & 0o777 == 0o600
    calls._release("m", (None, None))
    assert not answered.exists()
    in_memory.clear()
    with pytest.raises(RpcError, match="its answers cannot be kept in memory: no file"):
        calls._call_file("m", is_answered=True)(b"secret")


def test_the_file_of_a_long_call_is_granted_without_the_links_to_it(tmp_path: Path) -> None:
    """A rule's path follows none, and the user's state folder may be behind one."""
    (tmp_path / "link").symlink_to(tmp_path)
    settings = LaunchSettings({}, "", "", tmp_path, Containment(), 1024, "/", "/s")
    found = _grant_call_file(Sandbox("/"), {"HAFT_CALL": f"{tmp_path}/link/call"}, settings)
    assert found is not None and found.grants == (Grant(f"{tmp_path}/call", frozenset({"read"})),)


def test_a_rules_path_that_is_exchanged_meanwhile_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link that has become a folder is no link for readlink(2)."""

    def readlink(path: str, *, dir_fd: int | None = None) -> str:
        raise OSError(errno.EINVAL, "Invalid argument", path)

    (tmp_path / "link").symlink_to(tmp_path)
    settings = LaunchSettings({}, "", "", tmp_path, Containment(), 1024, "/", "/s")
    sandbox = Sandbox("/", (Grant(f"{tmp_path}/link", frozenset({"update"})),))
    monkeypatch.setattr(os, "readlink", readlink)
    with pytest.raises(RpcError, match="was exchanged meanwhile: invalid argument") as caught:
        _grant_call_file(sandbox, {}, settings)
    assert caught.value.data["reason"] == "sandbox"
    assert f"{tmp_path}/link" in caught.value.message


def test_a_helper_that_is_refused_leaves_neither_cgroup_nor_access_to_the_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rules let it change haft's files, which is known only after its resources are made."""
    removed: list[str] = []

    class Grouped(CallFactory):
        def _groups(self, mark: str, limits: object) -> Any:
            return SimpleNamespace(remove=lambda: removed.append("cgroup")), None

    grant = Grant(str(tmp_path), frozenset({"update"}))
    launch = LaunchSpec(("list",), "/", sandbox=Sandbox("/", (grant,)))
    resolved = ResolvedCall(launch, "stdio")
    monkeypatch.setattr("haftd.executions.call_factory.resolve", lambda *_: resolved)
    calls, _ = factory(own_paths=(str(tmp_path),))
    proxy = SimpleNamespace(revoke=lambda mark: removed.append("proxy"))
    calls = Grouped(calls.settings, (), calls.journal, lambda: True, cast(Any, proxy))
    with pytest.raises(RpcError, match="lets it change haft's own"):
        calls.make_helper_call(
            Tool(name="t", source="local", file="/f"), {}, cast(Any, None), None, 1.0
        )
    assert sorted(removed) == ["cgroup", "proxy"]


DESKTOP = {
    "PATH": "/bin",
    "HOME": "/home/u",
    "LANG": "C",
    "XDG_RUNTIME_DIR": "/run/u",
    "API_KEY": "k",
    "SPARE": "s",
}


def factory(**changed: Any) -> tuple[CallFactory, list[Record]]:
    """Return a factory of calls, and the records that it makes."""
    settings = LaunchSettings(
        DESKTOP, "0123456789ab", "aaaaaaaaaaaa", Path("/calls"), Containment(), 512, "/root", "/s"
    )
    records: list[Record] = []
    journal = SimpleNamespace(start=records.append)
    calls = CallFactory(
        structs.replace(settings, **changed),
        ("API_KEY",),
        cast(Any, journal),
        lambda: True,
        Proxy(cast(Any, None)),
    )
    return calls, records


def test_a_server_sees_a_short_environment_and_the_variables_given_by_name() -> None:
    calls, _ = factory()
    value: dict[str, str | bool] = {"API_KEY": True, "MODE": "x", "MISSING": True}
    call = calls.make_server_call("notes", ["run", "it"], "", value)
    env = call.launch.env
    assert {name: env.get(name) for name in (*DESKTOP, "MODE", "MISSING")} == {
        "PATH": "/bin",
        "HOME": "/home/u",
        "LANG": "C.UTF-8",
        "XDG_RUNTIME_DIR": None,
        "API_KEY": "k",
        "SPARE": None,
        "MODE": "x",
        "MISSING": None,
    }
    assert env["HAFT_SOCKET"] == "/s" and env["HAFT_HANDLE"].endswith(call.mark)
    assert (call.tool, call.launch.argv) == ("mcp.notes", ("run", "it"))
    assert (call.launch.stdin, call.launch.output, call.launch.nofile) == ("pipe", "outcome", 512)


@pytest.mark.parametrize(
    ("cwd", "folder"), [("", "/root"), ("~", "/root"), ("~/a/b", "/root/a/b"), ("/c", "/c")]
)
def test_a_server_runs_in_the_root_or_below_its_home(cwd: str, folder: str) -> None:
    calls, _ = factory()
    assert calls.make_server_call("notes", ["run"], cwd, {}).launch.cwd == folder


def test_a_call_of_the_daemon_sees_the_desktop_and_no_key() -> None:
    calls, _ = factory()
    call = calls.make_daemon_call("inquiry", ["ask"], {"wall_s": 3.0})
    env = call.launch.env
    assert env["XDG_RUNTIME_DIR"] == "/run/u" and env["SPARE"] == "s" and "API_KEY" not in env
    assert (call.launch.cwd, call.launch.limits) == ("/root", {"wall_s": 3.0})


def test_each_call_has_a_tag_of_its_own_and_a_record_before_its_start() -> None:
    calls, records = factory()
    before = time.time()
    first, second = (calls.make_daemon_call("inquiry", ["ask", "secret"], {}) for _ in range(2))
    assert ProcessTag.read(first.mark) == ProcessTag("0123456789ab", "aaaaaaaaaaaa", 1)
    assert ProcessTag.read(second.mark) == ProcessTag("0123456789ab", "aaaaaaaaaaaa", 2)
    assert records == [] and first.record is not None
    first.record(Identity(7, 8, 9, "boot", 10))
    (record,) = records
    assert before - 0.001 <= record.at <= time.time() + 0.001
    assert record.at == round(record.at, 3)
    assert record._replace(at=0.0) == Record(
        n=1,
        pid=7,
        ticks=8,
        inode=9,
        boot="boot",
        ns=10,
        sid=7,
        uid=os.getuid(),
        mark=first.mark,
        tool="inquiry",
        command="ask",
        at=0.0,
    )


def test_a_call_file_that_cannot_be_written_refuses_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    calls, _ = factory(calls=tmp_path / "file/calls")
    with pytest.raises(RpcError, match=r"its arguments cannot be written below .*: Not a dir"):
        calls._call_file("m", is_answered=False)(b"{}")
    calls, _ = factory(calls=tmp_path / "state/calls")
    assert Path(calls._call_file("m", is_answered=False)(b"{}")).read_bytes() == b"{}", (
        "the folders are made again"
    )
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("source", "has_groups"),
    [
        ("local", True),
        ("toolpack.x", True),
        ("builtin", False),
        ("builtin.shell", False),
        ("mcp.notes", False),
        ("mcp.notes.add", False),
    ],
)
def test_a_handle_without_a_process_of_its_own_has_no_groups(source: str, has_groups: bool) -> None:
    class Counted(CallFactory):
        def _groups(self, mark: str, limits: object) -> Any:
            return (mark, limits)

        def _make_execution_call(
            self, handle: object, ready: object, mark: object, groups: Any
        ) -> Any:
            return groups

    calls, _ = factory()
    counted = Counted(*(getattr(calls, name) for name in calls.__struct_fields__[:5]))
    tool = Tool(name="t", source=source, file="/f")
    ready = SimpleNamespace(tool=tool, resolved=SimpleNamespace(launch=LaunchSpec((), "/")))
    groups = cast(Any, counted.make_execution_call(cast(Any, None), cast(Any, ready)))
    assert (groups == (None, None)) is not has_groups
