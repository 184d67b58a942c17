"""The hint of a refused access names the path that the program has printed."""

from __future__ import annotations

import pytest

from haft_protocol.states import Exit, ToolError
from haftd.core.outcomes import failure_of
from haftd.core.termination import Termination
from haftd.runtimes.process.denials import DenialWatch


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("cat: ../secret/file: Permission denied", "../secret/file"),
        ("ls: cannot open directory '/a b': Permission denied", "/a b"),
        ("sh: 1: cannot create inside: Permission denied", "inside"),
        ("bash: line 1: /etc/x: Permission denied", "/etc/x"),
        ("PermissionError: [Errno 13] Permission denied: '/etc/shadow'", "/etc/shadow"),
        ("Error: EACCES: permission denied, open '/etc/shadow'", "/etc/shadow"),
        ("open /etc/passwd: permission denied", "/etc/passwd"),
        ("Error: Os { code: 13, kind: PermissionDenied, message: \"Permission denied\" }", None),
        ("mkdir: cannot create directory \u2018/opt/a\u2019: Permission denied", "/opt/a"),
        ("unshare failed: Operation not permitted", None),
        ("PermissionError: [Errno 13] Permission denied", None),
    ],
)  # fmt: skip
def test_the_path_of_a_refusal_is_found(line: str, path: str | None) -> None:
    watch = DenialWatch()
    watch.feed(b"first line\n" + line.encode()[:7])
    watch.feed(line.encode()[7:] + b"\nlast line\n")
    hint = watch.hint("t")
    assert "`haft access t`" in hint
    assert (f" to '{path}' was denied" if path else "An access was denied") in hint


@pytest.mark.parametrize(
    ("unit", "path"),
    [("x", "/etc/x"), ("'", "/etc/x"), ("'a", "a"), (": ", "/etc/x"), ("\u2018", "/etc/x")],
)
def test_a_path_is_found_behind_anything(unit: str, path: str) -> None:
    watch = DenialWatch()
    watch.feed((unit * 900).encode() + b" /etc/x: permission denied")
    assert f" to '{path}' was denied" in watch.hint("t")


def test_output_without_a_refusal_gives_no_hint() -> None:
    watch = DenialWatch()
    watch.feed(b"no such file or directory\n")
    assert watch.hint("t") == ""


def test_only_the_end_of_long_output_is_kept() -> None:
    watch = DenialWatch()
    watch.feed(b"a: Permission denied\n")
    watch.feed(b"x" * 5000)
    assert watch.hint("t") == ""


def test_the_hint_follows_the_error_of_a_failure_and_no_success() -> None:
    hint = "A hint."
    failed = failure_of(Termination(exit=Exit(code=1), hint=hint))
    assert failed is not None and failed.message == "The process exited with code 1. A hint."
    own = failure_of(Termination(failure=ToolError("It failed."), hint=hint))
    assert own is not None and own.message == "It failed. A hint."
    assert failure_of(Termination(exit=Exit(code=0), hint=hint)) is None
