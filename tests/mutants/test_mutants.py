from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from tests.mutants.__main__ import Journal, interval
from tests.mutants.calls import PRODUCT, ROOT, FileCalls, files_for, portions, record
from tests.mutants.equivalents import read_equivalents
from tests.mutants.fault_sample import Mutant, draw, faults_of, scope_at
from tests.mutants.jail import failures_in, is_possible, run
from tests.mutants.near import importers_of, mirrors_of, room_of

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


def test_what_mypy_or_memory_alone_can_see_has_no_fault() -> None:
    assert changed(b"@dataclass(frozen=True, slots=True, eq=False)\nclass A:\n    x: int\n") == {
        "1: True"
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
        return run(mutant, [str(test)], jobs=1, timeout_s=120).is_red

    assert dies(found["(most + 1)"])
    assert not dies(found["pass"])
    assert module.read_bytes() == SOURCE


def test_the_interval_is_wilsons() -> None:
    low, high = interval(95, 100)
    assert (round(low, 3), round(high, 3)) == (0.888, 0.978)
    assert interval(0, 0) == (0.0, 1.0)


def test_an_equivalent_names_a_fault_that_its_line_can_have_and_a_reason() -> None:
    faults = set()
    lines: defaultdict[str, set[str]] = defaultdict(set)
    for entry in read_equivalents():
        lines[entry.key.file].add(entry.key.line)
    for path, sought in lines.items():
        source = (ROOT / path).read_bytes()
        text = source.decode().splitlines()
        for fault in faults_of(ROOT / path, source):
            if text[fault.line - 1].strip() in sought:
                faults.add(fault.key(ROOT))
    for entry in read_equivalents():
        assert entry.key in faults, f"equivalents.toml: no such line any more: {entry.key}"
        assert entry.reason.strip()


NESTED = b"""\
class Spool:
    size = 1
    def read(self):
        def cut():
            return [size for size in (1, 2)]
        return cut
"""


@pytest.mark.parametrize(
    ("line", "name"), [(2, ""), (3, "Spool.read"), (5, "Spool.read.cut"), (6, "Spool.read")]
)
def test_a_line_belongs_to_the_innermost_function_around(line: int, name: str) -> None:
    assert scope_at(NESTED, line, of_call=True) == name
    assert scope_at(NESTED, line) == (name or "Spool")


def called(seconds: float, *functions: str) -> FileCalls:
    return FileCalls("", seconds, frozenset(functions))


def test_a_fault_is_looked_for_where_its_function_is_called_the_cheapest_file_first() -> None:
    calls = {
        "slow": called(9, "a/m.py:f", "a/m.py:g"),
        "quick": called(1, "a/m.py:f"),
        "other": called(1, "a/n.py:f"),
    }
    assert files_for(calls, "a/m.py", "f") == ["quick", "slow"]
    assert files_for(calls, "a/m.py", "g") == ["slow"]
    assert files_for(calls, "a/m.py", "") == ["quick", "slow"], "outside of functions: the module"
    assert files_for(calls, "a/n.py", "never.recorded") == ["other"]
    assert files_for(calls, "a/o.py", "f") == ["other", "quick", "slow"], "else the folder"
    assert files_for(calls, "b/o.py", "f") == []


def test_stages_grow() -> None:
    calls = {name: called(9) for name in "abcdefg"}
    assert portions(calls, "abcdefg") == [["a", "b"], ["c", "d", "e", "f", "g"]]
    assert portions(calls, "") == []


def test_failures_are_read_from_the_summary() -> None:
    output = "FAILED tests/test_a.py::test_b[x - y] - assert 1\nERROR tests/test_c.py\n1 failed"
    assert failures_in(output) == ("tests/test_a.py::test_b[x - y]", "tests/test_c.py")


def test_tests_near_a_module_mirror_or_import_it() -> None:
    near = "daemon/haftd/executions/review.py"
    assert mirrors_of(near) == ["tests/executions/test_review.py"]
    assert "tests/executions/test_review.py" in importers_of(near)
    assert mirrors_of("daemon/haftd/subscriptions/__init__.py") == ["tests/test_subscriptions.py"]
    assert "tests/executions/test_starter.py" in room_of(near)
    assert mirrors_of("clients/haft/tools/descriptions.py") == [
        "tests/client/tools/test_descriptions.py"
    ]
    assert room_of("daemon/haftd/app.py") == []


def test_a_verdict_is_kept_and_a_survivor_is_run_again(tmp_path: Path) -> None:
    file = ROOT / PRODUCT[0] / "threads.py"
    caught, survivor = faults_of(file, file.read_bytes())[:2]
    journal = Journal(tmp_path / "journal")
    journal.add(caught, "tests/test_a.py::test_b")
    journal.add(survivor, "")
    again = Journal(tmp_path / "journal")
    assert (again.verdict(caught), again.verdict(survivor)) == ("tests/test_a.py::test_b", "")


def test_the_calls_of_a_test_file_are_recorded() -> None:
    if not is_possible():
        pytest.skip("no namespaces of our own to make")
    recorded = record("tests/executions/test_silence.py", "digest")
    assert "daemon/haftd/executions/execution.py:Silence.record" in recorded.functions
    assert not recorded.unfit
