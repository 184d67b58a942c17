"""The runtime folder is private, the socket never open to others, and a loss is noticed."""

from __future__ import annotations

import fcntl
import math
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import trio
import trio.testing

from haftd.host.files import runtime_folder
from haftd.host.files.runtime_folder import (
    FolderRefused,
    SocketInUse,
    bind,
    keep_from_cleaners,
    prepare,
    prepare_state,
    read_inode,
    watch,
)
from tests.faults.harness import needs_namespaces
from tests.patience import PATIENCE_S


def test_the_folder_is_made_with_0700_whatever_the_umask(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        prepare(tmp_path / "a" / "haft")
    finally:
        os.umask(umask)
    assert (tmp_path / "a" / "haft").stat().st_mode & 0o777 == 0o700
    prepare(tmp_path / "a" / "haft")


def test_a_folder_readable_by_others_is_closed(tmp_path: Path) -> None:
    place = tmp_path / "haft"
    place.mkdir(mode=0o755)
    prepare(place)
    assert place.stat().st_mode & 0o777 == 0o700


def test_a_chosen_folder_keeps_its_mode(tmp_path: Path) -> None:
    place = tmp_path / "home"
    place.mkdir(mode=0o755)
    prepare(place, ours=False)
    assert place.stat().st_mode & 0o777 == 0o755
    prepare(tmp_path / "new", ours=False)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777, 0o720])
def test_P17_a_folder_writable_by_others_is_refused(tmp_path: Path, mode: int) -> None:
    place = tmp_path / "haft"
    place.mkdir()
    place.chmod(mode)
    advice = "use a folder of your own" if mode & 0o1000 else f"then run: chmod 700 {place}"
    with pytest.raises(FolderRefused, match=f"{advice}$"):
        prepare(place)
    assert place.stat().st_mode & 0o7777 == mode


def test_P17_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "haft").symlink_to(tmp_path / "real")
    with pytest.raises(FolderRefused, match="symbolic link"):
        prepare(tmp_path / "haft")


def test_P17_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can make a folder of another user")
    place = tmp_path / "haft"
    place.mkdir(mode=0o700)
    os.chown(place, 65534, 65534)
    with pytest.raises(FolderRefused, match="belongs to user 65534"):
        prepare(place)


def test_P17_a_parent_writable_by_others_is_refused_unless_sticky(
    tmp_path: Path,
) -> None:
    parent = tmp_path / "shared"
    parent.mkdir()
    parent.chmod(0o777)
    with pytest.raises(FolderRefused, match="sticky"):
        prepare(parent / "haft")
    parent.chmod(0o1777)
    prepare(parent / "haft")


def test_the_state_folder_is_made_private_and_may_be_a_symlink(tmp_path: Path) -> None:
    state, large = tmp_path / "state" / "haft", tmp_path / "large"
    for place in (state, large):
        place.mkdir(parents=True)
        place.chmod(0o755)
    state.parent.chmod(0o775)
    (state / "spool").symlink_to(large)
    prepare_state(state, ("spool", "calls"))
    modes = [place.stat().st_mode & 0o777 for place in (state, state / "calls", large)]
    assert modes == [0o700, 0o700, 0o755]


@pytest.mark.parametrize("name", ["", "spool"])
def test_P17_a_symlink_to_a_public_folder_is_no_state_folder(tmp_path: Path, name: str) -> None:
    """As root it was closed to all others, even /tmp itself."""
    shared, state = tmp_path / "shared", tmp_path / "state"
    shared.mkdir()
    shared.chmod(0o1777)
    if name:
        state.mkdir()
    (state / name).symlink_to(shared)
    with pytest.raises(FolderRefused, match="can be written to by others"):
        prepare_state(state, ("spool",))
    assert shared.stat().st_mode & 0o7777 == 0o1777


@pytest.mark.parametrize("name", ["..", ".", "spool"])
def test_P17_a_state_folder_of_another_user_is_refused(tmp_path: Path, name: str) -> None:
    """Its owner could replace our files at any time."""
    if os.getuid() != 0:
        pytest.skip("only root can make a folder of another user")
    state = tmp_path / "home" / "state"
    prepare_state(state, ("spool",))
    os.chown(state / name, 65534, 65534)
    with pytest.raises(FolderRefused, match="belongs to user 65534"):
        prepare_state(state, ("spool",))


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "haft").touch()
    with pytest.raises(FolderRefused, match="not a folder"):
        prepare(tmp_path / "haft")
    with pytest.raises(FolderRefused, match="in the way"):
        prepare(tmp_path / "haft" / "inner")
    with pytest.raises(FolderRefused, match="absolute"):
        prepare(Path("relative"))


def test_U02_the_socket_is_never_open_to_others(short_tmp: Path) -> None:
    path = short_tmp / "s"
    umask = os.umask(0)
    try:
        listener = bind(path)
        assert os.umask(0) == 0  # as before
    finally:
        os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o600
    assert not listener.getblocking() and not listener.get_inheritable()
    listener.close()


def test_L03_a_stale_socket_is_replaced_and_a_served_one_is_not(short_tmp: Path) -> None:
    path = short_tmp / "s"
    for _ in range(20):
        listener = bind(path)
        with pytest.raises(SocketInUse):
            bind(path)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
        listener.close()  # as a kill does: the name stays


