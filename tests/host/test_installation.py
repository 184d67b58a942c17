"""Files and folders from which the programs of haft run code."""

from __future__ import annotations

import site
import subprocess
import sys
from pathlib import Path

import pytest

from haftd.executions.call_factory import find_askpass
from haftd.host.files.installation import explain_search_path, find_programs, list_installation


@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_users_site_packages_are_part_of_the_installation(
    monkeypatch: pytest.MonkeyPatch, is_enabled: bool
) -> None:
    """Python looks there before the installation, so a tool could plant a module for the next start."""
    monkeypatch.setattr(site, "ENABLE_USER_SITE", is_enabled)
    monkeypatch.setattr(site, "USER_SITE", "/home/me/.local/lib/python3/site-packages")
    assert (str(site.USER_SITE) in list(list_installation({}))) is is_enabled


@pytest.mark.parametrize("place", ["executable", "argv"])
def test_the_programs_beside_the_interpreter_or_the_script_are_part_of_the_installation(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    names = ("haft", "haftd", "haft-askpass")
    for name in names:
        (tmp_path / name).touch(mode=0o755)
    program = str(tmp_path / "haftd")
    monkeypatch.setattr(sys, "executable", program if place == "executable" else "/none/python")
    monkeypatch.setattr(sys, "argv", ["haftd" if place == "executable" else program, "--socket"])
    assert {str(tmp_path / name) for name in names} <= set(list_installation({}))
    assert find_askpass(find_programs()) == str(tmp_path / "haft-askpass")


def test_the_programs_that_a_shell_finds_are_part_of_the_installation(tmp_path: Path) -> None:
    (tmp_path / "haft").touch(mode=0o755)
    assert str(tmp_path / "haft") in list(list_installation({"PATH": str(tmp_path)}))


def test_each_folder_that_python_searches_is_part_of_the_installation(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also one from which nothing is loaded, and one that does not exist yet."""
    (tmp_path / "empty").mkdir()
    folders = [str(tmp_path / "empty"), str(tmp_path / "missing")]
    monkeypatch.setattr(sys, "path", [*sys.path, *folders])
    assert set(folders) <= set(list_installation({}))


def test_a_missing_folder_of_a_pth_file_is_part_of_the_installation(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines = ["# a comment", "import os; later = 1", "/later/code", "beside", ""]
    (tmp_path / "a.pth").write_text("\n".join(lines))
    monkeypatch.setattr(site, "getsitepackages", lambda: [str(tmp_path)])
    found = list(list_installation({}))
    assert {"/later/code", str(tmp_path / "beside")} <= set(found)
    assert not any("import os" in path or "comment" in path for path in found)


def test_the_libraries_that_the_linker_takes_first_are_part_of_the_installation() -> None:
    environ = {"LD_LIBRARY_PATH": "/a/lib::/b/lib;relative", "LD_PRELOAD": "/c.so d.so"}
    assert {"/a/lib", "/b/lib", "/c.so"} <= set(list_installation(environ))


def test_the_folder_of_bytecode_is_part_of_the_installation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", "/cache/bytecode")
    assert "/cache/bytecode" in list(list_installation({}))


def test_a_module_that_an_import_hook_found_is_part_of_the_installation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    package = type(sys)("hooked")
    package.__file__, package.__path__ = "/tree/hooked/__init__.py", ["/tree/hooked"]
    module = type(sys)("single")
    module.__file__ = "/tree/single.py"
    monkeypatch.setitem(sys.modules, "hooked", package)
    monkeypatch.setitem(sys.modules, "single", module)
    assert {"/tree/hooked", "/tree/single.py"} <= set(list_installation({}))


def test_the_clients_code_is_part_of_a_source_trees_installation() -> None:
    """Nothing of it is loaded in the daemon, and `haft` runs it."""
    code = (
        "import sys; sys.path.remove(sys.argv[1])\n"
        "from haftd.host.files.installation import list_installation\n"
        "print(*list_installation({}), sep=chr(10))"
    )
    tree = Path(__file__).parents[2]
    # The folder of the clients is found by an import hook there, not by `sys.path`.
    hook = (
        "import importlib.machinery as m, sys\n"
        f"sys.meta_path.insert(0, type('H', (), {{'find_spec': staticmethod(lambda name, path, target=None: "
        f"m.PathFinder.find_spec(name, [{str(tree / 'clients')!r}]) if name == 'haft' else None)}}))\n"
    )
    printed = subprocess.run(
        [sys.executable, "-P", "-c", hook + code, str(tree / "clients")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert str(tree / "clients/haft") in printed
    assert str(tree / "systemd") in printed


def test_the_root_folder_as_the_working_folder_leaves_other_folders_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with `python -m haftd` in a container: all folders lie below."""
    monkeypatch.setattr(sys, "path", ["/", *sys.path])
    assert "/" not in list(list_installation({}))


def test_a_search_path_that_was_chosen_at_the_start_has_a_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    named, folder = tmp_path / "named", tmp_path / "folder"
    (tmp_path / "link").symlink_to(named)
    environ = {"PYTHONPATH": f":{tmp_path}/link"}
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    monkeypatch.setattr(sys, "orig_argv", [sys.executable, "-m", "haftd"])
    assert "PYTHONPATH" in explain_search_path(str(named), environ)
    assert "python -P -m haftd" in explain_search_path(str(folder), environ)
    assert explain_search_path(sys.prefix, environ) == ""
    monkeypatch.setattr(sys, "orig_argv", [sys.executable, "/usr/bin/haftd"])
    assert explain_search_path(str(folder), environ) == ""
