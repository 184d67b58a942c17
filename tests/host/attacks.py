"""Attempts to leave a sandbox, run as a program inside of one: `python attacks.py SETTING`.

Prints a JSON object: for each attempt the name of the error that refused it, or `reached` with the
gain. SETTING is JSON: folders `root` (granted: all but execution), `readable` (granted: reading) and `secret`
(granted nothing, with a file `file`), the `neighbour` (a pid), the names of an `abstract` and a `path` socket
that listen. A name that ends in `_` may destroy something where no sandbox refuses it.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import socket
import stat
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

ATTEMPTS: dict[str, Callable[[dict[str, Any]], object]] = {}
PRIVATE = "a neighbour's secret"

_libc = ctypes.CDLL(None, use_errno=True)
_NEWUSER, _NEWNS = 0x10000000, 0x00020000


def attempt(function: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], object]:
    ATTEMPTS[function.__name__] = function
    return function


def call(number: int, *args: object) -> int:
    result: int = _libc.syscall(
        number, *(ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args)
    )
    if result < 0:
        raise OSError(ctypes.get_errno(), "syscall")
    return result


def text(path: str) -> str:
    with open(path) as file:
        return file.read()


# Descriptors.


@attempt
def use_an_inherited_descriptor(at: dict[str, Any]) -> object:
    for fd in range(3, 1024):
        try:
            os.fstat(fd)
            return fd
        except OSError as error:
            last = error
    raise last


# Files.


@attempt
def read_by_absolute_path(at: dict[str, Any]) -> object:
    return text(f"{at['secret']}/file")


@attempt
def read_through_dots(at: dict[str, Any]) -> object:
    return text("../secret/file")


@attempt
def read_through_an_old_link(at: dict[str, Any]) -> object:
    return text("link/file")


@attempt
def read_through_a_new_link(at: dict[str, Any]) -> object:
    os.symlink(f"{at['secret']}/file", "new-link")
    return text("new-link")


@attempt
def list_a_folder(at: dict[str, Any]) -> object:
    return os.listdir(at["secret"])


@attempt
def read_through_proc_self_root(at: dict[str, Any]) -> object:
    return text(f"/proc/self/root{at['secret']}/file")


@attempt
def read_through_proc_self_cwd(at: dict[str, Any]) -> object:
    return text("/proc/self/cwd/../secret/file")


@attempt
def read_through_a_path_descriptor(at: dict[str, Any]) -> object:
    folder = os.open(at["secret"], os.O_PATH)
    return os.read(os.open("file", os.O_RDONLY, dir_fd=folder), 100)


@attempt
def reopen_a_path_descriptor(at: dict[str, Any]) -> object:
    file = os.open(f"{at['secret']}/file", os.O_PATH)
    return text(f"/proc/self/fd/{file}")


@attempt
def read_after_chdir(at: dict[str, Any]) -> object:
    os.chdir(at["secret"])
    try:
        return text("file")
    finally:
        os.chdir(at["root"])


@attempt
def link_a_file_in(at: dict[str, Any]) -> object:
    os.link(f"{at['secret']}/file", "hard")
    return text("hard")


@attempt
def link_a_descriptor_in(at: dict[str, Any]) -> object:
    file = os.open(f"{at['secret']}/file", os.O_PATH)
    if _libc.linkat(-100, f"/proc/self/fd/{file}".encode(), -100, b"hard-2", 0x400):
        raise OSError(ctypes.get_errno(), "linkat")
    return text("hard-2")


@attempt
def link_a_file_out(at: dict[str, Any]) -> object:
    os.link("inside", f"{at['secret']}/planted")
    return True


@attempt
def move_a_file_in(at: dict[str, Any]) -> object:
    os.rename(f"{at['secret']}/movable", "moved")
    return True


@attempt
def move_a_file_out(at: dict[str, Any]) -> object:
    os.rename("inside", f"{at['secret']}/moved")
    return True


@attempt
def rename_over_a_file(at: dict[str, Any]) -> object:
    with open("mine", "w"):
        pass
    os.rename("mine", f"{at['secret']}/over")
    return True


@attempt
def exchange_two_files(at: dict[str, Any]) -> object:
    with open("mine", "w"):
        pass
    if _libc.renameat2(-100, b"mine", -100, f"{at['secret']}/over".encode(), 2):
        raise OSError(ctypes.get_errno(), "renameat2")
    return True


@attempt
def create_a_file(at: dict[str, Any]) -> object:
    return os.open(f"{at['secret']}/created", os.O_CREAT | os.O_WRONLY)


@attempt
def create_an_unnamed_file(at: dict[str, Any]) -> object:
    return os.open(at["secret"], os.O_TMPFILE | os.O_RDWR)


@attempt
def make_a_folder(at: dict[str, Any]) -> object:
    os.mkdir(f"{at['secret']}/folder")
    return True


@attempt
def remove_a_folder(at: dict[str, Any]) -> object:
    os.rmdir(f"{at['secret']}/empty")
    return True


@attempt
def make_a_socket_file(at: dict[str, Any]) -> object:
    os.mknod(f"{at['secret']}/socket", stat.S_IFSOCK | 0o600)
    return True


@attempt
def make_a_device_without_a_driver(at: dict[str, Any]) -> object:
    """As a mark of overlayfs, which needs no capability."""
    os.mknod("mark", stat.S_IFCHR | 0o600, os.makedev(0, 0))
    return True


@attempt
def ask_a_device_that_may_be_written(at: dict[str, Any]) -> object:
    """ENOTTY without a sandbox."""
    import fcntl

    return fcntl.ioctl(os.open("/dev/full", os.O_RDWR), 0x5401, bytes(64))  # TCGETS


@attempt
def make_a_link(at: dict[str, Any]) -> object:
    os.symlink("/", f"{at['secret']}/symlink")
    return True


@attempt
def make_a_fifo(at: dict[str, Any]) -> object:
    os.mkfifo(f"{at['secret']}/fifo")
    return True


@attempt
def delete_a_file(at: dict[str, Any]) -> object:
    os.unlink(f"{at['secret']}/deletable")
    return True


@attempt
def truncate_a_file(at: dict[str, Any]) -> object:
    os.truncate(f"{at['readable']}/file", 0)
    return True


@attempt
def write_what_may_be_read(at: dict[str, Any]) -> object:
    return os.open(f"{at['readable']}/file", os.O_WRONLY)


@attempt
def append_to_what_may_be_read(at: dict[str, Any]) -> object:
    return os.open(f"{at['readable']}/file", os.O_WRONLY | os.O_APPEND)


@attempt
def execute_a_copied_program(at: dict[str, Any]) -> object:
    with open("/bin/true", "rb") as source, open("copied", "wb") as copy:
        copy.write(source.read())
    os.chmod("copied", 0o755)
    pid = os.posix_spawn("./copied", ["copied"], {})
    return os.waitpid(pid, 0)


@attempt
def win_a_race_with_a_link(at: dict[str, Any]) -> object:
    """Turn a name between a folder of the sandbox and a link out of it, while the name is opened."""
    os.mkdir("good")
    with open("good/file", "w") as file:
        file.write("mine")
    over = threading.Event()

    def turn() -> None:
        while not over.is_set():
            os.symlink(at["secret"], "turn")
            os.rename("turn", "raced")
            os.symlink("good", "turn")
            os.rename("turn", "raced")

    os.symlink("good", "raced")
    thread = threading.Thread(target=turn)
    thread.start()
    refusal: OSError | None = None
    turns = 0
    try:
        while refusal is None or turns < 3000:
            turns += 1
            try:
                if (read := text("raced/file")) != "mine":
                    return read
            except OSError as error:
                refusal = error
    finally:
        over.set()
        thread.join()
    raise refusal


@attempt
def change_the_kernels_settings_(at: dict[str, Any]) -> object:
    return os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY)


@attempt
def open_a_handle_of_a_file(at: dict[str, Any]) -> object:
    """The handle is not valid: without a sandbox the error is another one."""
    here = os.open(".", os.O_RDONLY)
    return call(304, here, struct.pack("=Ii", 8, 1) + bytes(8), os.O_RDONLY)


# Namespaces and mounts.


@attempt
def mount_a_file_system_(at: dict[str, Any]) -> object:
    os.makedirs("mnt", exist_ok=True)
    if _libc.mount(b"none", b"mnt", b"tmpfs", 0, None):
        raise OSError(ctypes.get_errno(), "mount")
    return True


@attempt
def bind_a_folder_(at: dict[str, Any]) -> object:
    os.makedirs("mnt", exist_ok=True)
    if _libc.mount(at["secret"].encode(), b"mnt", None, 4096, None):
        raise OSError(ctypes.get_errno(), "mount")
    return True


@attempt
def mount_by_descriptors_(at: dict[str, Any]) -> object:
    return call(430, b"tmpfs", 0)


@attempt
def clone_a_tree_of_mounts_(at: dict[str, Any]) -> object:
    return call(428, -100, at["secret"].encode(), 1)


@attempt
def make_a_user_namespace_(at: dict[str, Any]) -> object:
    if _libc.unshare(_NEWUSER):
        raise OSError(ctypes.get_errno(), "unshare")
    return True


@attempt
def make_a_mount_namespace_(at: dict[str, Any]) -> object:
    if _libc.unshare(_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    return True


@attempt
def clone_into_a_user_namespace(at: dict[str, Any]) -> object:
    pid = call(56, _NEWUSER | 17, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    return os.waitpid(pid, 0)


@attempt
def clone_by_the_new_call(at: dict[str, Any]) -> object:
    pid = call(435, struct.pack("=8Q", _NEWUSER, 0, 0, 0, 17, 0, 0, 0), 64)
    if pid == 0:
        os._exit(0)
    return os.waitpid(pid, 0)


@attempt
def enter_anothers_namespace_(at: dict[str, Any]) -> object:
    fd = os.open(f"/proc/{at['neighbour']}/ns/net", os.O_RDONLY)
    return _libc.setns(fd, 0)


@attempt
def enter_the_own_namespace_(at: dict[str, Any]) -> object:
    fd = os.open("/proc/self/ns/net", os.O_RDONLY)
    if _libc.setns(fd, 0):
        raise OSError(ctypes.get_errno(), "setns")
    return True


@attempt
def change_the_root_folder_(at: dict[str, Any]) -> object:
    os.chroot(at["secret"])
    return True


# Neighbours.


@attempt
def trace_a_neighbour_(at: dict[str, Any]) -> object:
    if _libc.ptrace(16, at["neighbour"], 0, 0):
        raise OSError(ctypes.get_errno(), "ptrace")
    return True


@attempt
def read_a_neighbours_memory(at: dict[str, Any]) -> object:
    buffer = ctypes.create_string_buffer(8)
    local = struct.pack("=QQ", ctypes.addressof(buffer), 8)
    return call(310, at["neighbour"], local, 1, struct.pack("=QQ", at["address"], 8), 1, 0)


@attempt
def open_a_neighbours_memory(at: dict[str, Any]) -> object:
    return os.open(f"/proc/{at['neighbour']}/mem", os.O_RDWR)


@attempt
def read_a_neighbours_environment(at: dict[str, Any]) -> object:
    return text(f"/proc/{at['neighbour']}/environ")


@attempt
def read_a_neighbours_arguments(at: dict[str, Any]) -> object:
    return text(f"/proc/{at['neighbour']}/cmdline")


@attempt
def list_a_neighbours_descriptors(at: dict[str, Any]) -> object:
    return os.listdir(f"/proc/{at['neighbour']}/fd")


@attempt
def follow_a_neighbours_root(at: dict[str, Any]) -> object:
    return text(f"/proc/{at['neighbour']}/root{at['secret']}/file")


@attempt
def follow_a_neighbours_folder(at: dict[str, Any]) -> object:
    return os.listdir(f"/proc/{at['neighbour']}/cwd")


@attempt
def take_a_neighbours_descriptor(at: dict[str, Any]) -> object:
    return call(438, os.pidfd_open(at["neighbour"]), 0, 0)


@attempt
def signal_a_neighbour(at: dict[str, Any]) -> object:
    os.kill(at["neighbour"], 0)
    return True


@attempt
def signal_a_neighbour_by_descriptor(at: dict[str, Any]) -> object:
    return call(424, os.pidfd_open(at["neighbour"]), 0, None, 0)


@attempt
def queue_a_signal_to_a_neighbour(at: dict[str, Any]) -> object:
    return call(129, at["neighbour"], 0, struct.pack("=iii", 0, 0, -1) + bytes(116))


@attempt
def signal_a_neighbours_group(at: dict[str, Any]) -> object:
    os.killpg(os.getpgid(at["neighbour"]), 0)
    return True


@attempt
def have_the_kernel_signal_a_neighbour_(at: dict[str, Any]) -> object:
    """The owner of a pipe's end is signalled when there is input. The neighbour shows whether that succeeds."""
    import fcntl
    import signal

    read, write = os.pipe()
    fcntl.fcntl(read, fcntl.F_SETOWN, at["neighbour"])
    fcntl.fcntl(read, 10, signal.SIGTERM)  # F_SETSIG
    fcntl.fcntl(read, fcntl.F_SETFL, fcntl.fcntl(read, fcntl.F_GETFL) | os.O_ASYNC)
    os.write(write, b"x")
    raise OSError(errno.EPERM, "not seen from here")


