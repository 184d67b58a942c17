"""Files that are to be modules, as the daemon looks at them."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from haftd.runtimes.base import StartFailed
from haftd.runtimes.wasm import runtime

from . import modules


def name_of(path: Path | str) -> str:
    return runtime._read_name(str(path), has_fuel=False)


def test_another_file_than_a_regular_one_is_not_read() -> None:
    """A FIFO would hold the thread for ever, and a device has no end."""
    with pytest.raises(OSError, match="not a regular file") as caught:
        name_of("/dev/null")
    assert caught.value.errno == errno.EINVAL


def test_a_module_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = modules.write(tmp_path / "a.wasm", "")
    size = module.stat().st_size
    monkeypatch.setattr(runtime, "MAX_MODULE", size)
    assert name_of(module).endswith(".module")
    monkeypatch.setattr(runtime, "MAX_MODULE", size - 1)
    with pytest.raises(StartFailed) as caught:
        name_of(module)
    assert caught.value.reason == "size" and f"at most {size - 1:,} bytes" in caught.value.message
