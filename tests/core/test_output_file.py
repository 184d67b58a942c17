from __future__ import annotations

import os
from pathlib import Path

import pytest

from haft_protocol.states import EndedBy, Exit, Stopped, ToolError, Truncated
from haftd.core.handles import Handle
from haftd.core.output_file import CHUNK, finish, save_output
from haftd.core.spool import Budget, Spool
from haftd.core.termination import Termination
from haftd.core.views import handle_state, read_handle
from haftd.host.files.spool_folder import SpoolFolder


@pytest.fixture
def folder(tmp_path: Path) -> SpoolFolder:
    return SpoolFolder(tmp_path, "home", lambda: False)


def spool_in(
    folder: SpoolFolder, *, memory: int = 1 << 16, disk: int = 1 << 20, total: int = 1 << 30
) -> Spool:
    return Spool(memory, disk, folder, Budget(total))


def lines(count: int) -> bytes:
    return b"".join(b"line %d\n" % n for n in range(count))


def held(spool: Spool, *, terminal: bool = False) -> Handle:
    handle = Handle(id="h", tool="t", session="s", generation=1, spool=spool, now=0.0)
    handle.start(0.0)
    return handle


def ended(spool: Spool, data: bytes = b"", *, code: int = 0, result: str | None = None) -> Handle:
    handle = held(spool)
    handle.append_output(data, 0.0)
    by = EndedBy("exit")
    handle.end(Termination(by=by, result=result, exit=Exit(code=code)), 1.0)
    return handle


def cut(handle: Handle, **asked: int) -> Truncated:
    state = read_handle(handle, 2.0, **asked)  # type: ignore[arg-type]
    assert isinstance(state, Stopped) and isinstance(state.truncated, Truncated)
    return state.truncated


@pytest.mark.parametrize("count", [100, 20_000], ids=["in memory", "on disk"])
def test_the_saved_file_holds_the_output_byte_for_byte(folder: SpoolFolder, count: int) -> None:
    data = lines(count)
    truncated = cut(ended(spool_in(folder), data), max_bytes=50)
    assert truncated.path is not None and truncated.omitted == 0
    assert Path(truncated.path).read_bytes() == data and truncated.bytes == len(data)


