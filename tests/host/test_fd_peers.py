"""The peer of a descriptor, as the kernel reports."""

from __future__ import annotations

import os
import socket

from haftd.host.input_state.fd_peers import (
    find_peer,
    find_terminal,
    has_both_ends,
    is_readable,
    writes_to,
)
from haftd.host.tty import pseudo_terminal
from tests.host.launch_helpers import open_fds

NOBODY = 0x7FFF_FFF0


def inode(fd: int) -> int:
    return os.fstat(fd).st_ino


def test_the_ends_of_a_socket_pair_are_each_others_peer() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert find_peer(inode(ours.fileno())) == inode(theirs.fileno())
        assert has_both_ends(os.getpid(), inode(ours.fileno()))
        assert not has_both_ends(os.getppid(), inode(ours.fileno()))
    assert find_peer(NOBODY) is None and not has_both_ends(os.getpid(), NOBODY)


def test_a_network_socket_has_no_local_peer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert find_peer(inode(server.fileno())) is None


def test_only_the_written_end_counts() -> None:
    ours, theirs = os.pipe()
    pipes = frozenset((inode(ours),))
    assert writes_to(os.getpid(), pipes) and not writes_to(os.getppid(), pipes)
    os.close(theirs)
    assert not writes_to(os.getpid(), pipes) and not writes_to(NOBODY, pipes)
    os.close(ours)


def test_a_master_names_its_terminal_and_shows_readable_bytes() -> None:
    master, slave = pseudo_terminal.open_terminal(24, 80)
    theirs = os.open(slave, os.O_RDWR | os.O_NOCTTY)
    assert slave == f"/dev/pts/{find_terminal(os.getpid(), master)}"
    assert is_readable(os.getpid(), master) is False
    before = open_fds()
    os.write(theirs, b"x")
    assert is_readable(os.getpid(), master) is True
    assert open_fds() == before
    os.close(theirs)
    os.close(master)
    assert find_terminal(os.getpid(), master) == -1
    assert is_readable(os.getpid(), 1 << 20) is None and is_readable(NOBODY, 0) is None
