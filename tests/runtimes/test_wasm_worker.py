"""The program that runs a module, started as the daemon does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from haftd.launch_spec import Grant, LaunchSpec
from haftd.runtimes.wasm.plan import worker_launch
from haftd.runtimes.wasm.worker import open_compiled, open_private

from . import modules

READ = frozenset({"read"})


def run(
    module: Path, *grants: Grant, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    launch = LaunchSpec((str(module),), str(module.parent), {**os.environ, **(env or {})})
    planned = worker_launch(launch, grants, env or (), str(module.parent / "cache"), "{}")
    return subprocess.run(planned.argv, env=planned.env, capture_output=True, check=False)


def test_a_variable_that_is_no_text_is_refused_without_its_value(tmp_path: Path) -> None:
    done = run(modules.write(tmp_path / "a.wasm", ""), env={"TOKEN": "secret\udcff"})
    assert done.returncode == 126
    assert b"UTF-8" in done.stderr and b"secret" not in done.stderr


def test_a_rule_for_a_file_is_named(tmp_path: Path) -> None:
    module = modules.write(tmp_path / "a.wasm", "")
    done = run(module, Grant(str(module), READ))
    assert done.returncode == 126 and b"names a file" in done.stderr
    assert run(module, Grant(str(tmp_path / "missing"), READ)).returncode == 0


def test_a_module_that_is_no_command_is_named(tmp_path: Path) -> None:
    module = tmp_path / "a.wasm"
    module.write_bytes(modules.assemble("(module)"))
    assert b"no `_start`" in run(module).stderr
    module.write_bytes(modules.assemble("(component)"))
    assert b"no `wasi:cli/run`" in run(module).stderr
    module.write_bytes(modules.assemble('(module (import "env" "magic" (func)))'))
    done = run(module)
    assert done.returncode == 126 and b"env::magic" in done.stderr


def _refusal(folder: Path, name: str) -> type[OSError] | None:
    fd = open_private(str(folder))
    try:
        os.close(open_compiled(fd, name))
    except OSError as error:
        return type(error)
    finally:
        os.close(fd)
    return None


def test_only_a_regular_file_of_one_user_under_one_name_is_a_compiled_module(
    tmp_path: Path,
) -> None:
    """Machine code in it runs unchecked."""
    tmp_path.chmod(0o700)
    module = tmp_path / "m"
    module.touch(mode=0o600)
    assert _refusal(tmp_path, "m") is None
    for mode in (0o640, 0o604, 0o620, 0o601):
        module.chmod(mode)
        assert _refusal(tmp_path, "m") is PermissionError
    module.chmod(0o600)
    (tmp_path / "link").symlink_to(module)
    (tmp_path / "folder").mkdir(mode=0o700)
    assert _refusal(tmp_path, "link") is OSError
    assert _refusal(tmp_path, "folder") is PermissionError
    assert _refusal(tmp_path, "none") is FileNotFoundError
    os.link(module, tmp_path / "second")
    assert _refusal(tmp_path, "m") is _refusal(tmp_path, "second") is PermissionError
    (tmp_path / "second").unlink()
    assert _refusal(tmp_path, "m") is None
    for mode in (0o710, 0o701, 0o770):
        tmp_path.chmod(mode)
        with pytest.raises(PermissionError):
            open_private(str(tmp_path))
    tmp_path.chmod(0o700)
