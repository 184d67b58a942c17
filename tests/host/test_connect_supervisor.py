"""A sandbox with haft's proxy as its only destination: every other way out is refused, as root and as another user."""

from __future__ import annotations

import errno
import json
import os
import platform
import shutil
import socket
import struct
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from haftd.host.launch import connect_supervisor, landlock, spawn
from haftd.host.launch.connect_supervisor import is_proxy, supervise
from haftd.host.launch.gate import interpreter_gate, machine_gate
from haftd.host.launch.program import LaunchFailed
from haftd.launch_spec import LaunchSpec, Sandbox
from tests.patience import PATIENCE_S

from .launch_helpers import new_mark, open_fds, plan, run, running
from .sandbox_attempts import INTERPRETER, in_child_as

pytestmark = [
    pytest.mark.skipif(platform.machine() != "x86_64", reason="needs x86_64"),
    pytest.mark.skipif(landlock.abi() < 6, reason="needs a kernel with Landlock 6"),
]

NOBODY = 65534
PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
ATTEMPTS = """
import errno, json, os, socket, sys, threading
port, other = map(int, sys.argv[1:3])
outcomes = {}
def attempt(function):
    try:
        outcomes[function.__name__] = function() or "done"
    except OSError as error:
        outcomes[function.__name__] = errno.errorcode[error.errno]
def reach(family, address, kind=socket.SOCK_STREAM, protocol=0):
    with socket.socket(family, kind, protocol) as sock:
        sock.connect(address)
        return sock.recv(10).decode()
V4, V6 = socket.AF_INET, socket.AF_INET6
@attempt
def proxy(): return reach(V4, ("127.0.0.1", port))
@attempt
def proxy_by_a_mapped_address(): return reach(V6, ("::ffff:127.0.0.1", port))
@attempt
def proxy_by_a_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(reach(V4, ("127.0.0.1", port))))
    thread.start(), thread.join()
    return found[0]
@attempt
def proxy_by_a_child():
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, reach(V4, ("127.0.0.1", port)).encode())
        os._exit(0)
    os.wait()
    return os.read(read, 10).decode()
@attempt
def proxy_without_blocking():
    sock = socket.socket(V4)
    sock.setblocking(False)
    code = sock.connect_ex(("127.0.0.1", port))
    assert code in (0, errno.EINPROGRESS) and not sock.getblocking()
    sock.setblocking(True)
    return sock.recv(10).decode()
@attempt
def another_port(): return reach(V4, ("127.0.0.1", other))
@attempt
def another_address(): return reach(V4, ("127.0.0.2", port))
@attempt
def another_host(): return reach(V4, ("192.0.2.1", port))
@attempt
def any_address(): return reach(V4, ("0.0.0.0", port))
@attempt
def ipv6(): return reach(V6, ("::1", port))
@attempt
def ipv6_compatible(): return reach(V6, ("::127.0.0.1", port))
@attempt
def udp(): return reach(V4, ("127.0.0.1", other), socket.SOCK_DGRAM)
@attempt
def udp6(): return reach(V6, ("::1", other), socket.SOCK_DGRAM)
@attempt
def mptcp(): return reach(V4, ("127.0.0.1", other), protocol=262)
@attempt
def netlink(): return reach(socket.AF_NETLINK, (0, 0), socket.SOCK_RAW)
@attempt
def unix(): return reach(socket.AF_UNIX, "socket")
@attempt
def fast_open(): return str(socket.socket(V4).sendto(b"x", socket.MSG_FASTOPEN, ("127.0.0.1", other)))
@attempt
def fast_open_of_a_message():
    return str(socket.socket(V4).sendmsg([b"x"], [], socket.MSG_FASTOPEN, ("127.0.0.1", other)))
@attempt
def bind(): return socket.socket(V4).bind(("127.0.0.1", 0))
@attempt
def listen(): return socket.socket(V4).listen()
@attempt
def source_route():
    # The first packet would go to that host.
    route = bytes([131, 7, 4, 192, 0, 2, 1, 0])
    socket.socket(V4).setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, route)
@attempt
def source_route_of_ipv6(): socket.socket(V6).setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, bytes(4))
@attempt
def interface(): socket.socket(V4).setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth0")
@attempt
def interface_by_number(): socket.socket(V4).setsockopt(socket.SOL_SOCKET, 62, 2)
@attempt
def interface_of_ipv4(): socket.socket(V4).setsockopt(socket.IPPROTO_IP, 50, bytes([0, 0, 0, 2]))
@attempt
def usual_options():
    with socket.socket(V4) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 8)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
@attempt
def supervisor_of_its_own():
    # It could let `connect` pass, once haft's is gone.
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    allow = ctypes.create_string_buffer(bytes([6, 0, 0, 0, 0, 0, 0xFF, 0x7F]))
    filter = (1).to_bytes(8, "little") + ctypes.addressof(allow).to_bytes(8, "little")
    if libc.syscall(317, 1, 1 << 3, filter) < 0:
        raise OSError(ctypes.get_errno(), "")
@attempt
def no_address():
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.connect(socket.socket(V4).fileno(), ctypes.c_void_p(16), 16):
        raise OSError(ctypes.get_errno(), "")
@attempt
def no_socket():
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    address = (2).to_bytes(2, sys.byteorder) + port.to_bytes(2, "big") + bytes([127, 0, 0, 1]) + bytes(8)
    if libc.connect(0, address, 16):
        raise OSError(ctypes.get_errno(), "")
print(json.dumps(outcomes))
"""
REACHED = {
    "proxy",
    "proxy_by_a_mapped_address",
    "proxy_by_a_thread",
    "proxy_by_a_child",
    "proxy_without_blocking",
}
DONE = {"usual_options"}
OTHERWISE = {"no_address": "EFAULT", "no_socket": "ENOTSOCK"}
ATTEMPTED = [
    line.split()[1].partition("(")[0]
    for before, line in zip(ATTEMPTS.splitlines(), ATTEMPTS.splitlines()[1:], strict=False)
    if before == "@attempt"
]


