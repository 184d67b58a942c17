from __future__ import annotations

import pytest

from tests.unasync import SOURCE, TARGET, blocking


def test_the_blocking_calls_are_made_from_those_on_trio() -> None:
    stale = f"{TARGET.name} is stale: run `python -m tests.unasync`"
    assert blocking(SOURCE.read_text()) == TARGET.read_text(), stale


def test_a_coroutine_that_awaits_other_than_a_call_is_refused() -> None:
    source = '"""Head."""\nclass AsyncCalls:\n    async def nap(self):\n        await sleep(1)\n'
    with pytest.raises(ValueError, match=r"line 4: .* may await `self\.call` only"):
        blocking(source)
