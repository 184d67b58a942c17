"""A daemon whose program is in a cache, as `uvx` and `pipx run` start one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from haft.__main__ import main
from tests.running_daemon import RunningDaemon


@pytest.mark.parametrize("is_cached", [True, False])
def test_a_daemon_in_a_cache_reports_it(
    make_daemon: Callable[..., RunningDaemon],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    is_cached: bool,
) -> None:
    environment = tmp_path / "uv" / "archive-v0" / "x"
    environment.mkdir(parents=True)
    (environment / "CACHEDIR.TAG").touch()
    if is_cached:
        (tmp_path / "uv" / "CACHEDIR.TAG").touch()
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.prefix = {str(environment)!r}\n")
    daemon = make_daemon(env={"PYTHONPATH": str(tmp_path)}).start()
    with daemon.connect() as wire:
        expected = str(tmp_path / "uv") if is_cached else None
        assert wire.call("daemon/status").get("cache") == expected
    monkeypatch.setenv("HAFT_SOCKET", str(daemon.socket))
    main(["doctor"])
    main(["status"])
    shown = capsys.readouterr().out
    assert (f"the daemon runs from the cache {tmp_path}/uv" in shown) is is_cached
    assert (f"program is in {tmp_path}/uv," in shown) is is_cached
