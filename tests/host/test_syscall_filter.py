"""The filter refuses each call by the number that the call has on either machine.

The instructions are run by a small interpreter of the kernel's (seccomp_data of seccomp(2)); the numbers are those of
the kernel's headers, so a number that is missing or wrong in the filter's tables is seen without the machine.
"""

from __future__ import annotations

import errno
import struct
from typing import Any, Final

import pytest

from haftd.host.launch import syscall_filter
from haftd.host.launch.syscall_filter import Network

MACHINES: Final = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
ALLOW, ASK, KILL = 0x7FFF0000, 0x7FC00000, 0x80000000

# Names with the numbers on x86_64 and aarch64, 0 where there is no such call.
PRIVILEGED: Final = {
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "setns": (308, 268),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "open_by_handle_at": (304, 265),
    "swapon": (167, 224), "swapoff": (168, 225), "reboot": (169, 142), "acct": (163, 89),
    "quotactl": (179, 60), "iopl": (172, 0), "ioperm": (173, 0), "syslog": (103, 116),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "quotactl_fd": (443, 443), "open_tree_attr": (467, 467), "file_setattr": (469, 469),
}  # fmt: skip
IPC: Final = {
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "shmget": (29, 194),
    "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190), "semop": (65, 193),
    "semctl": (66, 191), "semtimedop": (220, 192), "msgget": (68, 186), "msgsnd": (69, 189),
    "msgrcv": (70, 188), "msgctl": (71, 187), "mq_open": (240, 180), "mq_unlink": (241, 181),
}  # fmt: skip
METADATA: Final = {
    "chmod": (90, 0), "fchmod": (91, 52), "chown": (92, 0), "fchown": (93, 55), "lchown": (94, 0),
    "fchownat": (260, 54), "fchmodat": (268, 53), "fchmodat2": (452, 452), "setxattr": (188, 5),
    "lsetxattr": (189, 6), "fsetxattr": (190, 7), "removexattr": (197, 14),
    "lremovexattr": (198, 15), "fremovexattr": (199, 16), "setxattrat": (463, 463),
    "removexattrat": (466, 466), "utime": (132, 0), "utimes": (235, 0), "futimesat": (261, 0),
    "utimensat": (280, 88),
}  # fmt: skip
ABSENT: Final = {
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "clone3": (435, 435),
}  # fmt: skip
CLONE, UNSHARE = (56, 220), (272, 97)
SOCKET, SOCKETPAIR, CONNECT, SETSOCKOPT = (41, 198), (53, 199), (42, 203), (54, 208)
BIND, LISTEN = (49, 200), (50, 201)
SENDTO, SENDMSG, SENDMMSG = (44, 206), (46, 211), (307, 269)
PRLIMIT, SETRLIMIT, IOCTL, FCNTL, SECCOMP = (302, 261), (160, 164), (16, 29), (72, 25), (317, 277)
OPENAT, READ = (257, 56), (0, 63)

NAMESPACES: Final = {
    "mount": 0x00020000, "cgroup": 0x02000000, "uts": 0x04000000, "ipc": 0x08000000,
    "user": 0x10000000, "pid": 0x20000000, "net": 0x40000000,
}  # fmt: skip


class Filter:
    """The filter of one machine, for one way to the network."""

    def __init__(self, machine: str, network: Network, *, metadata: bool = False) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(syscall_filter, "architecture", lambda: machine)
            code = syscall_filter.make_filter.__wrapped__(network=network, metadata=metadata)
        self.arch, self.column = MACHINES[machine]
        self._code = list(struct.iter_unpack("=HBBI", code))

    def action(self, call: tuple[int, int], *arguments: int, arch: int | None = None) -> int:
        """Return the action for a call, which is given by its numbers on the machines."""
        words = [*arguments, *[0] * (6 - len(arguments))]
        words = [word & 0xFFFFFFFFFFFFFFFF for word in words]
        arch = self.arch if arch is None else arch
        data = struct.pack("<IIQ6Q", call[self.column], arch, 0, *words)
        at, value = 0, 0
        while True:
            code, when_true, when_false, operand = self._code[at]
            at += 1
            match code:
                case 0x20:
                    (value,) = struct.unpack_from("<I", data, operand)
                case 0x54:
                    value &= operand
                case 0x15:
                    at += when_true if value == operand else when_false
                case 0x35:
                    at += when_true if value >= operand else when_false
                case 0x45:
                    at += when_true if value & operand else when_false
                case 0x06:
                    return int(operand)
                case _:
                    raise AssertionError(f"an instruction of no filter: {code:#x}")

    def refuses(self, call: tuple[int, int], *arguments: int) -> int:
        """Return the error of a refused call; 0 if it is allowed."""
        action = self.action(call, *arguments)
        return 0 if action == ALLOW else action ^ 0x00050000


