"""The hint of a refused access names the path that the program has printed."""

from __future__ import annotations

import pytest

from haft_protocol.states import Exit, ToolError
from haftd.core.termination import Termination, failure_of
from haftd.runtimes.process.failure_hint import FailureHint, find_error_line


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
    watch = FailureHint()
    watch.feed(b"first line\n" + line.encode()[:7])
    watch.feed(line.encode()[7:] + b"\nlast line\n")
    hint = watch.text("t")
    assert "`haft access t`" in hint
    assert (f" to '{path}' was denied" if path else "An access was denied") in hint


@pytest.mark.parametrize(
    ("unit", "path"),
    [("x", "/etc/x"), ("'", "/etc/x"), ("'a", "a"), (": ", "/etc/x"), ("\u2018", "/etc/x")],
)
def test_a_path_is_found_behind_anything(unit: str, path: str) -> None:
    watch = FailureHint()
    watch.feed((unit * 900).encode() + b" /etc/x: permission denied")
    assert f" to '{path}' was denied" in watch.text("t")


@pytest.mark.parametrize(
    ("line", "host"),
    [
        ("curl: (6) Could not resolve host: example.org", "example.org"),
        ("fatal: unable to access 'https://a.org/x/': Could not resolve host: a.org", "a.org"),
        ("ssh: Could not resolve hostname db-1: Temporary failure in name resolution", "db-1"),
        ("wget: unable to resolve host address \u2018a.org\u2019", "a.org"),
        ("Failed to resolve 'a.org' ([Errno -3] Temporary failure in name resolution)", "a.org"),
        ("Error: getaddrinfo EAI_AGAIN registry.npmjs.org", "registry.npmjs.org"),
        ("dial tcp: lookup a.org: Temporary failure in name resolution", "a.org"),
        ("ssh: connect to host 10.0.0.1 port 22: Network is unreachable", "10.0.0.1"),
        ("socket.gaierror: [Errno -3] Temporary failure in name resolution", None),
        ("OSError: [Errno 101] Network is unreachable", None),
        ("curl: Could not resolve host", None),
    ],
)
def test_the_host_that_was_not_reached_is_found(line: str, host: str | None) -> None:
    watch = FailureHint()
    watch.feed(line.encode() + b"\nlast line\n")
    subject = f"The host '{host}'" if host else "A host"
    assert watch.text("t").startswith(f"{subject} was not reached")
    assert "`haft access t`" in watch.text("t")


def test_a_sandbox_with_all_of_the_network_is_not_blamed_for_a_host() -> None:
    watch = FailureHint(has_network=True)
    watch.feed(b"curl: (6) Could not resolve host: example.org\n")
    assert watch.text("t") == ""


def test_the_last_line_is_the_reason_of_an_explained_code_only() -> None:
    watch = FailureHint(is_sandboxed=False, explained=(126,))
    watch.feed(b"more\n/m.wasm is not a WebAssembly module\n")
    assert watch.text("t", 126) == "/m.wasm is not a WebAssembly module."
    assert watch.text("t", 1) == ""


NO_LIBRARY = """\
Python path configuration:
  PYTHONHOME = (not set)
  sys.path = [
    '/home/me/.pyenv/versions/3.12.1/lib/python312.zip',
  ]
Fatal Python error: init_fs_encoding: failed to get the Python codec of the filesystem encoding
Python runtime state: core initialized
ModuleNotFoundError: No module named 'encodings'

Current thread 0x00007f868ce11b80 (most recent call first):
  <no Python frame>
"""


def test_a_python_without_its_library_is_explained_with_the_folder() -> None:
    watch = FailureHint()
    watch.feed(NO_LIBRARY.encode())
    assert "`execute` of the folder that its `sys.base_prefix` names" in watch.text("t")
    assert "`haft access t`" in watch.text("t")
    watch = FailureHint(is_sandboxed=False, explained=(126,))
    watch.feed(NO_LIBRARY.encode())
    assert watch.text("t") == ""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (NO_LIBRARY, "ModuleNotFoundError: No module named 'encodings'"),
        ("Traceback (most recent call last):\n  File \"a\"\nKeyError: 'a'\n", "KeyError: 'a'"),
        ("TypeError: x is not a function\n    at f (a.js:1:2)\n    at g\n", "TypeError: x is not a function"),
        ("  only a list\n  of lines\n", "  of lines"),
        ("first\nlast\n", "last"),
    ],
)  # fmt: skip
def test_the_line_of_an_error_is_found_before_a_stack(text: str, line: str) -> None:
    assert find_error_line([one for one in text.splitlines() if one]) == line


def test_output_without_a_refusal_gives_no_hint() -> None:
    watch = FailureHint()
    watch.feed(b"no such file or directory\n")
    assert watch.text("t") == ""


def test_only_the_end_of_long_output_is_kept() -> None:
    watch = FailureHint()
    watch.feed(b"a: Permission denied\n")
    watch.feed(b"x" * 5000)
    assert watch.text("t") == ""


def test_the_hint_follows_the_error_of_a_failure_and_no_success() -> None:
    hint = "A hint."
    failed = failure_of(Termination(exit=Exit(code=1), hint=hint))
    assert failed is not None and failed.message == "The process exited with code 1. A hint."
    own = failure_of(Termination(failure=ToolError("It failed."), hint=hint))
    assert own is not None and own.message == "It failed. A hint."
    assert failure_of(Termination(exit=Exit(code=0), hint=hint)) is None
