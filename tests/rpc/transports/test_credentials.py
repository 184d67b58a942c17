"""W18: the token's file belongs to its owner alone, whatever was there before."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from haft_protocol.runtime_paths import Runtime, runtime_paths
from haftd.rpc.transports.credentials import Credentials


def places(folder: Path) -> Runtime:
    return runtime_paths({}, 7, socket=f"{folder}/s")


def ensure_token(path: Path) -> str:
    """Return the token at `path`, or a new one, as for a port that a manager has held."""
    kept = Credentials.keep(msgspec.structs.replace(places(path.parent), token=str(path)))
    (path.parent / "proof-key").unlink(missing_ok=True)
    return kept.token


def test_a_token_is_made_once_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = ensure_token(path)
    assert len(token) == 43
    assert path.stat().st_mode & 0o777 == 0o600
    assert ensure_token(path) == token
    assert os.listdir(tmp_path) == ["token"]


def test_two_tokens_are_never_the_same(tmp_path: Path) -> None:
    assert len({ensure_token(tmp_path / str(n)) for n in range(50)}) == 50


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_W18_a_token_readable_by_others_is_replaced(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "token"
    old = ensure_token(path)
    path.chmod(mode)
    new = ensure_token(path)
    assert new != old
    assert path.stat().st_mode & 0o777 == 0o600


def test_W18_a_symlink_is_replaced_and_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    known = ensure_token(elsewhere)
    path = tmp_path / "token"
    path.symlink_to(elsewhere)
    assert ensure_token(path) != known
    assert not path.is_symlink()
    assert elsewhere.read_text().strip() == known


def test_W18_a_hard_linked_file_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "token"
    old = ensure_token(path)
    os.link(path, tmp_path / "other")
    assert ensure_token(path) != old


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_W18_another_users_file_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "token"
    old = ensure_token(path)
    os.chown(path, 65534, 65534)
    assert ensure_token(path) != old
    assert path.stat().st_uid == os.getuid()


@pytest.mark.parametrize(
    "text", [b"", b"short", b"x" * 43 + b"y", b"\xff" * 43, b"a b" * 14 + b"c"]
)
def test_a_damaged_token_is_replaced(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(text)
    path.chmod(0o600)
    assert ensure_token(path).encode() + b"\n" == path.read_bytes()


def test_a_fifo_in_its_place_does_not_block(tmp_path: Path) -> None:
    path = tmp_path / "token"
    os.mkfifo(path, 0o600)
    assert len(ensure_token(path)) == 43


def test_an_unwritable_token_raises_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.mkdir()
    (path / "full").touch()
    with pytest.raises(OSError):
        ensure_token(path)
    assert os.listdir(tmp_path) == ["token"]


def test_a_made_token_is_new_and_removed_whole(tmp_path: Path) -> None:
    made = [Credentials.make(places(tmp_path)) for _ in range(2)]
    assert len({one.token for one in made} | {one.key for one in made}) == 4
    assert Credentials.keep(places(tmp_path)) == made[1]
    assert made[1].token not in repr(made[1]) and made[1].key not in repr(made[1])
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"token": 0o600, "proof-key": 0o600}
    Credentials.remove(places(tmp_path))
    assert os.listdir(tmp_path) == []