def proxied(*argv: str, cwd: str, port: int = 0) -> LaunchSpec:
    sandbox = Sandbox("/", (INTERPRETER,), is_proxied=True, proxy_port=port)
    return plan(*argv, cwd=cwd, mark=new_mark())._replace(sandbox=sandbox)


async def attempt_all(cwd: str, kind: str) -> dict[str, str]:
    """Make the attempts beside a server that stands for the proxy, and one that must not be reached."""

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.send_all(b"reached")

    async with trio.open_nursery() as nursery:
        listeners = [
            (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0],
            (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0],
        ]
        port, other = (listener.socket.getsockname()[1] for listener in listeners)
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        spec = proxied(PYTHON, "-c", ATTEMPTS, str(port), str(other), cwd=cwd, port=port)
        confinement = spawn._make_confinement(spec.sandbox)
        gate = (machine_gate if kind == "machine" else interpreter_gate)(confinement)
        assert gate is not None
        async with running(spec, gate=gate) as (launched, _):
            assert launched.listener is not None and launched.stdout is not None
            nursery.start_soon(supervise, launched.listener, port)
            printed = b""
            while True:
                await trio.lowlevel.wait_readable(launched.stdout)
                if not (data := os.read(launched.stdout, 65536)):
                    break
                printed += data
        nursery.cancel_scope.cancel()
    outcomes: dict[str, str] = json.loads(printed.splitlines()[-1])
    return outcomes


