from __future__ import annotations

import json
from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haft_protocol.encoding import encode_text
from haftd.core import escapes
from haftd.core import text as texts
from haftd.core.spool import Budget, Spool
from haftd.core.text import STRIPPED, DeferredText, Rendering, bytes_from, cut
from haftd.runtimes.terminal.transcript import Transcript

PIECES = st.lists(
    st.sampled_from(
        [
            b"plain\n",
            b"\n",
            b"\r\n",
            b"\r",
            b"\x1b[31mred\x1b[0m",
            b"\x1b]0;title\x07",
            b"\x1b[",
            b"\x9b",
            "é ü €\n".encode(),
            b"\xff\xfe",
            b"\xe2\x82",
            b"\x1b[2Aup",
            b"\x07",
            b"x" * 9,
        ]
    ),
    max_size=60,
)


def spool_of(data: bytes) -> Spool:
    spool = Spool(1 << 20, 0, None, Budget(0))
    spool.append(data)
    return spool


@given(PIECES)
def test_a_text_made_in_pieces_is_the_same(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    whole = escapes.decode(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(escapes, "_PIECE", 3)
        assert b"".join(escapes.lines(data)) == data
        assert escapes.decode(data) == whole


@pytest.mark.parametrize("rendering", [STRIPPED, Transcript(24, 80)])
@given(pieces=PIECES, start=st.integers(0, 40), room=st.integers(0, 400), tail=st.booleans())
def test_a_deferred_cut_is_the_same_cut(
    rendering: Rendering, pieces: list[bytes], start: int, room: int, tail: bool
) -> None:
    spool = spool_of(b"".join(pieces))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts, "WHOLE", 0)
        patch.setattr("haftd.runtimes.terminal.transcript.WHOLE", 0)
        patch.setattr("haftd.runtimes.terminal.transcript._CONTEXT", 0)
        patch.setattr(texts, "AT_ONCE", 0)
        patch.setattr(texts, "_PART", 7)
        at_once = cut(spool, start, spool.end, room, final=True, tail=tail, rendering=rendering)
        later = cut(
            spool, start, spool.end, room, final=True, tail=tail, rendering=rendering, defer=True
        )
        spool.close()
        made, parts = later.text, [later.text]
        if isinstance(later.text, DeferredText):
            made, parts = later.text.convert(), [*later.text.parts()]
        assert made == "".join(parts) == at_once.text
        assert json.loads(b'"' + encode_text(parts).encoded + b'"') == at_once.text
        assert (later.cursor, later.omitted) == (at_once.cursor, at_once.omitted)


def test_deferred_bytes_are_the_same() -> None:
    data = bytes(range(256)) * 1_000
    later = bytes_from(spool_of(data), 10, 200_000, defer=True)
    assert (
        isinstance(later.text, DeferredText) and b64decode(later.text.convert()) == data[10:200_010]
    )
