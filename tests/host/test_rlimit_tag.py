"""An rlimit tag identifies a process's owner, limits nothing, and survives a cleared
environment."""

from __future__ import annotations

import os
import resource
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haftd.host.process import rlimit_tag
from haftd.host.process.own_tag import make_instance
from haftd.host.process.process_tag import ProcessTag

HEX = st.text("0123456789abcdef", min_size=12, max_size=12)
MARKS = st.builds(ProcessTag, HEX, HEX, st.integers(0, (1 << 18) - 1))


@given(MARKS, MARKS)
def test_rlimit_tags_differ_as_process_tags_do(one: ProcessTag, other: ProcessTag) -> None:
    """As far as their bits go: 24 of the home, 20 of the instance, 18 of the number."""
    a, b = rlimit_tag.encode(str(one)), rlimit_tag.encode(str(other))
    same_home = one.home[:6] == other.home[:6]
    same_instance = same_home and one.instance[:5] == other.instance[:5]
    assert (rlimit_tag.home_prefix(a) == rlimit_tag.home_prefix(b)) == same_home
    assert (rlimit_tag.instance_prefix(a) == rlimit_tag.instance_prefix(b)) == same_instance
    assert (a == b) == (same_instance and one.n == other.n)


@given(st.text(max_size=50))
def test_every_text_has_an_rlimit_tag_that_the_kernel_accepts(mark: str) -> None:
    assert 1 << 62 <= rlimit_tag.encode(mark) < 1 << 63


def test_children_inherit_the_tag_through_a_cleared_environment() -> None:
    mark = str(ProcessTag("0123456789ab", make_instance(), 7))
    child = subprocess.Popen(["sleep", "60"])
    try:
        assert rlimit_tag.read_tag(child.pid) is None
        bounds = rlimit_tag.limits_for(mark)
        if bounds is None:
            pytest.skip("the hard limit of real-time CPU time is not unlimited here")
        resource.prlimit(child.pid, rlimit_tag.RESOURCE, bounds)
        assert rlimit_tag.read_tag(child.pid) == rlimit_tag.encode(mark)
        assert resource.prlimit(child.pid, rlimit_tag.RESOURCE)[1] == resource.RLIM_INFINITY
        assert rlimit_tag._read_file(child.pid) == rlimit_tag.encode(mark)
    finally:
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert rlimit_tag.read_tag(child.pid) == rlimit_tag.encode(mark), "a zombie carries it too"
        child.wait()
    assert rlimit_tag.read_tag(child.pid) is None


def test_without_a_tag_there_is_none() -> None:
    assert rlimit_tag.read_tag(os.getpid()) is None
    assert rlimit_tag._read_file(os.getpid()) is None
    assert rlimit_tag.read_tag(1 << 30) is None
