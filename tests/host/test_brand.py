"""A brand says whose a process is, limits nothing, and is not lost by clearing the environment."""

from __future__ import annotations

import os
import resource
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haftd.host import brand
from haftd.host.mark import Mark, new_instance

HEX = st.text("0123456789abcdef", min_size=12, max_size=12)
MARKS = st.builds(Mark, HEX, HEX, st.integers(0, (1 << 18) - 1))


@given(MARKS, MARKS)
def test_brands_are_as_different_as_the_marks_are(one: Mark, other: Mark) -> None:
    """As far as their bits go: 24 of the home, 20 of the instance, 18 of the number."""
    a, b = brand.of(str(one)), brand.of(str(other))
    same_home = one.home[:6] == other.home[:6]
    same_instance = same_home and one.instance[:5] == other.instance[:5]
    assert (brand.home_of(a) == brand.home_of(b)) == same_home
    assert (brand.instance_of(a) == brand.instance_of(b)) == same_instance
    assert (a == b) == (same_instance and one.n == other.n)


@given(st.text(max_size=50))
def test_every_text_has_a_brand_that_the_kernel_takes(mark: str) -> None:
    assert 1 << 62 <= brand.of(mark) < 1 << 63


def test_children_carry_it_through_a_cleared_environment() -> None:
    mark = str(Mark("0123456789ab", new_instance(), 7))
    child = subprocess.Popen(["sleep", "60"])
    try:
        assert brand.read(child.pid) is None
        bounds = brand.bounds(mark)
        if bounds is None:
            pytest.skip("the hard limit of real-time CPU time is not unlimited here")
        resource.prlimit(child.pid, brand.RESOURCE, bounds)
        assert brand.read(child.pid) == brand.of(mark)
        assert resource.prlimit(child.pid, brand.RESOURCE)[1] == resource.RLIM_INFINITY
        assert brand._read_file(child.pid) == brand.of(mark)
    finally:
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert brand.read(child.pid) == brand.of(mark), "a zombie carries it too"
        child.wait()
    assert brand.read(child.pid) is None


def test_without_a_brand_there_is_none() -> None:
    assert brand.read(os.getpid()) is None
    assert brand._read_file(os.getpid()) is None
    assert brand.read(1 << 30) is None
