"""A process that has imported `haftd`, and forks a daemon for each test that needs one.
Importing the daemon takes a third of a CPU second; a fork takes milliseconds. A forked daemon
equals an executed one in all that tests observe: arguments and environment are written to
where the kernel shows them (/proc/PID/cmdline and environ), and descriptors, session, folder
and `main` are as requested. Only its parent is the fork server. Its guardian is forked too.
There is one server for a test process and the workers that it forks. A child that cannot be forked (other interpreter options,
loader variables) is executed by `subprocess`; see `can_fork`."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import importlib
import json
import os
import resource
import select
import selectors
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from pkgutil import iter_modules
from typing import IO, Any, NoReturn, Protocol

import haft.cli.commands
import haft.mcp
from tests.patience import PATIENCE_S

_MAX_FDS = 64
_CONNECT = b"connect"
"""The message that brings the server's end of another connection."""
_STANDIN = "tests.faults.standin"
_libc = ctypes.CDLL(None, use_errno=True)
_NEWNS, _NEWCGROUP, _NEWPID = 0x00020000, 0x02000000, 0x20000000
_ROOM_OF_ARGS, _ROOM_OF_ENV = "x" * 32_000, "x" * 8_000
"""What the server's arguments and environment are filled up with, so that a child's fit.
Each daemon that starts reads all environments."""


class Process(Protocol):
    """The interface that `subprocess.Popen` and `ForkedProcess` share."""

    pid: int
    returncode: int | None

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


