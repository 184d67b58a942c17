"""The map of calls: the functions of the product that each test file calls, in all of its processes.

Rules: recorded once for a test file and again when the file has changed; each file in a jail of its own. A fault is
looked for by the test files that call its function, the cheapest first: no other test can see the fault. A test that
fails in the jail without a fault proves nothing and is left out.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .jail import run

ROOT = Path(__file__).parents[2]
PRODUCT = ("daemon/haftd", "protocol/haft_protocol", "clients/haft")
_MAX_FILE_S = 900.0


@dataclass(frozen=True, slots=True)
class FileCalls:
    """One test file: its digest, its duration, its functions as `path:name`, its tests that fail without a fault."""

    digest: str
    seconds: float
    functions: frozenset[str]
    unfit: tuple[str, ...] = field(default=())


CallMap = Mapping[str, FileCalls]
"""By the path of the test file below the root."""


def digests() -> dict[str, str]:
    """Return the digest of each test file, by path."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return {
        str(file.relative_to(ROOT)): hashlib.sha256(file.read_bytes()).hexdigest()[:16]
        for file in files
    }


def load(path: Path) -> dict[str, FileCalls]:
    """Read a map; empty where there is none."""
    if not path.exists():
        return {}
    return {
        name: FileCalls(
            entry["digest"], entry["seconds"], frozenset(entry["functions"]), tuple(entry["unfit"])
        )
        for name, entry in json.loads(path.read_text()).items()
    }


def update(path: Path, *, jobs: int, report: Callable[[str], None]) -> CallMap:
    """Bring a map up to date with the test files, and write it after each of them."""
    files, known = digests(), load(path)
    calls = {
        name: known[name] for name, digest in files.items() if _is_current(known, name, digest)
    }
    missing = [name for name in files if name not in calls]
    with ThreadPoolExecutor(jobs) as pool:
        recorded = pool.map(lambda name: record(name, files[name]), missing)
        for number, (name, entry) in enumerate(zip(missing, recorded, strict=True), 1):
            calls[name] = entry
            _write(path, calls)
            report(f"calls {number}/{len(missing)}: {name} {entry.seconds:.0f} s")
    return calls


def _is_current(known: CallMap, name: str, digest: str) -> bool:
    return name in known and known[name].digest == digest


def record(name: str, digest: str) -> FileCalls:
    """Run a test file and record its calls; a file that fails runs once more, without the recorder."""
    with tempfile.TemporaryDirectory(prefix="hm-") as folder:
        os.chmod(folder, 0o755)
        calls = Path(folder, "calls")
        calls.touch()
        calls.chmod(0o666)
        env = {
            "PYTHONPATH": str(Path(__file__).with_name("recorder")),
            "CALLS_FILE": str(calls),
            "CALLS_PRODUCT": ":".join(f"{ROOT / root}/" for root in PRODUCT),
        }
        result = run(None, [name], jobs=1, timeout_s=_MAX_FILE_S, env=env, is_whole=True)
        functions = frozenset(filter(None, map(_function, calls.read_text().splitlines())))
    unfit: tuple[str, ...] = ()
    if result.failures:
        again = run(None, [name], jobs=1, timeout_s=_MAX_FILE_S, is_whole=True)
        unfit = again.failures
    return FileCalls(digest, round(result.seconds, 1), functions, unfit)


def _function(line: str) -> str:
    """Return a recorded line with the path below the root, or an empty text where the line was torn."""
    path, colon, name = line.rpartition(":")
    root = f"{ROOT}/"
    if not colon or not path.startswith(root):
        return ""
    return f"{path.removeprefix(root)}:{_plain(name)}"


def _plain(name: str) -> str:
    """Name the function that a lambda or a comprehension stands in, as `scope_at` does.

    >>> _plain("Spool.read.<locals>.cut.<locals>.<genexpr>")
    'Spool.read.cut'
    """
    return ".".join(part for part in name.split(".") if not part.startswith("<"))


def files_for(calls: CallMap, file: str, function: str) -> list[str]:
    """Return the test files that can see a fault of a function, the cheapest first.

    Outside of functions, and where no call was recorded (an interpreter without the site module), these are the test
    files that call anything of the module, else of its folder.
    """
    folder = file.rpartition("/")[0]
    asked: tuple[Callable[[str], bool], ...] = (
        lambda called: called == f"{file}:{function}",
        lambda called: called.startswith(f"{file}:"),
        lambda called: called.startswith(f"{folder}/"),
    )
    for matches in asked[0 if function else 1 :]:
        names = [name for name, entry in calls.items() if any(map(matches, entry.functions))]
        if names:
            return sorted(names, key=lambda name: (calls[name].seconds, name))
    return []


def portions(calls: CallMap, names: Iterable[str]) -> list[list[str]]:
    """Cut a list of test files into stages, each some four times as long as the one before.

    >>> calls = {name: FileCalls("", 9.0, frozenset()) for name in "abcdefg"}
    >>> portions(calls, "abcdefg")
    [['a', 'b'], ['c', 'd', 'e', 'f', 'g']]
    """
    cut: list[list[str]] = [[]]
    limit, total = 15.0, 0.0
    for name in names:
        if total >= limit:
            cut.append([])
            limit, total = limit * 4, 0.0
        cut[-1].append(name)
        total += calls[name].seconds
    return [stage for stage in cut if stage]


def _write(path: Path, calls: CallMap) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(
        {
            name: {**asdict(entry), "functions": sorted(entry.functions)}
            for name, entry in sorted(calls.items())
        }
    )
    temporary = path.with_suffix(".new")
    temporary.write_text(text)
    temporary.replace(path)