@pytest.fixture(scope="module", params=["machine", "interpreter", "another user"])
def outcomes(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    folder = tempfile.mkdtemp(prefix="haft-")
    os.chmod(folder, 0o777)
    kind = "machine" if request.param == "another user" else request.param
    if request.param != "another user":
        yield trio.run(attempt_all, folder, kind)
    elif os.geteuid() != 0:
        pytest.skip("only root can change to another user")
    else:
        yield in_child_as(NOBODY, lambda: trio.run(attempt_all, folder, kind))
    shutil.rmtree(folder)


@pytest.mark.parametrize("name", ATTEMPTED)
def test_only_the_proxy_is_reached(outcomes: dict[str, str], name: str) -> None:
    wanted = "reached" if name in REACHED else "done" if name in DONE else None
    wanted = wanted or OTHERWISE.get(name, "EACCES")
    assert outcomes[name] == wanted


def test_nothing_is_reached_without_a_supervisor(tmp_path: Path) -> None:
    code = "import socket\ntry: socket.create_connection(('127.0.0.1', 1))\nexcept OSError as e: print(e.errno)"

    async def attempt() -> bytes:
        async with running(proxied(PYTHON, "-c", code, cwd=str(tmp_path))) as (launched, _):
            assert launched.listener is not None and launched.stdout is not None
            os.close(launched.listener)
            launched.listener = None
            await trio.lowlevel.wait_readable(launched.stdout)
            return os.read(launched.stdout, 100)

    assert int(trio.run(attempt)) == errno.ENOSYS


def test_a_supervision_ends_with_the_last_process(tmp_path: Path) -> None:
    async def wait() -> None:
        async with running(proxied("sh", "-c", "(sleep 0.1) &", cwd=str(tmp_path))) as (it, kin):
            assert it.listener is not None
            await supervise(it.listener, 1)
            await kin.wait_ended()

    trio.run(wait)


def test_no_question_is_awaited_when_no_process_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before Linux 6.11 the kernel would wait for a question that none can ask any more."""
    monkeypatch.setattr(connect_supervisor, "_receive", pytest.fail)
    trio.run(run, proxied("true", cwd=str(tmp_path)))

    async def wait() -> None:
        async with running(proxied("true", cwd=str(tmp_path))) as (it, _):
            assert it.listener is not None
            await supervise(it.listener, 1)

    trio.run(wait)


def test_a_caller_that_delays_its_answer_delays_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def delayed(question: object) -> bytes:
        asked.set()
        assert go_on.wait(PATIENCE_S), "the loop waits for the caller"
        return b""

    monkeypatch.setattr(connect_supervisor, "_wanted_address", delayed)
    code = "import socket\ntry: socket.create_connection(('127.0.0.1', 1))\nexcept OSError as e: print(e.errno)"

    async def attempt() -> str:
        async with trio.open_nursery() as nursery:

            async def release() -> None:
                await trio.to_thread.run_sync(asked.wait)
                go_on.set()

            nursery.start_soon(release)
            return await run(proxied(PYTHON, "-c", code, cwd=str(tmp_path)))
        raise AssertionError("the block returns")

    assert int(trio.run(attempt)) == errno.EACCES


def test_a_kernel_that_lets_no_child_be_supervised_refuses_and_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(pidfd: int, fd: int) -> int:
        raise OSError(errno.EPERM, "")

    trio.run(run, proxied("true", cwd=str(tmp_path)))  # the gate stays open
    monkeypatch.setattr(connect_supervisor, "_copy", refuse)
    before = open_fds()
    with pytest.raises(LaunchFailed) as caught:
        trio.run(run, proxied("touch", "ran", cwd=str(tmp_path)))
    assert caught.value.reason == "sandbox" and "access.net" in caught.value.message
    assert f"Linux {os.uname().release}" in caught.value.message
    assert open_fds() == before and not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("address", "answer"),
    [
        (b"", False),
        (b"\2", False),
        (struct.pack("=H", socket.AF_INET), False),
        (struct.pack("=H", socket.AF_UNSPEC) + bytes(14), False),
        (struct.pack("=H", socket.AF_INET) + b"\x1f\x90\x7f\0\0\1", True),
        (struct.pack("=H", socket.AF_INET) + b"\x1f\x90\x7f\0\0\1" + bytes(8), True),
        (struct.pack("=H", socket.AF_INET) + b"\x1f\x91\x7f\0\0\1" + bytes(8), False),
        (struct.pack("=H", socket.AF_INET6) + b"\x1f\x90" + bytes(4) + bytes(15) + b"\1", False),
        (
            struct.pack("=H", socket.AF_INET6) + b"\x1f\x90" + bytes(14) + b"\xff\xff\x7f\0\0\1",
            True,
        ),
        (struct.pack("=H", socket.AF_UNIX) + b"\x1f\x90\x7f\0\0\1", False),
    ],
)
def test_the_address_of_the_proxy_is_told_from_others(address: bytes, answer: bool) -> None:
    assert is_proxy(address, 8080) is answer


@pytest.mark.parametrize(
    ("family", "kind", "code"),
    [
        (socket.AF_UNIX, socket.SOCK_STREAM, errno.EACCES),
        (socket.AF_INET, socket.SOCK_DGRAM, errno.EACCES),
        (socket.AF_INET, socket.SOCK_STREAM, 0),
        (socket.AF_INET6, socket.SOCK_STREAM, 0),
    ],
)
def test_only_streams_of_the_internet_are_connected(family: int, kind: int, code: int) -> None:
    """A second wall behind the filter, which lets the other families make no socket."""
    with socket.socket(family, kind) as sock:
        question = connect_supervisor._Question(0, threading.get_native_id(), sock.fileno(), 0, 0)
        try:
            connect_supervisor._copied_socket(question).close()
        except OSError as error:
            assert error.errno == code
        else:
            assert not code


def test_no_socket_is_connected_for_a_caller_that_has_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its pid, and so the address and the socket that were read, may be another process's by then."""

    def gone(listener: int, request: int, data: object) -> int:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))

    monkeypatch.setattr("fcntl.ioctl", gone)
    target = struct.pack("=H", socket.AF_INET) + struct.pack("!H4s", 8080, bytes([127, 0, 0, 1]))
    monkeypatch.setattr(connect_supervisor, "_wanted_address", lambda question: target)
    monkeypatch.setattr(connect_supervisor, "_connect", lambda sock, port: (0, True))
    with socket.socket() as sock:
        question = connect_supervisor._Question(1, threading.get_native_id(), sock.fileno(), 0, 0)
        connected = connect_supervisor._connected(-1, question, 8080)
        assert connected.sock is not None
        connected.sock.close()
        assert connected.code == errno.ENOENT