def test_a_spool_file_is_linked_and_not_written_again(
    folder: SpoolFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = ended(spool_in(folder), lines(20_000))
    used = handle.spool.budget.used
    opened: list[object] = []
    monkeypatch.setattr(folder, "open", lambda: opened.append(1))
    assert cut(handle, max_bytes=50).path is not None
    assert not opened and handle.spool.budget.used == used


def test_no_file_is_written_for_an_uncut_result(folder: SpoolFolder, tmp_path: Path) -> None:
    handle = ended(spool_in(folder), lines(100))
    read_handle(handle, 2.0)
    handle_state(handle, 2.0, max_bytes=10)
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_private_and_shared_by_all_readers(folder: SpoolFolder, tmp_path: Path) -> None:
    handle = ended(spool_in(folder), lines(100))
    first, second = cut(handle, max_bytes=50), cut(handle, max_bytes=70)
    assert first.path == second.path and len(list(tmp_path.iterdir())) == 1
    assert first.path is not None and Path(first.path).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("count", [100, 20_000])
def test_the_file_and_its_disk_go_with_the_spool(
    folder: SpoolFolder, tmp_path: Path, count: int
) -> None:
    handle = ended(spool_in(folder), lines(count))
    cut(handle, max_bytes=50)
    assert handle.spool.budget.used > 0
    handle.spool.close()
    assert list(tmp_path.iterdir()) == [] and handle.spool.budget.used == 0


def test_a_named_file_survives_the_closing_of_its_descriptor(folder: SpoolFolder) -> None:
    data = lines(20_000)
    handle = ended(spool_in(folder), data)
    truncated = cut(handle, max_bytes=50)
    handle.spool.shrink()
    assert truncated.path is not None and Path(truncated.path).read_bytes() == data
    assert handle.spool.budget.used > 0
    handle.spool.close()
    assert handle.spool.budget.used == 0


def test_output_dropped_by_the_spool_is_counted_beside_the_file(folder: SpoolFolder) -> None:
    data = lines(40_000)
    handle = ended(spool_in(folder, memory=1 << 14, disk=1 << 16), data)
    truncated = cut(handle, max_bytes=50)
    assert truncated.path is not None and truncated.omitted > 0
    saved = Path(truncated.path).read_bytes()
    line = b"\xe2\x80\xa6 %d bytes left out \xe2\x80\xa6\n" % truncated.omitted
    head, found, tail = saved.partition(line)
    assert found and data.endswith(tail)
    head = head if data.startswith(head) else head[:-1]  # a line end of its own before the line
    assert head == data[: 1 << 14]
    assert len(head) + len(tail) + truncated.omitted == len(data)


def test_first_32_kib_of_an_output_over_the_size_limit_are_saved(folder: SpoolFolder) -> None:
    data = lines(2_000_000)
    truncated = cut(ended(spool_in(folder, memory=1 << 25), data), max_bytes=50)
    assert truncated.path is not None
    missing = len(data) - (1 << 24) - (1 << 15)
    line = b"\n\xe2\x80\xa6 %d bytes left out \xe2\x80\xa6\n" % missing
    assert truncated.omitted == missing
    assert Path(truncated.path).read_bytes() == data[: 1 << 15] + line + data[-(1 << 24) :]


def test_a_failure_names_the_file_of_its_output(folder: SpoolFolder) -> None:
    data = lines(1_000)
    state = read_handle(ended(spool_in(folder), data, code=1), 2.0, max_bytes=50)
    assert isinstance(state, Stopped) and isinstance(state.error, ToolError)
    assert isinstance(state.truncated, Truncated) and state.truncated.path is not None
    assert Path(state.truncated.path).read_bytes() == data


def test_a_structured_result_is_saved_unchanged(folder: SpoolFolder) -> None:
    truncated = cut(ended(spool_in(folder), b"{}", result="é" * 500), max_bytes=50)
    assert truncated.path is not None and truncated.bytes == 1_000
    assert Path(truncated.path).read_text("utf-8") == "é" * 500


def test_no_file_is_named_while_output_may_come(folder: SpoolFolder, tmp_path: Path) -> None:
    handle = held(spool_in(folder))
    handle.append_output(lines(100), 0.0)
    handle.end(Termination(by=EndedBy("exit"), exit=Exit(code=0)), 1.0, complete=False)
    assert cut(handle, max_bytes=50).path is None and list(tmp_path.iterdir()) == []
    handle.append_output(b"late\n", 1.0)
    handle.complete_output(2.0)
    path = cut(handle, max_bytes=50).path
    assert path is not None and Path(path).read_bytes() == lines(100) + b"late\n"


@pytest.mark.parametrize("fails", ["open", "link", "write", "budget"])
def test_L10_a_full_disk_costs_the_name_and_nothing_else(
    folder: SpoolFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    handle = ended(spool_in(folder, total=0 if fails == "budget" else 1 << 30), lines(100))

    def full(*_: object) -> int:
        raise OSError(28, "no space left")

    if fails == "write":
        monkeypatch.setattr("haftd.core.output_file.os.write", full)
    elif fails != "budget":
        monkeypatch.setattr(folder, fails, full)
    before = len(os.listdir("/proc/self/fd"))
    truncated = cut(handle, max_bytes=50)
    assert truncated.path is None and truncated.kept <= 50
    assert len(os.listdir("/proc/self/fd")) == before and list(tmp_path.iterdir()) == []
    assert handle.spool.budget.used == 0


def test_a_spool_without_a_folder_saves_nothing() -> None:
    assert finish(save_output(Spool(100, 0, None, Budget(0)))) is None


def long_result(folder: SpoolFolder) -> tuple[Handle, bytes]:
    text = "ä" * (CHUNK + 5) + "x" * CHUNK
    return ended(spool_in(folder), result=text), text.encode()


def test_a_long_file_is_written_in_steps(folder: SpoolFolder) -> None:
    """Other calls have their turns in between: 16 MiB take up to 30 ms."""
    handle, data = long_result(folder)
    assert handle.takes_long_to_save(0, 100) and not handle.takes_long_to_save(0, len(data))
    steps = handle.save_in_steps()
    assert sum(1 for _ in steps) == 2
    path = cut(handle, max_bytes=50).path
    assert path is not None and Path(path).read_bytes() == data
    assert not handle.takes_long_to_save(0, 100)


def test_two_calls_that_save_at_once_have_one_file(folder: SpoolFolder, tmp_path: Path) -> None:
    handle, data = long_result(folder)
    first, second = handle.save_in_steps(), handle.save_in_steps()
    next(first), next(second)
    assert finish(first) == finish(second) is not None
    assert len(list(tmp_path.iterdir())) == 1 and handle.spool.budget.used == len(data)


@pytest.mark.parametrize("ending", ["close of the spool", "cancellation"])
def test_a_save_that_is_not_finished_leaves_nothing(
    folder: SpoolFolder, tmp_path: Path, ending: str
) -> None:
    handle, _ = long_result(folder)
    before = len(os.listdir("/proc/self/fd"))
    steps = handle.save_in_steps()
    next(steps)
    if ending == "cancellation":
        steps.close()
    else:
        handle.spool.close()
        assert finish(steps) is None
    assert len(os.listdir("/proc/self/fd")) == before
    assert list(tmp_path.iterdir()) == [] and handle.spool.budget.used == 0
