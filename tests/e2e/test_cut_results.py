from __future__ import annotations

from collections.abc import Callable
from functools import partial
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


@pytest.mark.parametrize("way", ["await", "fetch", "abort", "session/close", "batch"])
def test_a_long_file_is_there_for_each_call_that_truncates(
    make_daemon: Callable[..., RunningDaemon], way: str
) -> None:
    """The beginning is lost, so that the file is written, in steps."""
    daemon = make_daemon('[spool]\nmemory = "64 KiB"\ndisk = "2 MiB"\n').start()
    program = (
        "seq 1 400000; exec sleep 300" if way in ("abort", "session/close") else "seq 1 400000"
    )
    with daemon.connect() as wire:
        call = partial(wire.call, session="s")
        args = {"argv": ["sh", "-c", program]}
        call("spawn", tool="run", id="h", args=args, wait="none")
        if program.endswith("300"):
            call("fetch", id="h", cursor=0, wait="pattern", pattern="(?m)^400000$", max_bytes=0)
        else:
            call("fetch", id="h", cursor=0, wait="stopped", max_bytes=0)
        if way == "await":
            (state,) = call("await", all=["h"])["completed"]
        elif way == "abort":
            state = call("abort", id="h", grace_ms=0)
        elif way == "session/close":
            (state,) = call("session/close")["handles"]
        elif way == "batch":
            fetch = {
                "method": "fetch",
                "params": {"id": "h", "session": "s", "view": "all", "max_bytes": 2 << 20},
            }
            wire.send([{"jsonrpc": "2.0", "id": n, **fetch} for n in (801, 802)])
            state = next(m for m in iter(wire.receive, None) if isinstance(m, list))[0]["result"]
        else:
            state = call("fetch", id="h")
        truncated = state["truncated"]
        assert truncated["bytes"] > truncated["kept"] and truncated["omitted"] > 0
        if way != "session/close":
            assert Path(truncated["path"]).read_text().endswith("\n399999\n400000\n")