@attempt
def write_a_neighbours_memory_(at: dict[str, Any]) -> object:
    buffer = ctypes.create_string_buffer(8)
    local = struct.pack("=QQ", ctypes.addressof(buffer), 8)
    return call(311, at["neighbour"], local, 1, struct.pack("=QQ", at["address"], 8), 1, 0)


@attempt
def compare_with_a_neighbour(at: dict[str, Any]) -> object:
    return call(312, at["neighbour"], at["neighbour"], 1, 0, 0)


@attempt
def look_for_a_neighbours_pages(at: dict[str, Any]) -> object:
    return call(279, at["neighbour"], 0, None, None, None, 0)


@attempt
def ask_for_a_neighbours_futexes(at: dict[str, Any]) -> object:
    return call(
        274, at["neighbour"], ctypes.create_string_buffer(8), ctypes.create_string_buffer(8)
    )


@attempt
def advise_on_a_neighbours_memory(at: dict[str, Any]) -> object:
    pages = struct.pack("=QQ", 4096, 4096)
    return call(440, os.pidfd_open(at["neighbour"]), pages, 1, 20, 0)


@attempt
def read_the_kernels_log_(at: dict[str, Any]) -> object:
    return call(103, 3, ctypes.create_string_buffer(64), 64)


@attempt
def read_a_neighbours_threads(at: dict[str, Any]) -> object:
    return text(f"/proc/{at['neighbour']}/task/{at['neighbour']}/environ")


