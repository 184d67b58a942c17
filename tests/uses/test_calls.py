"""What a start finds out before anything is started."""

from __future__ import annotations

from pathlib import Path

from haftd.uses.calls import find_askpass


def test_the_helper_for_secrets_is_the_one_beside_the_first_program_that_has_one(
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
    found = find_askpass(("haftd", *programs), "/s")
    assert found is not None
    assert (found.program, found.socket) == (str(tmp_path / "first/haft-askpass"), "/s")
    assert find_askpass(programs[:2], "/s") is None
