"""Files and folders from which the programs of haft run code, at their next start as well.

No sandboxed tool may change them: the next daemon would run the tool's code without a sandbox.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from types import ModuleType

PROGRAMS = ("haft", "haftd", "haft-askpass")


def find_programs() -> tuple[str, str]:
    """Return the paths of the interpreter and of the script that started this process."""
    return sys.executable, sys.argv[0]


def list_installation(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield absolute paths, also of files and folders that do not exist yet, some of them twice.

    `environ` is the environment of the daemon. Reads the `.pth` files of the site folders.
    """
    folders = [os.path.abspath(folder) for folder in sys.path]  # noqa: PTH100
    sites = site.getsitepackages()
    # Searched before the installation, if it appears later.
    sites += [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    folders += sites
    folders += [folder for path in sites for folder in _list_named_folders(path)]
    folders += _list_library_paths(environ)
    if sys.pycache_prefix:
        folders.append(sys.pycache_prefix)
    # The working folder of `python -m haftd`. All folders lie below; `/` itself is never granted, as
    # it contains the rest of the installation.
    folders = [folder for folder in folders if folder != "/"]
    yield from folders
    yield from _list_modules(folders)
    yield from _list_clients()
    yield sys.executable
    yield f"{sys.prefix}/pyvenv.cfg"
    for program in find_programs():
        for name in PROGRAMS:
            if os.path.exists(path := f"{os.path.dirname(program)}/{name}") and path[0] == "/":  # noqa: PTH110, PTH120
                yield path
    for folder in environ.get("PATH", "").split(":"):
        for name in PROGRAMS:
            if folder.startswith("/") and os.access(path := f"{folder}/{name}", os.X_OK):
                yield path


def explain_search_path(own: str, environ: Mapping[str, str]) -> str:
    """Return the words after "or" of a remedy if `own`, a path without links, is searched for modules
    because of the way in which haftd was started; else an empty string."""
    named = map(os.path.realpath, filter(None, environ.get("PYTHONPATH", "").split(":")))
    if own in named:
        return "start haftd without that folder in PYTHONPATH"
    takes_working_folder = "-m" in sys.orig_argv and not sys.flags.safe_path
    if takes_working_folder and sys.path and own == os.path.realpath(sys.path[0]):
        return "start haftd by `python -P -m haftd`, which does not search the working folder"
    return ""


def _list_named_folders(site_folder: str) -> Iterator[str]:
    """Yield the folders that `.pth` files name, by the rules of Python's module `site`.

    Python leaves those out of `sys.path` that do not exist, and adds them at a start after they appear.
    """
    try:
        names = os.listdir(site_folder)  # noqa: PTH208
    except OSError:
        return
    for name in names:
        if not name.endswith(".pth"):
            continue
        try:
            with open(f"{site_folder}/{name}", encoding="utf-8", errors="surrogateescape") as file:
                lines = file.read().splitlines()
        except OSError:
            continue
        for line in lines:
            if line.strip() and not line.startswith(("#", "import ", "import\t")):
                yield os.path.abspath(os.path.join(site_folder, line.rstrip()))  # noqa: PTH100, PTH118


def _list_library_paths(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the paths of shared libraries that the dynamic linker takes first, see ld.so(8)."""
    for name, separators in (("LD_LIBRARY_PATH", ";"), ("LD_PRELOAD", " ")):
        for path in environ.get(name, "").replace(separators, ":").split(":"):
            if path.startswith("/"):
                yield path


def _list_modules(folders: Iterable[str]) -> Iterator[str]:
    """Yield the loaded modules that lie in none of these folders: import hooks of editable
    installations find such modules."""
    searched = tuple(f"{folder}/" for folder in folders)
    by_folder: dict[str, list[ModuleType]] = {}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None) or ""
        if file.startswith("/"):
            by_folder.setdefault(file.rpartition("/")[0], []).append(module)
    for folder, modules in by_folder.items():
        if f"{folder}/".startswith(searched):
            continue
        for module in modules:
            yield folder if getattr(module, "__path__", None) else str(module.__file__)


def _list_clients() -> Iterator[str]:
    """Yield the clients' package, of which the daemon loads nothing, and, in a source tree, the folder
    of systemd's units, which `haft setup` writes with their commands."""
    spec = find_spec("haft")
    for package in (spec and spec.submodule_search_locations) or ():
        yield package
        source = os.path.dirname(os.path.dirname(package))  # noqa: PTH120
        if not os.path.isdir(f"{package}/systemd") and os.path.isdir(f"{source}/systemd"):  # noqa: PTH112
            yield f"{source}/systemd"
