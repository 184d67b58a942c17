"""Drawn faults are the same for the same seed, change one line, and are told from sources that are right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.__main__ import interval
from tests.mutants.drawing import Mutant, draw, faults_of
from tests.mutants.jail import is_caught, is_possible

SOURCE = b"""\
def clamp(value: int, most: int = 10) -> int:
    \"\"\"Say 1.\"\"\"
    if value > most and not most == 0:
        return most - 1
    print(f"{value + 1}")
    return value
"""


def changed(source: bytes) -> set[str]:
    return {f"{one.line}: {one.text}" for one in faults_of(Path("clamp.py"), source)}


def test_every_operator_call_constant_and_condition_has_its_fault() -> None:
    assert changed(SOURCE) == {
        "1: 11",
        "3: (not (value > most and not most == 0))",
        "3: ((value > most) or (not most == 0))",
        "3: value >= most",
        "3: (most == 0)",
        "3: most != 0",
        "3: 1",
        "4: return None",
        "4: (most + 1)",
        "4: 2",
        "5: pass",
        "6: return None",
    }


def test_a_fault_changes_its_own_text_and_no_other() -> None:
    for fault in faults_of(Path("clamp.py"), SOURCE):
        assert SOURCE[fault.start : fault.stop].decode() == fault.was
        mutated = fault.applied(SOURCE)
        assert mutated != SOURCE
        assert mutated.startswith(SOURCE[: fault.start]) and mutated.endswith(SOURCE[fault.stop :])


def test_the_same_seed_draws_the_same_lines_and_another_seed_others(tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.py" for name in "ab"]
    for file in files:
        file.write_bytes(SOURCE)
    assert draw(files, 5, 1) == draw(reversed(files), 5, 1)
    assert draw(files, 5, 1) != draw(files, 5, 2)
    drawn = draw(files, 100, 1)
    assert len({(one.file, one.line) for one in drawn}) == len(drawn) == 10


def test_a_jail_runs_the_changed_file_and_leaves_the_original(tmp_path: Path) -> None:
    if not is_possible():
        pytest.skip("no namespaces of our own to make")
    module, test = tmp_path / "clamp.py", tmp_path / "test_clamp.py"
    module.write_bytes(SOURCE)
    test.write_text("from clamp import clamp\ndef test(): assert clamp(20) == 9\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    found = {one.text: one for one in faults_of(module, SOURCE)}

    def dies(mutant: Mutant) -> bool:
        return is_caught(mutant, [str(test)], jobs=1, timeout_s=120)

    assert dies(found["(most + 1)"])
    assert not dies(found["pass"])
    assert module.read_bytes() == SOURCE


def test_the_interval_is_wilsons() -> None:
    low, high = interval(95, 100)
    assert (round(low, 3), round(high, 3)) == (0.888, 0.978)
    assert interval(0, 0) == (0.0, 1.0)