def test_L03_a_server_with_a_full_backlog_is_alive(short_tmp: Path) -> None:
    path = short_tmp / "s"
    listener = bind(path, backlog=0)
    clients = []
    for _ in range(5):
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        client.connect_ex(str(path))
        clients.append(client)
    with pytest.raises(SocketInUse):
        bind(path)
    for client in (*clients, listener):
        client.close()


def test_only_a_socket_without_a_server_is_abandoned(short_tmp: Path) -> None:
    path = short_tmp / "s"
    assert not runtime_folder.is_abandoned(path)
    assert not runtime_folder.is_abandoned(short_tmp / "missing" / "s")
    listener = bind(path)
    assert not runtime_folder.is_abandoned(path)
    listener.close()
    assert runtime_folder.is_abandoned(path)
    path.unlink()
    path.write_text("")
    assert not runtime_folder.is_abandoned(path)


def test_a_file_at_the_sockets_path_is_kept(short_tmp: Path) -> None:
    path = short_tmp / "s"
    path.write_text("precious")
    with pytest.raises(FolderRefused, match="not a socket"):
        bind(path)
    assert path.read_text() == "precious"


def test_L04_a_path_over_the_limit_is_refused_before_binding(short_tmp: Path) -> None:
    longest = runtime_folder.MAX_SOCKET_PATH - len(os.fsencode(short_tmp)) - 1
    bind(short_tmp / ("s" * longest)).close()
    with pytest.raises(FolderRefused, match="108 bytes, and 107 is the limit"):
        bind(short_tmp / ("t" * (longest + 1)))
    with pytest.raises(FolderRefused, match="107"):
        bind(short_tmp / ("ä" * 60))


def test_another_cleaner_finds_the_folder_locked(tmp_path: Path) -> None:
    held = [keep_from_cleaners(tmp_path) for _ in range(2)]
    cleaner = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    with pytest.raises(BlockingIOError):
        fcntl.flock(cleaner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    for fd in held:
        os.close(fd)
    fcntl.flock(cleaner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(cleaner)


@pytest.fixture
def place(short_tmp: Path) -> Path:
    """A runtime folder with a socket and a lock."""
    inner = short_tmp / "run" / "haft"
    prepare(inner)
    (inner / "haftd.sock").touch()
    (inner / "daemon.lock").touch()
    return inner


@pytest.mark.parametrize(
    "loss",
    [
        lambda place: shutil.rmtree(place),
        lambda place: shutil.rmtree(place.parent),
        lambda place: (place / "haftd.sock").unlink(),
        lambda place: (place / "daemon.lock").unlink(),
        lambda place: place.rename(place.with_name("elsewhere")),
        lambda place: place.parent.rename(place.parent.with_name("elsewhere")),
        lambda place: (place / "other").rename(place / "haftd.sock"),
    ],
    ids=["folder", "parent", "socket", "lock", "renamed", "parent renamed", "replaced"],
)
async def test_L01_a_loss_wakes_the_watch(
    place: Path, loss: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(loss)
    monkeypatch.setattr(runtime_folder, "_CHECK_S", math.inf)
    (place / "other").touch()
    paths = [place / "haftd.sock", place / "daemon.lock"]
    before = [read_inode(path) for path in paths]

    def is_changed() -> bool:
        return [read_inode(path) for path in paths] != before

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, paths, is_changed)
        await trio.testing.wait_all_tasks_blocked()
        (place / "unrelated").touch()
        await trio.testing.wait_all_tasks_blocked()
        assert nursery.child_tasks
        loss(place)
        with trio.fail_after(PATIENCE_S):
            while nursery.child_tasks:
                await trio.lowlevel.checkpoint()


async def test_L01_a_loss_before_the_watch_is_noticed_at_once(place: Path) -> None:
    with trio.fail_after(PATIENCE_S):
        await watch([place / "daemon.lock"], lambda: True)


async def test_L01_without_inotify_the_folder_is_checked_every_few_seconds(
    place: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    def refuse(_bell: runtime_folder._ChangeWatcher, _paths: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(runtime_folder._ChangeWatcher, "_watch", refuse)
    before = len(os.listdir("/proc/self/fd"))

    async def lose() -> None:
        await trio.sleep(30)
        (place / "daemon.lock").unlink()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(lose)
        await watch([place / "daemon.lock"], lambda: not (place / "daemon.lock").exists())
        assert 30 <= trio.current_time() <= 35
    assert len(os.listdir("/proc/self/fd")) == before


MOUNTED = """
import subprocess, sys, trio
from pathlib import Path
from haftd.host.files.runtime_folder import watch

async def main():
    place = Path(sys.argv[1])
    async with trio.open_nursery() as nursery:
        async def look():
            lock = place / "daemon.lock"
            await watch([lock], lambda: not lock.exists())
            print(lock)
        nursery.start_soon(look)
        await trio.testing.wait_all_tasks_blocked()
        subprocess.run(["mount", "-t", "tmpfs", "none", place.parent], check=True)

import trio.testing
trio.run(main)
"""


@needs_namespaces
def test_L01_a_mount_over_the_folder_is_a_loss(place: Path) -> None:
    done = subprocess.run(
        ["unshare", "-m", sys.executable, "-c", MOUNTED, place],
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    assert done.stdout.strip() == str(place / "daemon.lock"), done.stderr


def test_a_failed_bind_leaves_no_descriptor(short_tmp: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(FileNotFoundError):
        bind(short_tmp / "no" / "s")
    assert len(os.listdir("/proc/self/fd")) == before
