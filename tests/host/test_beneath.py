"""A path below a folder is resolved as the caller asks, and files of the kernel are known as such."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from haftd.host.files import beneath

OF_KERNEL = {
    *("proc", "sysfs", "debugfs", "securityfs", "tracefs", "pstore", "cgroup", "cgroup2"),
    *("bpf", "devpts", "configfs", "efivarfs", "selinuxfs"),
}


def test_without_following_a_link_on_the_way_is_refused_and_the_last_one_is_pinned(
    tmp_path: Path,
) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/file").touch()
    (tmp_path / "link").symlink_to("inner")
    folder = os.open(tmp_path, os.O_PATH)
    try:
        os.close(beneath.pin(folder, "link/file"))
        with pytest.raises(OSError) as refused:
            beneath.pin(folder, "link/file", follow=False)
        assert refused.value.errno == errno.ELOOP
        link = beneath.pin(folder, "link", follow=False)
        assert os.readlink("", dir_fd=link) == "inner"
        os.close(link)
    finally:
        os.close(folder)


def test_the_mounts_of_the_kernel_are_known() -> None:
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    seen = set()
    for place, kind in mounts:
        try:
            fd = os.open(place, os.O_PATH)
        except OSError:
            continue
        try:
            # Another mount may lie above.
            if (is_of_kernel := beneath.is_of_kernel(fd)) != (kind in OF_KERNEL):
                assert [of for at, of in mounts if at == place][-1] != kind, (place, kind)
            elif is_of_kernel:
                seen.add(kind)
        finally:
            os.close(fd)
    assert "proc" in seen