@attempt
def change_a_neighbours_oom_score(at: dict[str, Any]) -> object:
    return os.open(f"/proc/{at['neighbour']}/oom_score_adj", os.O_WRONLY)


@attempt
def execute_a_path_descriptor(at: dict[str, Any]) -> object:
    program = os.open(f"{at['secret']}/program", os.O_PATH)
    pid = os.fork()
    if pid == 0:
        try:
            call(322, program, b"", (ctypes.c_char_p * 2)(b"program"), None, 0x1000)
        except OSError as error:
            os._exit(error.errno or 0)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status:
        raise OSError(status, "execveat")
    return True


@attempt
def hold_a_readable_file_by_a_lease(at: dict[str, Any]) -> object:
    """Others would wait for 45 s to open the file, or not get the file at all."""
    import fcntl

    file = os.open(f"{at['readable']}/leased", os.O_RDONLY)
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return True


@attempt
def make_a_device_(at: dict[str, Any]) -> object:
    os.mknod("device", 0o60666, os.makedev(8, 0))
    return True


@attempt
def read_the_kernels_memory_(at: dict[str, Any]) -> object:
    paths = [path for path in ("/proc/kcore", "/dev/mem", "/dev/kmsg") if os.path.exists(path)]
    if not paths:
        raise OSError(errno.EPERM, "there is none")
    return [os.open(path, os.O_RDONLY) for path in paths]