class ForkedProcess:
    """A child of the fork server."""

    def __init__(self, pid: int, status: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdin: IO[bytes] | None = None
        self.stdout: IO[bytes] | None = None
        self._status = status

    def fileno(self) -> int:
        """Return a descriptor that can be read once the process has ended."""
        return self._status

    def poll(self) -> int | None:
        """Return the exit status as `subprocess` does, or None while the process runs."""
        return self.wait(0) if self._has_ended(0) else None

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the process has ended; raises `subprocess.TimeoutExpired`."""
        if not self._has_ended(timeout):
            raise subprocess.TimeoutExpired("haftd", timeout or 0)
        if self.returncode is None:
            text = os.read(self._status, 64)
            os.close(self._status)
            assert text, "the fork server ended before its child"
            self.returncode = int(text)
        return self.returncode

    def send_signal(self, sig: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, sig)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _has_ended(self, timeout: float | None) -> bool:
        if self.returncode is not None:
            return True
        poll = select.poll()
        poll.register(self._status, select.POLLIN | select.POLLHUP)
        return bool(poll.poll(None if timeout is None else timeout * 1000))


def can_fork(env: Mapping[str, str]) -> bool:
    """Return true if `env` needs neither a new interpreter nor a new loader."""
    special = ("PYTHON", "LD_", "LC_", "LANG", "MALLOC_", "GLIBC_")

    def chosen(variables: Mapping[str, str]) -> dict[str, str]:
        return {
            name: value
            for name, value in variables.items()
            if name.startswith(special) and name != "PYTHONDONTWRITEBYTECODE"
        }

    def size(variables: Mapping[str, str]) -> int:
        return sum(len(os.fsencode(f"{name}={value}")) + 1 for name, value in variables.items())

    return chosen(env) == chosen(os.environ) and size(env) - size(os.environ) < len(_ROOM_OF_ENV)


def fork_haftd(
    args: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str,
    output: int,
    cgroup: Path | None = None,
    pids: Sequence[str] = (),
    sockets: Sequence[int] = (),
    descriptors: int | None = None,
) -> ForkedProcess:
    """Start `haftd` with these arguments in a session and, if given, a `cgroup` of its own, stdin
    at /dev/null, stdout and stderr at `output`, `sockets` from 3 on, its own pid as `pids`, and a
    limit of `descriptors`."""
    procs = None if cgroup is None else str(cgroup / "cgroup.procs")
    request = _Request("haftd", list(args), dict(env), cwd, procs, list(pids), descriptors)
    with open(os.devnull) as null:
        return _server().fork(request, [null.fileno(), output, output, *sockets])


def fork_standin(
    words: Sequence[str], *, env: Mapping[str, str], errors: int, cgroup: Path | None = None
) -> ForkedProcess:
    """Start the stand-in for the daemon (tests/faults/standin.py) with its stdout at a pipe and
    stderr at `errors`, in a session and, if given, a `cgroup` of its own."""
    procs = None if cgroup is None else str(cgroup / "cgroup.procs")
    request = _Request(_STANDIN, list(words), dict(env), "/", procs, [])
    stdout, their_stdout = os.pipe()
    try:
        with open(os.devnull) as null:
            process = _server().fork(request, [null.fileno(), their_stdout, errors])
    finally:
        os.close(their_stdout)
    process.stdout = os.fdopen(stdout, "rb")
    return process


def run_haft(
    words: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | None = None,
    given: str = "",
    namespaces: int | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run `haft` as `run_haft_on_bytes` does, with text in its streams."""
    done = run_haft_on_bytes(words, env=env, cwd=cwd, given=given.encode(), namespaces=namespaces)
    output, errors = (
        data.decode().replace("\r\n", "\n").replace("\r", "\n")
        for data in (done.stdout, done.stderr)
    )
    return subprocess.CompletedProcess(words, done.returncode, output, errors)


def run_haft_on_bytes(
    words: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | None = None,
    given: bytes = b"",
    namespaces: int | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run `haft` to its end, with `given` in a pipe as stdin; forked, where `env` allows; in the
    mount, pid and cgroup `namespaces` of this process, which needs a forked one."""
    where = str(cwd or Path.cwd())
    if not can_fork(env):
        assert namespaces is None
        executed = [sys.executable, "-m", "haft", *words]
        return subprocess.run(executed, env=env, cwd=where, input=given, capture_output=True)
    pipes = [os.pipe() for _ in range(3)]
    theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
    request = _Request("haft", list(words), dict(env), where, None, [], namespaces=namespaces)
    try:
        process = _server().fork(request, theirs)
    finally:
        for fd in theirs:
            os.close(fd)

    def write() -> None:
        with contextlib.suppress(BrokenPipeError), open(pipes[0][1], "wb") as stdin:
            stdin.write(given)

    with (
        ThreadPoolExecutor(2) as pool,
        open(pipes[1][0], "rb") as stdout,
        open(pipes[2][0], "rb") as stderr,
    ):
        pool.submit(write)
        errors = pool.submit(stderr.read)
        late = threading.Timer(PATIENCE_S, process.kill)
        late.start()
        output = stdout.read()
        status = process.wait()
        late.cancel()
        return subprocess.CompletedProcess(words, status, output, errors.result())


def fork_haft(words: Sequence[str], *, env: Mapping[str, str], cwd: str) -> ForkedProcess:
    """Start `haft` with its stdin and stdout at pipes."""
    their_stdin, stdin = os.pipe()
    stdout, their_stdout = os.pipe()
    request = _Request("haft", list(words), dict(env), cwd, None, [])
    try:
        process = _server().fork(request, [their_stdin, their_stdout, 2])
    finally:
        os.close(their_stdin)
        os.close(their_stdout)
    process.stdin, process.stdout = os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb")
    return process


def fork_haft_on_terminal(
    words: Sequence[str], terminal: int, *, env: Mapping[str, str], cwd: Path | None = None
) -> ForkedProcess:
    """Start `haft` with this as its controlling terminal and all of its standard streams."""
    request = _Request("haft", list(words), dict(env), str(cwd or Path.cwd()), None, [])
    return _server().fork(request, [terminal] * 3)


@dataclass(frozen=True)
class _Request:
    program: str
    args: list[str]
    env: dict[str, str]
    cwd: str
    procs: str | None
    pids: list[str]
    """Variables that shall hold the child's own pid."""
    descriptors: int | None = None
    namespaces: int | None = None


class _Server:
    def __init__(self, parents: _Server | None) -> None:
        """Start a server, or connect to that of this process's parent."""
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if parents is not None:
            with theirs:
                socket.send_fds(parents._socket, [_CONNECT], [theirs.fileno()])
            return
        # Through a shell that goes: tests look at the children of their process, and the server is
        # none of them.
        words = [sys.executable, "-m", "tests.forkserver", str(theirs.fileno()), _ROOM_OF_ARGS]
        with theirs:
            subprocess.run(
                ["sh", "-c", '"$@" &', "sh", *words],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "ROOM": _ROOM_OF_ENV},
                cwd=Path(__file__).parents[1],
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                check=True,
            )

    def is_mine(self) -> bool:
        return self._owner == os.getpid()

    def fork(self, request: _Request, fds: Sequence[int]) -> ForkedProcess:
        """Fork a child that has `fds` as its descriptors from 0 on."""
        ours, theirs = os.pipe()
        try:
            with self._lock:
                message = json.dumps(asdict(request)).encode()
                socket.send_fds(self._socket, [message], [theirs, *fds])
                pid = self._socket.recv(64)
        finally:
            os.close(theirs)
        assert pid, "the fork server has ended"
        return ForkedProcess(int(pid), ours)


_servers: list[_Server] = []


_is_shared = False


def share_server() -> None:
    """Start a server for this process and all that it forks from now on."""
    global _is_shared
    _server()
    _is_shared = True


def _server() -> _Server:
    if not _servers or not _servers[-1].is_mine():
        _servers.append(_Server(_servers[-1] if _is_shared else None))
    return _servers[-1]


class _ExecutedAgain(BaseException):  # not an error
    """The daemon executes itself, with this environment."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.env = dict(env)


_METHODS_OF_PATTERNS = ("findall", "finditer", "fullmatch", "match", "search", "split", "sub")

_LATE = (
    "encodings.ascii",
    "psutil",
    "pyghostty.core",
    "haftd.rpc.transports.websocket",
    "haftd.runtimes.mcp.exchange",
    "haftd.runtimes.mcp.http",
    "haftd.runtimes.mcp.server",
    "haft.__main__",
    *(f"haft.cli.commands.{one.name}" for one in iter_modules(haft.cli.commands.__path__)),
    *(f"haft.mcp.{one.name}" for one in iter_modules(haft.mcp.__path__)),
)


def _serve(connection: socket.socket) -> None:
    """Fork on request until all connections are closed; report each child's end to its pipe."""
    from haftd.import_stubs import stub_unused_imports

    stub_unused_imports()
    import haftd.__main__
    import haftd.app  # noqa: F401
    import tests.faults.standin  # noqa: F401
    from haftd.config.command_line import parse
    from haftd.config.settings import DaemonSettings
    from haftd.lazy_pattern import LazyPattern
    from haftd.tools.calls.environment import compile_secret_pattern
    from haftd.tools.catalogue import USER_SHELL, Catalogue
    from haftd.tools.definitions.definition import BUILTIN

    # Imported by a daemon when first needed; a terminal's library takes as long as half a start.
    for name in _LATE:
        importlib.import_module(name)
    # Parses the definitions of the daemon itself, which are kept.
    Catalogue(builtin=(*BUILTIN, USER_SHELL))
    # As these compile the regular expressions of argparse and of the settings.
    parse([])
    compile_secret_pattern(DaemonSettings().secret_env)
    warm_up_terminals()
    for pattern in gc.get_objects():
        if type(pattern) is LazyPattern:
            for method in _METHODS_OF_PATTERNS:
                getattr(pattern, method)

    gc.collect()
    gc.freeze()
    wake, woken = socket.socketpair()
    for one in (wake, woken):
        one.setblocking(False)
    signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    ends: dict[int, int] = {}
    connections = {connection}
    selector = selectors.DefaultSelector()
    selector.register(connection, selectors.EVENT_READ)
    selector.register(wake, selectors.EVENT_READ)
    while connections:
        ready = {key.fileobj for key, _ in selector.select()}
        if wake in ready:
            wake.recv(4096)
            _report_ends(ends)
        for one in connections & ready:
            message, fds, _, _ = socket.recv_fds(one, 1 << 20, _MAX_FDS)
            if not message:
                selector.unregister(one)
                connections.remove(one)
                one.close()
            elif message == _CONNECT:
                another = socket.socket(fileno=fds[0])
                connections.add(another)
                selector.register(another, selectors.EVENT_READ)
            else:
                status, *fds = fds
                pid = os.fork()
                if pid == 0:
                    _become(_Request(**json.loads(message)), fds)
                ends[pid] = status
                for fd in fds:
                    os.close(fd)
                with contextlib.suppress(BrokenPipeError):
                    one.send(b"%d" % pid)


def warm_up_terminals() -> None:
    """Parse the C types of the terminal library, a quarter of a second in each daemon and each test
    worker, and leave it as a new process has it: unloaded."""
    from haftd.runtimes.terminal import library

    library.load()
    library._core, library._has_begun, library._is_warm = None, False, False


def _report_ends(ends: dict[int, int]) -> None:
    while ends:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        pipe = ends.pop(pid)
        with contextlib.suppress(BrokenPipeError):
            os.write(pipe, b"%d" % os.waitstatus_to_exitcode(status))
        os.close(pipe)


def _become(request: _Request, fds: Sequence[int]) -> NoReturn:
    """Run the requested program to its exit status."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.setsid()
        # None of them may stand where another is to go.
        for place, fd in enumerate([fcntl.fcntl(fd, fcntl.F_DUPFD, _MAX_FDS) for fd in fds]):
            os.dup2(fd, place)
        os.closerange(len(fds), 1 << 20)
        if request.namespaces is not None:
            _join_namespaces(request.namespaces)
        if os.isatty(0):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        os.chdir(request.cwd)
        if request.procs is not None:
            Path(request.procs).write_text(str(os.getpid()))
        if request.descriptors is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (request.descriptors, request.descriptors))
        env = {**request.env, **dict.fromkeys(request.pids, str(os.getpid()))}
        words = [sys.executable, "-m", request.program, *request.args]
        module = sys.modules.get(f"{request.program}.__main__", sys.modules[request.program])
        sys.argv[:] = [str(module.__file__), *request.args]
        sys.orig_argv[:] = words
        _show(_ARG_START, words)
        status = _PROGRAMS[request.program](env)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _join_namespaces(pid: int) -> None:
    """Go on as a child in the namespaces of `pid`, as nsenter(1) does; this process has the child's
    exit status."""
    pidfd = os.pidfd_open(pid)
    if _libc.setns(pidfd, _NEWNS | _NEWPID | _NEWCGROUP):
        raise OSError(ctypes.get_errno(), "setns")
    os.close(pidfd)
    if child := os.fork():
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os._exit(status if status >= 0 else 128 - status)


def _run_haft(env: Mapping[str, str]) -> int:
    from haft.__main__ import main

    _set_environment(env)
    try:
        return main()
    except SystemExit as end:
        return _status(end)


def _run_haftd(env: Mapping[str, str]) -> int:
    from haftd.__main__ import main

    return _run_twice(main, env)


def _run_standin(env: Mapping[str, str]) -> int:
    from tests.faults.standin import main

    return _run_twice(main, env)


_PROGRAMS = {"haft": _run_haft, "haftd": _run_haftd, _STANDIN: _run_standin}


def _run_twice(main: Callable[[], object], env: Mapping[str, str]) -> int:
    """Run `main` twice, since a daemon executes itself once, with its tag in the environment."""

    def execute_again(_path: str, _words: Sequence[str], env: Mapping[str, str]) -> NoReturn:
        raise _ExecutedAgain(env)

    os.posix_spawn = _fork_guardian(os.posix_spawn)
    execve = os.execve
    os.execve = execute_again  # type: ignore[assignment]
    _set_environment(env)
    try:
        main()
    except _ExecutedAgain as again:
        os.execve = execve
        _set_environment(again.env)
        try:
            main()
        except SystemExit as end:
            return _status(end)
    except SystemExit as end:
        return _status(end)
    raise AssertionError("main exits")


def _fork_guardian(spawn: Callable[..., int]) -> Callable[..., int]:
    """Return a `posix_spawn` that forks the daemon's guardian, whose modules are loaded here, and executes all others."""

    def spawn_or_fork(
        path: str, argv: Sequence[str], env: Mapping[str, str], **options: Any
    ) -> int:
        from haftd.host.recovery import guardian

        if guardian._START not in argv:
            return spawn(path, argv, env, **options)
        ready, is_ready = os.pipe()
        pid = os.fork()
        if pid == 0:
            _become_guardian(argv, options["file_actions"], is_ready)
        os.close(is_ready)
        os.read(ready, 1)
        os.close(ready)
        return pid

    return spawn_or_fork


def _become_guardian(
    argv: Sequence[str], file_actions: Sequence[tuple[int, int, int]], is_ready: int
) -> NoReturn:
    from haftd.host.recovery import guardian

    status = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.setsid()
        for _, source, target in file_actions:
            os.dup2(source, target)
        # As an execution does: a listening socket of a daemon that is killed now would live on here.
        os.closerange(3, is_ready)
        os.closerange(is_ready + 1, os.sysconf("SC_OPEN_MAX"))
        _set_environment({})
        _show(_ARG_START, argv)
        os.write(is_ready, b".")
        words = list(argv)
        guardian.main(words[words.index(guardian._START) + 2 :])
        status = 0
    finally:
        os._exit(status)


def _status(end: SystemExit) -> int:
    if isinstance(end.code, str):
        print(end.code, file=sys.stderr)
        return 1
    return end.code or 0


def _set_environment(env: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    _show(_ENV_START, [f"{name}={value}" for name, value in env.items()])


_ARG_START, _ENV_START = 48 - 1, 50 - 1
"""Fields of /proc/PID/stat with the first address; the next one has the address behind the last."""


def _show(field: int, words: Sequence[str]) -> None:
    """Write these words to where /proc/self/cmdline or environ is read from (proc_pid_stat(5))."""
    text = Path("/proc/self/stat").read_text()
    # The fields behind the name, which may contain blanks.
    fields = [*text[: text.index("(")].split(), "", *text[text.rindex(")") + 1 :].split()]
    start, end = int(fields[field]), int(fields[field + 1])
    content = b"".join(os.fsencode(word) + b"\0" for word in words)
    assert len(content) < end - start, "arguments or environment larger than the fork server's"
    ctypes.memmove(start, content.ljust(end - start, b"\0"), end - start)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        _serve(connection)
