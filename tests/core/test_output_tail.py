"""Following an output: joined chunks are the output, and omissions are counted."""

from __future__ import annotations

import random
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haft_protocol.states import EndedBy
from haftd.core import output_tail
from haftd.core.handles import Handle
from haftd.core.output_tail import BytesChunk, BytesTail, OutputChunk, OutputTail
from haftd.core.spool import Spool
from haftd.core.terminal_filter import TerminalChunk
from haftd.core.termination import Termination
from haftd.core.text import cut
from tests.core.disks import make

WORDS = st.sampled_from(
    [
        b"a",
        b"line\n",
        b"\r\n",
        "é".encode(),
        "😀".encode(),
        b"\xff",
        b"\xe2\x89",
        b"\x1b[31m",
        b"\x1b[",
    ]
)


def handle(memory: int = 1 << 20, disk: int = 0) -> Handle:
    spool = make(memory=memory, disk=disk)
    handle = Handle(id="a", tool="t", session="s", generation=1, spool=spool, now=0.0)
    handle.start(0.0)
    return handle


def all_of(reader: OutputTail) -> list[OutputChunk]:
    pieces = []
    while (piece := reader.read_chunk()) is not None:
        pieces.append(piece)
    return pieces


def stop(target: Handle) -> None:
    target.end(Termination(by=EndedBy("exit")), 1.0)


@given(
    chunks=st.lists(st.lists(WORDS, max_size=12).map(b"".join), max_size=20),
    size=st.integers(5_000, 9_000),
    times=st.integers(1, 600),
    seed=st.integers(0, 99),
)
def test_joined_chunks_are_the_output(
    chunks: list[bytes], size: int, times: int, seed: int
) -> None:
    target, when = handle(), random.Random(seed)
    reader = OutputTail(target, 0)
    pieces = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(output_tail, "MAX_CHUNK", size)
        for chunk in chunks:
            target.append_output(chunk * times, 0.5)
            if when.random() < 0.5:
                pieces += all_of(reader)
        stop(target)
        pieces += all_of(reader)
    end = target.spool.end
    whole = cut(target.spool, 0, end, max(end, 1), final=True, rendering=target.rendering)
    assert "".join(piece.text for piece in pieces) == whole.text
    assert not any(piece.omitted for piece in pieces)
    assert reader.offset == end


@pytest.mark.parametrize("memory", [8 << 20, 65_536])
def test_a_reader_far_behind_resumes_near_the_end_with_a_count(memory: int) -> None:
    """The chunks and the ranges to re-read are the output that the spool has."""
    target = handle(memory=memory)
    reader = OutputTail(target, 0)
    target.append_output(b"first\n", 0.5)
    assert reader.read_chunk() == OutputChunk("first\n", 6)
    lines = b"".join(b"%07d\n" % n for n in range((output_tail.MAX_LAG >> 3) + 100))
    target.append_output(lines, 0.5)
    pieces = all_of(reader)
    assert pieces[0].omitted_from == 6
    assert pieces[0].omitted + sum(len(piece.text) for piece in pieces) == len(lines)
    assert not any(piece.omitted for piece in pieces[1:])
    assert len(lines) - pieces[0].omitted <= 2 * 65_536
    begun = pieces[0].omitted_from + pieces[0].omitted
    assert "".join(piece.text for piece in pieces).encode() == lines[begun - 6 :]
    assert reader.offset == target.spool.end


def test_bytes_that_a_failed_file_drops_during_the_read_are_counted() -> None:
    class Failing:
        def read(self, spool: Spool, start: int, max_bytes: int, *, final: bool) -> TerminalChunk:
            return TerminalChunk(b"rest", spool.end, omitted=spool.end - start - 4)

    target = handle()
    target.append_output(b"seen, then lost and the rest", 0.5)
    chunk = BytesTail(target, 6, cast(Any, Failing())).read_chunk()
    assert chunk == BytesChunk(b"rest", 28, omitted=18, omitted_from=6)


def test_a_tail_moves_no_read_offset() -> None:
    target = handle()
    first, second = OutputTail(target, 0), OutputTail(target, 0)
    target.append_output(b"here\n", 0.5)
    assert first.read_chunk() == second.read_chunk() == OutputChunk("here\n", 5)
    assert target.position.offset == 0
    assert first.read_chunk() is None


def test_an_incomplete_character_waits_until_the_end() -> None:
    target = handle()
    reader = OutputTail(target, 0)
    target.append_output("é".encode()[:1], 0.5)
    assert reader.read_chunk() is None
    stop(target)
    assert reader.read_chunk() == OutputChunk("\ufffd", 1)
