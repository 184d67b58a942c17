"""Resolution of a command, and the reasons why a command cannot run."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from haftd.host.launch.program import (
    MAX_WORD,
    LaunchFailed,
    Missing,
    check_words,
    explain,
    interpreter_of,
    resolve,
)


def make(path: Path, text: str | bytes = "#!/bin/sh\nexit 0\n", mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(mode)
    return path


def refusal(argv0: str, path: str | None, cwd: Path) -> Missing:
    with pytest.raises(Missing) as caught:
        resolve(argv0, path, str(cwd))
    return caught.value


@pytest.mark.parametrize("name", ["a\0b", "./a\0b", "a\ud800"])
def test_an_impossible_name_of_a_program_is_refused(tmp_path: Path, name: str) -> None:
    assert refusal(name, "/bin", tmp_path).reason == "program"


def test_the_first_match_on_path_is_taken(tmp_path: Path) -> None:
    make(tmp_path / "b" / "tool")
    make(tmp_path / "c" / "tool")
    path = f"{tmp_path}/a:{tmp_path}/b/:{tmp_path}/c"
    assert resolve("tool", path, "/") == f"{tmp_path}/b/tool"


def test_X12_the_current_folder_is_not_on_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Empty, `.` and relative entries would let a checked-out repository decide which program
    runs."""
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "tool")
    make(tmp_path / "bin" / "tool")
    for path in ("", ".", ":", "bin", "./bin:", "..", f".:/nowhere:{tmp_path.name}"):
        assert refusal("tool", path, tmp_path).reason == "program"


def test_a_relative_path_starts_at_the_folder_of_the_call(tmp_path: Path) -> None:
    tool = make(tmp_path / "bin" / "tool")
    assert Path(resolve("bin/tool", None, str(tmp_path))) == tool
    assert Path(resolve("./bin/tool", None, str(tmp_path))) == tool
    assert resolve(str(tool), None, "/") == str(tool)


def test_a_path_through_a_link_is_resolved_as_by_the_kernel(tmp_path: Path) -> None:
    """`link/..` is the parent of the link's target."""
    tool = make(tmp_path / "far" / "tool")
    (tmp_path / "far" / "in").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "far" / "in")
    found = resolve("link/../tool", None, str(tmp_path))
    assert os.path.samefile(found, tool)


def test_without_a_path_variable_the_systems_folders_are_searched() -> None:
    assert resolve("sh", None, "/") in ("/bin/sh", "/usr/bin/sh")


def test_the_error_counts_searched_folders_and_shows_no_environment(tmp_path: Path) -> None:
    error = refusal("no-such-tool", f"{tmp_path}:/nowhere", tmp_path)
    assert error.reason == "program"
    assert "2 folders" in error.message and "no-such-tool" in error.message
    assert str(tmp_path) not in error.message and "/nowhere" not in error.message


def test_a_non_executable_file_is_reported_instead_of_not_found(tmp_path: Path) -> None:
    make(tmp_path / "tool", mode=0o644)
    for argv0, path in (("tool", str(tmp_path)), (f"{tmp_path}/tool", None)):
        error = refusal(argv0, path, tmp_path)
        assert error.reason == "permission" and "chmod" in error.message


def test_a_later_executable_match_is_taken(tmp_path: Path) -> None:
    make(tmp_path / "a" / "tool", mode=0o644)
    make(tmp_path / "b" / "tool")
    assert resolve("tool", f"{tmp_path}/a:{tmp_path}/b", "/") == f"{tmp_path}/b/tool"


@pytest.mark.parametrize("kind", ["missing", "file", "relative", "nul"])
def test_an_inaccessible_folder_is_another_sentence(tmp_path: Path, kind: str) -> None:
    file = make(tmp_path / "file")
    cwd = {
        "missing": str(tmp_path / "gone"),
        "file": str(file),
        "relative": "here",
        "nul": "/tmp\0x",
    }[kind]
    with pytest.raises(Missing) as caught:
        resolve("sh", None, cwd)
    assert caught.value.reason == "folder"


def test_a_tilde_is_no_home_folder_and_the_error_has_the_remedy(tmp_path: Path) -> None:
    for argv0 in ("~/bin/tool", f"{tmp_path}/~/bin/tool"):
        assert "write the path of the home folder" in str(refusal(argv0, None, tmp_path))
    tool = make(tmp_path / "~" / "tool")
    assert resolve("~/tool", None, str(tmp_path)) == str(tool)


def test_a_folder_is_not_a_program(tmp_path: Path) -> None:
    assert "folder, not a program" in refusal(str(tmp_path), None, tmp_path).message


def test_program_folder_and_interpreter_are_three_sentences(tmp_path: Path) -> None:
    script = make(tmp_path / "script", "#!/no/such/interpreter -x\n")
    missing = refusal("/no/such/program", None, tmp_path)
    folder = refusal("sh", None, tmp_path / "gone")
    interpreter = explain(errno.ENOENT, str(script), "/")
    assert [missing.reason, folder.reason, interpreter.reason] == [
        "program",
        "folder",
        "interpreter",
    ]
    assert "'/no/such/interpreter'" in interpreter.message


