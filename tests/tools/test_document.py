"""Definition files: line numbers of keys, and files writable by others."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from haftd.tools.definitions.document import UnreadableFile, parse, read

TEXT = '''# a comment
top = 1
[tools.x]
command = [
    "a = b",   # tools.fake = 1
    { each = "x" },
]
text = """
[tools.fake]
rows = 3
"""
rows = 4
[tools.x.env]
A = "1"
"b.c" = "2"
[tools."y z"]
limits.memory = 3
inline = { deep = 1 }
[[list.of]]
n = 1
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("top",), 2),
        (("tools", "x"), 3),
        (("tools", "x", "command"), 4),
        (("tools", "x", "command", "1"), 4),
        (("tools", "x", "text"), 8),
        (("tools", "x", "rows"), 12),
        (("tools", "x", "env", "A"), 14),
        (("tools", "x", "env", "b.c"), 15),
        (("tools", "y z", "limits", "memory"), 17),
        (("tools", "y z", "inline", "deep"), 18),
        (("list", "of", "n"), 20),
        (("tools", "fake"), None),
        (("nowhere",), None),
    ],
)
def test_a_key_is_found_at_its_line(path: tuple[str, ...], line: int | None) -> None:
    assert parse(TEXT, "f").line(path) == line


def test_invalid_toml_is_reported_with_its_line() -> None:
    with pytest.raises(UnreadableFile) as caught:
        parse("a = 1\nb =\n", "f")
    assert caught.value.line == 2
    assert "line" not in caught.value.message


ROWS = st.sampled_from(
    [
        "a = 1",
        "b.c = 2",
        "[t]",
        "[[u]]",
        "",
        "# d = 1",
        "e = '\u2028'",
        "f = ''",
        "g = '''",
        "'''",
        "[",
    ]
)


@given(
    st.lists(st.one_of(ROWS, st.text("ab=[]\".'{}# ,\\1", max_size=10)), max_size=6).map("\n".join)
)
@example("a = 1\n[t]\nb.c = 2")
@example("e = '\u2028'\na = 1")
def test_any_text_is_a_document_or_one_kind_of_error(text: str) -> None:
    try:
        found = parse(text, "f")
    except UnreadableFile:
        return
    rows = text.split("\n")
    for path, line in found.lines.items():
        assert path[-1] in rows[line - 1]


@pytest.mark.parametrize(
    "text", ["a = {" + "a." * 400 + "a = 1}", "a." * 400 + "a = 1", "a = " + "[" * 90 + "]" * 90]
)
def test_a_too_deeply_nested_document_is_refused(text: str) -> None:
    """Walking and describing it recurse as deep."""
    with pytest.raises(UnreadableFile, match="nested too deeply"):
        parse(text, "f")


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A valid file in a valid folder."""
    path = tmp_path / "tools" / "one.toml"
    path.parent.mkdir(mode=0o700)
    path.write_text("a = 1\n")
    return path


ANOTHER = 4711
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (lambda path: path.chmod(0o666), "it is writable by everybody"),
        (lambda path: path.parent.chmod(0o777), "its folder is writable by everybody"),
        pytest.param(
            lambda path: os.chown(path, ANOTHER, -1), f"it belongs to .* {ANOTHER}", marks=as_root
        ),
        pytest.param(
            lambda path: os.chown(path.parent, ANOTHER, -1),
            f"its folder belongs to .* {ANOTHER}",
            marks=as_root,
        ),
    ],
)
def test_P17_a_file_writable_by_another_user_is_not_read(
    written: Path, what: Callable[[Path], None], message: str
) -> None:
    assert read(written).data == {"a": 1}
    what(written)
    with pytest.raises(UnreadableFile, match=message):
        read(written)


@as_root
def test_P17_another_users_symlink_is_not_followed(written: Path) -> None:
    """It could lead to an untrusted project's file, which belongs to the user."""
    link = written.with_name("two.toml")
    link.symlink_to(written)
    assert read(link).data == {"a": 1}
    os.chown(link, ANOTHER, -1, follow_symlinks=False)
    with pytest.raises(UnreadableFile, match="it belongs to"):
        read(link)


def test_a_users_own_file_in_a_sticky_folder_is_read(written: Path) -> None:
    written.parent.chmod(0o1777)
    assert read(written).data == {"a": 1}


def test_a_non_file_is_not_waited_for(written: Path) -> None:
    pipe = written.with_name("pipe.toml")
    os.mkfifo(pipe)
    with pytest.raises(UnreadableFile, match="not a regular file"):
        read(pipe)
    with pytest.raises(UnreadableFile, match="no such file"):
        read(written.with_name("nothing.toml"))


def test_a_file_replaced_after_its_check_is_not_waited_for(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = written.with_name("pipe.toml")
    os.mkfifo(pipe)
    monkeypatch.setattr(Path, "is_file", lambda path: True)
    with pytest.raises(UnreadableFile, match="not a regular file"):
        read(pipe)


def test_a_non_file_is_not_even_opened(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening a device may have effects."""

    def open_it(*what: object) -> int:
        raise AssertionError("it was opened")

    pipe = written.with_name("pipe.toml")
    os.mkfifo(pipe)
    monkeypatch.setattr(os, "open", open_it)
    with pytest.raises(UnreadableFile, match="not a regular file"):
        read(pipe)


def test_a_sticky_bit_protects_a_folder_and_no_file(written: Path) -> None:
    written.chmod(0o1666)
    with pytest.raises(UnreadableFile, match="writable by everybody"):
        read(written)


@as_root
def test_roots_files_are_read_by_every_user(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An administrator's tools, or a home that root has made."""
    monkeypatch.setattr(os, "geteuid", lambda: ANOTHER)
    assert read(written).data == {"a": 1}


def test_each_integer_of_64_bits_is_read() -> None:
    numbers = [-(2**63), 2**63 - 1]
    assert parse(f"a = {numbers}", "x.toml").data == {"a": numbers}
    with pytest.raises(UnreadableFile, match="TOML's limit"):
        parse(f"a = {-(2**63) - 1}", "x.toml")


def test_a_document_at_the_depth_limit_is_read() -> None:
    assert parse("a = " + "[" * 63 + "1" + "]" * 63, "f").data
    with pytest.raises(UnreadableFile, match="nested too deeply"):
        parse("a = " + "[" * 64 + "1" + "]" * 64, "f")
