"""Helper commands: their output, or the reason of a failure."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from haftd.runtimes.base import Call
from haftd.runtimes.process.helper import MAX_OUTPUT_BYTES, Failed, run_helper
from tests.patience import PATIENCE_S

from . import kit

LEAVES = "sleep 1000 & setsid sleep 1000 & "


class Ledger:
    """Runs helpers, and checks that nothing is left of each."""

    def __init__(self) -> None:
        self.settled = 0

    async def run(self, call: Call, given: bytes | None = None) -> bytes | Failed:
        def settle(of: Call, confirmed: bool) -> None:
            assert of is call and confirmed and not kit.lives(of)
            self.settled += 1

        before = kit.fds()
        try:
            return await run_helper(call, settle, given)
        finally:
            assert self.settled == 1 and kit.fds() == before


def script(text: str, wall_s: float = 20, **fields: Any) -> Call:
    return kit.shell(text, output="outcome", limits={"wall_s": wall_s}, **fields)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo this; echo that >&2", b"this\n"),
        (f"{LEAVES} echo this", b"this\n"),
        (f"head -c {MAX_OUTPUT_BYTES} /dev/zero", bytes(MAX_OUTPUT_BYTES)),
        ("cat; echo end", b"end\n"),
        ("true", b""),
    ],
)
async def test_output_counts_with_exit_status_0(text: str, said: bytes) -> None:
    assert await Ledger().run(script(text)) == said


async def test_input_is_written_and_closed() -> None:
    assert await Ledger().run(script("cat", stdin="pipe"), b"x" * 100_000) == b"x" * 100_000


@pytest.mark.parametrize(
    ("text", "kind", "why"),
    [
        ("echo said; echo noise >&2; exit 3", "exit", "ended with exit code 3"),
        ("kill -9 $$", "exit", "ended by SIGKILL"),
        (f"{LEAVES} yes", "output", f"printed more than {MAX_OUTPUT_BYTES} bytes"),
        (f"{LEAVES} trap '' TERM; echo said; sleep 1000", "time", "did not end within 0.3 s"),
    ],
)
async def test_a_failure_has_a_reason(text: str, kind: str, why: str) -> None:
    failed = await Ledger().run(script(text, 0.3 if kind == "time" else 20))
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.why) == (kind, why)
    assert failed.stderr_tail == (b"noise\n" if "noise" in text else b"")
    assert "noise" not in repr(failed)


async def test_a_failed_start_is_reported() -> None:
    failed = await Ledger().run(kit.call("/not/there", output="outcome"))
    assert isinstance(failed, Failed)
    assert failed.kind == "start" and "/not/there" in failed.why


async def test_cancellation_returns_when_nothing_is_left() -> None:
    ledger, call = Ledger(), script(f"{LEAVES} sleep 1000")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ledger.run, call)
        with trio.fail_after(PATIENCE_S):
            while len(kit.lives(call)) < 4:
                await trio.sleep(0.005)
        nursery.cancel_scope.cancel()
    assert ledger.settled == 1