@attempt
def list_the_users_keys(at: dict[str, Any]) -> object:
    return text("/proc/keys")


@attempt
def open_a_new_terminal(at: dict[str, Any]) -> object:
    return os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)


@attempt
def map_a_secret_file(at: dict[str, Any]) -> object:
    import mmap

    file = os.open(f"{at['secret']}/file", os.O_RDONLY)
    return mmap.mmap(file, 0, prot=mmap.PROT_READ)[:]


@attempt
def load_a_secret_file_by_the_loader(at: dict[str, Any]) -> object:
    """`ld.so` runs what it can read."""
    path = f"{at['secret']}/program"
    ended = subprocess.run(["/lib64/ld-linux-x86-64.so.2", path], capture_output=True, check=False)
    if ended.returncode:
        raise OSError(errno.EACCES, ended.stderr.decode())
    return True


@attempt
def limit_a_neighbour(at: dict[str, Any]) -> object:
    return call(302, at["neighbour"], 7, struct.pack("=QQ", 64, 64), None)


@attempt
def share_memory_of_system_v(at: dict[str, Any]) -> object:
    segment = call(29, 0x4AF7, 4096, 0o1600)
    call(31, segment, 0, None)  # IPC_RMID
    return segment


@attempt
def look_through_shared_memory_of_system_v(at: dict[str, Any]) -> object:
    """Segments of others are found by their numbers: SHM_INFO."""
    return call(31, 0, 14, ctypes.create_string_buffer(256))


