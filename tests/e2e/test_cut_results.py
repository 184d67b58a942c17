from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.running_daemon import RunningDaemon

SEQ = "".join(f"{n}\n" for n in range(1, 400_001))


def cut(daemon: RunningDaemon, *argv: str) -> dict[str, Any]:
    with daemon.connect() as wire:
        state: dict[str, Any] = wire.call("tools/call", tool="run", arguments={"argv": list(argv)})
    return state


def test_P25_output_over_the_disk_budget_is_cut_in_the_file(
    make_daemon: Callable[..., RunningDaemon],
) -> None:
    daemon = make_daemon('[spool]\nmemory = "64 KiB"\ndisk = "1 MiB"\n').start()
    truncation = cut(daemon, "seq", "1", "400000")["truncated"]
    assert truncation["bytes"] == len(SEQ) and truncation["omitted"] > 1_000_000
    text = Path(truncation["path"]).read_text()
    head, line, tail = text.partition(f"… {truncation['omitted']} bytes left out …\n")
    assert line and SEQ.endswith(tail) and SEQ.startswith(head.rstrip("\n"))
    assert len(head.rstrip("\n")) + len(tail) + truncation["omitted"] in range(
        len(SEQ) - 1, len(SEQ) + 1
    )


@pytest.mark.parametrize("spool", ['total = "0 B"', 'disk = "0 B"'])
def test_L10_no_room_for_a_file_costs_only_its_name(
    make_daemon: Callable[..., RunningDaemon], spool: str
) -> None:
    daemon = make_daemon(f"[spool]\n{spool}\n").start()
    state = cut(daemon, "seq", "1", "100000")
    assert state["exit"] == {"code": 0} and state["result"].endswith("100000\n")
    truncation = state["truncated"]
    assert truncation["bytes"] == 588_895 and 0 < truncation["kept"] <= 262_144
    if "total" in spool:
        assert truncation["path"] is None
    else:
        assert len(Path(truncation["path"]).read_text()) == 588_895