@pytest.fixture(params=MACHINES)
def machine(request: Any) -> str:
    name: str = request.param
    return name


def numbers(machine: str, calls: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    column = MACHINES[machine][1]
    return {name: call for name, call in calls.items() if call[column]}


@pytest.mark.parametrize("network", ["none", "proxy", "all"])
def test_each_call_that_no_sandbox_needs_is_refused(machine: str, network: Network) -> None:
    seccomp = Filter(machine, network, metadata=True)
    refused = {
        errno.EPERM: PRIVILEGED,
        errno.EACCES: IPC,
        errno.ENOSYS: ABSENT,
    }
    for code, calls in refused.items():
        for name, call in numbers(machine, calls).items():
            assert seccomp.refuses(call) == code, name
    assert not seccomp.refuses(OPENAT) and not seccomp.refuses(READ)


def test_a_reader_makes_no_call_that_changes_facts_of_a_file(machine: str) -> None:
    reader, writer = Filter(machine, "none"), Filter(machine, "none", metadata=True)
    for name, call in numbers(machine, METADATA).items():
        assert (reader.refuses(call), writer.refuses(call)) == (errno.EACCES, 0), name
    for request in (0x40086602, 0x401C5820):  # FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR
        assert (reader.refuses(IOCTL, 3, request), writer.refuses(IOCTL, 3, request)) == (
            errno.EPERM,
            0,
        )
    assert not reader.refuses(IOCTL, 3, 0x5401)


MODES: Final = {
    "chmod": (90, 0, 1), "fchmod": (91, 52, 1), "fchmodat": (268, 53, 2), "fchmodat2": (452, 452, 2),
    "creat": (85, 0, 1), "mknod": (133, 0, 1), "mknodat": (259, 33, 2),
}  # fmt: skip
"""Numbers, and the position of the mode."""
CREATING: Final = {"open": (2, 0, 1), "openat": (257, 56, 2)}
"""Numbers, and the position of the flags, before the mode."""
OPENAT2 = (437, 437)


@pytest.mark.parametrize("network", ["none", "proxy", "all"])
@pytest.mark.parametrize("bits", [0o4000, 0o2000, 0o6000])
def test_no_file_gets_the_id_of_its_owner_or_group(
    machine: str, network: Network, bits: int
) -> None:
    """Another user who runs such a file would act as this user, outside of the sandbox."""
    seccomp = Filter(machine, network, metadata=True)
    column = MACHINES[machine][1]
    for name, (*call, mode) in {**MODES, **CREATING}.items():
        if not call[column]:
            continue
        number = call[0], call[1]
        before = [0] * mode
        if name in CREATING:
            for flag in (0o100, 0o20200000):  # O_CREAT, O_TMPFILE
                assert seccomp.refuses(number, *before, flag, bits | 0o755) == errno.EPERM, name
                assert not seccomp.refuses(number, *before, flag, 0o1777), name
            assert not seccomp.refuses(number, *before, 0o2, bits), name
        else:
            assert seccomp.refuses(number, *before, bits | 0o755) == errno.EPERM, name
            assert not seccomp.refuses(number, *before, 0o1777), name
    assert seccomp.refuses(OPENAT2) == errno.ENOSYS
    assert not Filter(machine, network).refuses(OPENAT2)


@pytest.mark.parametrize("name", NAMESPACES)
def test_no_namespace_is_made(machine: str, name: str) -> None:
    seccomp = Filter(machine, "none")
    assert seccomp.refuses(CLONE, NAMESPACES[name] | 17) == errno.EPERM
    assert seccomp.refuses(UNSHARE, NAMESPACES[name]) == errno.EPERM
    assert not seccomp.refuses(CLONE, 17) and not seccomp.refuses(UNSHARE, 0x400)


def test_no_namespace_of_time_is_made_and_no_signal_is_taken_for_one(machine: str) -> None:
    seccomp = Filter(machine, "none")
    assert seccomp.refuses(UNSHARE, 0x80) == errno.EPERM
    assert not seccomp.refuses(CLONE, 0x80)


def test_another_architecture_ends_and_numbers_of_x32_are_unknown(machine: str) -> None:
    seccomp = Filter(machine, "none")
    assert seccomp.action(READ, arch=0x40000003) == KILL
    assert seccomp.refuses((0x40000000, 0x40000000)) == errno.ENOSYS


def test_the_tag_and_the_limits_of_others_stay(machine: str) -> None:
    """A pointer counts with both halves."""
    seccomp = Filter(machine, "none")
    for pointer in (1, 1 << 32):
        assert seccomp.refuses(PRLIMIT, 0, 15, pointer) == errno.EPERM
    assert seccomp.refuses(PRLIMIT, 1, 7, 0) == errno.EPERM
    assert seccomp.refuses(SETRLIMIT, 15, 1) == errno.EPERM
    assert not seccomp.refuses(PRLIMIT, 0, 15, 0)
    assert not seccomp.refuses(PRLIMIT, 0, 7, 1) and not seccomp.refuses(SETRLIMIT, 7, 1)
    assert seccomp.refuses(FCNTL, 3, 1024) == errno.EACCES  # F_SETLEASE
    assert not seccomp.refuses(FCNTL, 3, 4)


def test_without_a_network_there_is_no_socket_but_a_pair_of_streams(machine: str) -> None:
    seccomp = Filter(machine, "none")
    for family in range(47):
        assert seccomp.refuses(SOCKET, family, 1) == errno.EACCES
        for kind in range(1, 11):
            is_granted = family == 1 and kind in (1, 5)
            assert (not seccomp.refuses(SOCKETPAIR, family, kind | 0x80000)) == is_granted
    assert seccomp.refuses(CONNECT) == errno.EACCES


def test_with_all_of_the_network_other_families_stay_closed(machine: str) -> None:
    seccomp = Filter(machine, "all")
    granted = {family for family in range(47) if not seccomp.refuses(SOCKET, family, 1, 0)}
    assert granted == {2, 10, 16}
    assert seccomp.refuses(SOCKET, 16, 3, 15) == errno.EACCES  # netlink, but not routes
    assert not any(seccomp.refuses(call) for call in (CONNECT, BIND, LISTEN))


def test_with_the_proxy_only_tcp_is_asked_for_and_has_no_destination(machine: str) -> None:
    seccomp = Filter(machine, "proxy")
    granted = {
        (family, kind, protocol)
        for family in range(47)
        for kind in range(1, 11)
        for protocol in (0, 1, 6, 17, 132, 262)
        if not seccomp.refuses(SOCKET, family, kind | 0x800, protocol)
    }
    assert granted == {(family, 1, protocol) for family in (2, 10) for protocol in (0, 6)}
    assert seccomp.action(CONNECT) == ASK
    assert {seccomp.refuses(call) for call in (BIND, LISTEN)} == {errno.EACCES}
    for call, place in ((SENDTO, 3), (SENDMSG, 2), (SENDMMSG, 3)):
        assert seccomp.refuses(call, *[0] * place, 0x20000000) == errno.EACCES
        assert not seccomp.refuses(call, *[0x20000000] * place, 0x4000)
    assert seccomp.refuses(SECCOMP, 1, 8) == errno.EACCES
    assert not seccomp.refuses(SECCOMP, 1, 1)


ROUTES: Final = {(0, 4), (0, 50), (1, 25), (1, 62)}
"""IP_OPTIONS, IP_UNICAST_IF, SO_BINDTODEVICE, SO_BINDTOIFINDEX."""


def test_with_the_proxy_no_option_chooses_a_way(machine: str) -> None:
    seccomp = Filter(machine, "proxy")
    refused = {
        (level, option)
        for level in (0, 1, 6, 41)
        for option in range(80)
        if seccomp.refuses(SETSOCKOPT, 3, level, option)
    }
    assert refused == ROUTES