@attempt
def look_through_semaphores_of_system_v(at: dict[str, Any]) -> object:
    return call(66, 0, 0, 19, ctypes.create_string_buffer(256))


@attempt
def look_through_messages_of_system_v(at: dict[str, Any]) -> object:
    return call(71, 0, 12, ctypes.create_string_buffer(256))


@attempt
def use_the_users_keys(at: dict[str, Any]) -> object:
    return call(250, 0, -4, 1)


@attempt
def open_a_message_queue(at: dict[str, Any]) -> object:
    queue = call(240, b"haft-test", os.O_RDWR | os.O_CREAT, 0o600, None)
    call(241, b"haft-test")
    return queue


# Sockets.


def connect(family: int, address: Any, kind: int = socket.SOCK_STREAM) -> object:
    with socket.socket(family, kind) as connection:
        connection.connect(address)
        return True


@attempt
def connect_to_an_abstract_socket(at: dict[str, Any]) -> object:
    return connect(socket.AF_UNIX, f"\0{at['abstract']}")


@attempt
def connect_to_a_socket_by_path(at: dict[str, Any]) -> object:
    return connect(socket.AF_UNIX, at["path"])


@attempt
def connect_to_a_socket_by_a_link(at: dict[str, Any]) -> object:
    os.symlink(at["path"], "socket-link")
    return connect(socket.AF_UNIX, "socket-link")


@attempt
def send_by_one_socket_of_a_pair(at: dict[str, Any]) -> object:
    ours, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    return ours.sendto(b"x", at["datagrams"])


@attempt
def reconnect_one_socket_of_a_pair(at: dict[str, Any]) -> object:
    """EISCONN without a sandbox: streams are connected once."""
    ours, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    ours.connect(at["path"])
    return True


@attempt
def reconnect_the_rest_of_a_pair(at: dict[str, Any]) -> object:
    """EISCONN without a sandbox, also when the other end is closed."""
    ours, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    other.close()
    ours.connect(at["path"])
    return True


@attempt
def make_a_pair_of_another_family_(at: dict[str, Any]) -> object:
    """Without a sandbox the kernel's modules decide."""
    return socket.socketpair(socket.AF_TIPC, socket.SOCK_STREAM)


@attempt
def connect_by_tcp(at: dict[str, Any]) -> object:
    return connect(socket.AF_INET, ("127.0.0.1", at["port"]))


@attempt
def connect_by_tcp_over_ipv6(at: dict[str, Any]) -> object:
    return connect(socket.AF_INET6, ("::ffff:127.0.0.1", at["port"]))