def test_an_interpreter_with_a_carriage_return_is_explained(tmp_path: Path) -> None:
    script = make(tmp_path / "script", "#!/bin/sh\r\necho\r\n")
    error = explain(errno.ENOENT, str(script), "/")
    assert error.reason == "interpreter" and "CR LF" in error.message


def test_a_program_exchanged_for_a_fifo_names_no_interpreter(tmp_path: Path) -> None:
    """Opened to be read, a FIFO would hold the daemon until there is a writer."""
    os.mkfifo(tmp_path / "tool")
    with open(os.open(tmp_path / "tool", os.O_RDWR), "wb") as writer:
        writer.write(b"#!/bin/sh\n")
        writer.flush()
        assert interpreter_of(str(tmp_path / "tool")) is None


def test_a_missing_loader_is_a_missing_interpreter(tmp_path: Path) -> None:
    data = Path(shutil.which("true") or "/bin/true").read_bytes()
    at = data.find(b"/ld-linux")
    if not data.startswith(b"\x7fELF") or at < 0:
        pytest.skip("true is not a dynamic program of the usual kind here")
    tool = make(tmp_path / "tool", data[:at] + b"/no-linux" + data[at + 9 :])
    with pytest.raises(FileNotFoundError):
        subprocess.run([tool], check=False)
    error = explain(errno.ENOENT, str(tool), "/")
    assert error.reason == "interpreter" and "no-linux" in error.message


def test_a_program_removed_meanwhile_is_reported_missing(tmp_path: Path) -> None:
    assert explain(errno.ENOENT, str(tmp_path / "gone"), "/").reason == "program"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (errno.ENOEXEC, "format"),
        (errno.ELIBBAD, "format"),
        (errno.E2BIG, "size"),
        (errno.EAGAIN, "resources"),
        (errno.ENOMEM, "resources"),
        (errno.EMFILE, "resources"),
        (errno.ENFILE, "resources"),
        (errno.EPERM, "permission"),
        (errno.EACCES, "permission"),
        (errno.ETXTBSY, "program"),
        (errno.EIO, "program"),
    ],
)
def test_every_exec_error_has_a_reason(tmp_path: Path, code: int, reason: str) -> None:
    error = explain(code, str(make(tmp_path / "tool")), "/")
    assert error.reason == reason
    assert error.message.endswith(".") and "\n" not in error.message


@pytest.mark.parametrize(
    ("argv", "env", "reason"),
    [
        ((), {}, "program"),
        (("",), {}, "program"),
        (("a", "b\0c"), {}, "program"),
        (("a",), {"K": "v\0"}, "program"),
        (("a",), {"K\0": "v"}, "program"),
        (("a",), {"": "v"}, "program"),
        (("a",), {"K=L": "v"}, "program"),
        (("a", "\ud800"), {}, "program"),
        (("a", "x" * (MAX_WORD + 1)), {}, "size"),
        (("a", "é" * (MAX_WORD // 2 + 1)), {}, "size"),
        (("a",), {"K": "x" * (MAX_WORD - 1)}, "size"),
    ],
)
def test_X03_impossible_arguments_are_refused(
    argv: tuple[str, ...], env: dict[str, str], reason: str
) -> None:
    with pytest.raises(Missing) as caught:
        check_words(argv, env)
    assert caught.value.reason == reason
    assert len(caught.value.message) < 300


def test_the_longest_argument_is_the_kernels() -> None:
    """131,071 bytes of an argument pass and 131,072 do not."""
    longest = "x" * MAX_WORD
    check_words(("true", longest, os.fsdecode(b"\xff")), {"K": longest[2:]})
    subprocess.run(["true", longest], env={"K": longest[2:], "PATH": "/bin:/usr/bin"}, check=True)
    for argv, env in ((["true", longest + "x"], {}), (["true"], {"K": longest[1:]})):
        with pytest.raises(OSError) as caught:
            subprocess.run(argv, env={**env, "PATH": "/bin:/usr/bin"}, check=False)
        assert caught.value.errno == errno.E2BIG


def test_no_message_holds_a_value_of_the_environment() -> None:
    for value in ("hunter2\0", "hunter2" * MAX_WORD):
        with pytest.raises(LaunchFailed) as caught:
            check_words(("a",), {"TOKEN": value})
        assert "hunter2" not in caught.value.message


@pytest.mark.parametrize(
    "head",
    [b"", b"#!", b"#! \n", b"\x7fELF", b"\x7fELF" + bytes(60), b"\x7fELF\2\1" + b"\xff" * 200],
)
def test_any_bytes_are_parsed_without_harm(tmp_path: Path, head: bytes) -> None:
    assert isinstance(explain(errno.ENOENT, str(make(tmp_path / "x", head)), "/"), LaunchFailed)
