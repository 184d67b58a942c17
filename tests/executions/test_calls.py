from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from haftd.executions.calls import Calls, Place, find_askpass
from haftd.launch_spec import LaunchSpec
from haftd.runtimes.base import Call


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
def test_unconfirmed_processes_keep_their_cgroup_and_record(confirmed: bool) -> None:
    """The next start finds and ends the processes by them."""
    unmade: list[object] = []
    place = Place({}, "", "", Path("/nowhere"), None, 1024, "/", "/s")
    journal = SimpleNamespace(end=lambda mark: unmade.append(mark))
    cgroup = SimpleNamespace(remove=lambda: unmade.append("cgroup"))
    calls = Calls(place, (), cast(Any, journal), lambda: False)
    call = Call("t", LaunchSpec((), "/"), "m", cgroup=cast(Any, cgroup))
    calls.clear_up(call, confirmed)
    assert unmade == (["cgroup", "m"] if confirmed else [])


def test_a_call_too_long_for_an_environment_is_in_a_file_for_its_duration(
    tmp_path: Path,
) -> None:
    place = Place({}, "", "", tmp_path, None, 1024, "/", "/s")
    journal = SimpleNamespace(end=lambda mark: None)
    calls = Calls(place, (), cast(Any, journal), lambda: False)
    path = Path(calls._call_file("m")(b"{}"))
    assert path.read_bytes() == b"{}" and path.stat().st_mode & 0o777 == 0o600
    calls.clear_up(Call("t", LaunchSpec((), "/"), "another"), True)
    assert path.exists()
    calls.clear_up(Call("t", LaunchSpec((), "/"), "m"), False)
    assert not path.exists()