@attempt
def send_a_datagram(at: dict[str, Any]) -> object:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        return sender.sendto(b"x", ("127.0.0.1", at["port"]))


@attempt
def listen_on_a_port(at: dict[str, Any]) -> object:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()


@attempt
def ask_for_routes(at: dict[str, Any]) -> object:
    return bool(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0))


@attempt
def open_a_raw_socket_(at: dict[str, Any]) -> object:
    return bool(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))


@attempt
def open_a_socket_of_any_other_family(at: dict[str, Any]) -> object:
    return first_socket(socket.socket, {socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK})


@attempt
def make_a_pair_of_any_other_kind(at: dict[str, Any]) -> object:
    return first_socket(socket.socketpair, {socket.AF_UNIX})


def first_socket(make: Callable[[int, int], object], but: set[int]) -> object:
    refused = OSError(errno.EACCES, "")
    for family in set(range(1, 47)) - but:
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
            try:
                return bool(make(family, kind))
            except OSError as error:
                refused = error
    raise refused


@attempt
def call_in_32_bits(at: dict[str, Any]) -> object:
    """By `int 0x80`: its numbers are others, and a filter of 64 bits would take them for its own."""
    import mmap

    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\xb8\x14\0\0\0\xcd\x80\xc3")  # getpid
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    pid = os.fork()
    if pid == 0:
        os._exit(0 if function() == os.getpid() else 1)
    if os.waitpid(pid, 0)[1]:
        raise OSError(errno.ENOSYS, "the child was killed")
    return True


@attempt
def open_a_socket_by_io_uring(at: dict[str, Any]) -> object:
    return call(425, 4, bytes(120))


# The sandbox itself.


@attempt
def load_a_program_into_the_kernel_(at: dict[str, Any]) -> object:
    return call(321, 0, bytes(128), 128)


@attempt
def watch_page_faults_(at: dict[str, Any]) -> object:
    return call(323, 1)


@attempt
def leave_the_handle_by_another_tag(at: dict[str, Any]) -> object:
    """A limit is the tag of a handle's processes."""
    return call(302, 0, 15, struct.pack("=QQ", 1 << 61, (1 << 64) - 1), None) or True


@attempt
def leave_the_handle_by_the_older_call(at: dict[str, Any]) -> object:
    return call(160, 15, struct.pack("=QQ", 1 << 61, (1 << 64) - 1)) or True


@attempt
def change_the_host_name_(at: dict[str, Any]) -> object:
    socket.sethostname(socket.gethostname())
    return True


@attempt
def set_the_clock_(at: dict[str, Any]) -> object:
    import time

    time.clock_settime(time.CLOCK_REALTIME, time.time())
    return True


@attempt
def become_another_user_(at: dict[str, Any]) -> object:
    uid = 0 if os.getuid() else 1
    os.setuid(uid)
    return True


@attempt
def take_back_privileges(at: dict[str, Any]) -> object:
    if _libc.prctl(39, 0, 0, 0, 0) == 1:
        raise OSError(errno.EPERM, "no_new_privs is on")
    return True


@attempt
def take_back_capabilities(at: dict[str, Any]) -> object:
    data = struct.pack("=IIIIII", 1 << 21, 1 << 21, 0, 0, 0, 0)  # CAP_SYS_ADMIN
    return call(126, struct.pack("=Ii", 0x20080522, 0), data) or True


@attempt
def gain_capabilities_by_executing(at: dict[str, Any]) -> object:
    code = "import ctypes as c; l = c.CDLL(None); print(l.prctl(39, 0, 0, 0, 0), l.chroot(b'.'))"
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    if printed.split() == ["1", "-1"]:
        raise OSError(errno.EPERM, "chroot")
    return printed


def main() -> None:
    at = json.loads(sys.argv[1])
    names = at.get("only") or list(ATTEMPTS)
    outcomes = {}
    for name in names:
        try:
            outcomes[name] = f"reached: {ATTEMPTS[name](at)}"
        except OSError as error:
            outcomes[name] = errno.errorcode.get(error.errno or 0, str(error))
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main()
