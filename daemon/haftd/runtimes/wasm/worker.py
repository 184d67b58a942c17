"""Program of the process that compiles or runs one WebAssembly module.

Starts as a script without `site`, on the standard library and wasmtime: a sandbox need grant no
more. HAFT_WASM has an `Order`; the words are the module's, its file first. Without input of its
own, standard input is the call, one line of JSON. A compiled module is native code: loaded only
from a folder and file that no other user may change.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

VARIABLE = "HAFT_WASM"
TRAPPED = 134
"""Status of a trapped module: a shell's for an abort."""
UNUSABLE = 126
"""Status for a file that is not a module, or cannot run here."""
MISSING = 127
EXPLAINED = (UNUSABLE, MISSING)
"""Statuses whose reason is the last line of standard error."""

NO_FUEL = "the module has used up its fuel"
NO_MEMORY = "the module needs more memory than its limit"
_OUT_OF_FUEL = "all fuel consumed"
_OVER_MEMORY = ("exceeds memory limits", "exceeds table limits")

HEAD = 8
"""Bytes that identify the kind of a module."""
_MAGIC = b"\0asm"
_COMPONENT = b"\x0d\0\x01\0"
_OF_COMPONENTS = "component"
_RUN = "wasi:cli/run"
_MAX_CACHED = 64
_PAGE = 65536
_ELEMENT = 8
"""Bytes of an element of a table."""


class Order(NamedTuple):
    """Work of a worker: run the module, or `compile` it into the cache."""

    engine: str
    """Folder of the package wasmtime."""
    cache: str
    cached: str = ""
    """The compiled module's name in `cache`."""
    compile: bool = False
    folders: Sequence[tuple[str, str, bool]] = ()
    """Path, name for the module, and True if the module may change the folder."""
    env: Sequence[str] = ()
    """Names of variables."""
    has_call: bool = False
    """Standard input is the call."""
    fuel: int | None = None
    memory: int | None = None

    def text(self) -> str:
        return json.dumps(self._asdict())


def is_binary(source: bytes) -> bool:
    return source[:4] == _MAGIC


def kind_of(head: bytes) -> str:
    return _OF_COMPONENTS if head[4:HEAD] == _COMPONENT else "module"


def cached_name(head: bytes, digest: str, version: str, *, has_fuel: bool) -> str:
    """Return the compiled form's name, unique to engine and source.

    `digest` is the SHA-256 of the source, `head` its start.
    """
    fuel = "-fuel" if has_fuel else ""
    return f"{digest}-{version}-{os.uname().machine}{fuel}.{kind_of(head)}"


def open_private(folder: str) -> int:
    """Open a folder that only this user may enter. Raises OSError."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    facts = os.fstat(fd)
    if facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
        os.close(fd)
        raise PermissionError(f"{folder} is accessible to other users")
    return fd


def open_compiled(folder: int, name: str) -> int:
    """Open a compiled module that only this user may write. Raises OSError."""
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
    facts = os.fstat(fd)
    is_private = facts.st_uid == os.geteuid() and not facts.st_mode & 0o077
    if not stat.S_ISREG(facts.st_mode) or not is_private or facts.st_nlink != 1:
        os.close(fd)
        raise PermissionError(f"{name} can be changed by other users")
    return fd


def main(words: Sequence[str]) -> NoReturn:
    # Python's handlers would wait for the module's end.
    for number in (signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    order = Order(**json.loads(os.environ.pop(VARIABLE)))
    if order.compile:
        os.nice(19)  # no call waits for the result
    sys.path.append(order.engine)
    try:
        import wasmtime
    except (ImportError, OSError) as error:
        _fail(f"the package wasmtime cannot be loaded: {error}", UNUSABLE)
    worker = _Worker(order, wasmtime, words)
    try:
        if order.compile:
            worker.compile()
        else:
            worker.run()
    except wasmtime.ExitTrap as ended:
        if ended.code and worker.is_full():
            print(worker.over_memory(), file=sys.stderr, flush=True)
        os._exit(ended.code)
    except (wasmtime.Trap, wasmtime.WasmtimeError) as error:
        worker.report(str(error))
    except UnicodeEncodeError:  # the value may be secret
        _fail("a folder or a variable of the module is not UTF-8, which WASI requires", UNUSABLE)
    os._exit(0)


def _fail(message: str, status: int) -> NoReturn:
    if status in EXPLAINED:
        message = " ".join(message.split())
    print(message, file=sys.stderr, flush=True)
    os._exit(status)


def _clause(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


class _Worker:
    def __init__(self, order: Order, wasmtime: Any, words: Sequence[str]) -> None:
        self._order = order
        self._wasmtime = wasmtime
        self._words = words
        self._is_running = False
        self._memory_size: Callable[[], int] = lambda: 0
        config = wasmtime.Config()
        config.consume_fuel = order.fuel is not None
        # A process limit counts threads.
        config.parallel_compilation = False
        self._engine = wasmtime.Engine(config)

    def compile(self) -> None:
        """Compile into the cache; a failed write is reported and does not fail the call."""
        from hashlib import sha256  # needless for a cached module

        order, source = self._order, self._source()
        version = order.cached.split("-")[1]
        digest = sha256(source).hexdigest()
        name = cached_name(source, digest, version, has_fuel=order.fuel is not None)
        compiled = self._class(name)(self._engine, source).serialize()
        try:
            folder = open_private(order.cache)
            _write(folder, name, compiled)
            _prune(folder)
        except OSError as error:
            _fail(f"the compiled module cannot be written to {order.cache}: {_clause(error)}", 0)

    def run(self) -> None:
        order, wasmtime = self._order, self._wasmtime
        module = self._cached() or self._compiled()
        wasi = wasmtime.WasiConfig()
        wasi.argv = [self._words[0].rpartition("/")[2], *self._words[1:]]
        wasi.env = [(name, os.environ[name]) for name in order.env if name in os.environ]
        if order.has_call:
            _give_call()
        wasi.inherit_stdin()
        wasi.inherit_stdout()
        wasi.inherit_stderr()
        for path, name, is_writable in order.folders:
            if os.path.isdir(path):  # noqa: PTH112
                wasi.preopen_dir(path, name, is_writable)
            elif os.path.exists(path):  # noqa: PTH110
                _fail(f"the rule for {path} names a file; a module can only get folders", UNUSABLE)
        store = wasmtime.Store(self._engine)
        if order.fuel is not None:
            store.set_fuel(order.fuel)
        if order.memory is not None:
            store.set_limits(memory_size=order.memory, table_elements=order.memory // _ELEMENT)
        store.set_wasi(wasi)
        if isinstance(module, wasmtime.Module):
            self._run_module(module, store)
        else:
            self._run_component(module, store)

    def is_full(self) -> bool:
        """True if another page would exceed the memory limit."""
        most = self._order.memory
        return most is not None and self._memory_size() + _PAGE > most

    def over_memory(self) -> str:
        return f"{NO_MEMORY} of {self._order.memory:,} bytes"

    def report(self, message: str) -> NoReturn:
        fuel = self._order.fuel
        if fuel is not None and _OUT_OF_FUEL in message:
            message = f"{NO_FUEL} of {fuel:,}\n{message}"
        elif self._order.memory is not None and (
            self.is_full() or any(words in message for words in _OVER_MEMORY)
        ):
            message = f"{self.over_memory()}\n{message}"
        if self._is_running:
            _fail(message, TRAPPED)
        _fail(f"{self._words[0]} cannot be used: {message}", UNUSABLE)

    def _source(self) -> bytes:
        path = self._words[0]
        try:
            with open(path, "rb") as file:
                source = file.read()
        except OSError as error:
            _fail(f"{path} cannot be read: {_clause(error)}", MISSING)
        # The engine takes text as well, and its errors would quote any file.
        if not is_binary(source):
            _fail(f"{path} is not a WebAssembly module", UNUSABLE)
        return source

    def _class(self, name: str) -> Any:
        if not name.endswith(_OF_COMPONENTS):
            return self._wasmtime.Module
        from wasmtime import component

        return component.Component

    def _cached(self) -> Any:
        order = self._order
        try:
            fd = open_compiled(open_private(order.cache), order.cached)
            path = f"/proc/self/fd/{fd}"
            return self._class(order.cached).deserialize_file(self._engine, path)
        except (OSError, self._wasmtime.WasmtimeError):
            return None

    def _compiled(self) -> Any:
        source = self._source()
        return self._class(kind_of(source))(self._engine, source)

    def _run_module(self, module: Any, store: Any) -> None:
        linker = self._wasmtime.Linker(self._engine)
        linker.define_wasi()
        exports = linker.instantiate(store, module).exports(store)
        if "_start" not in exports:
            raise self._wasmtime.WasmtimeError("it has no `_start`, so it is not a WASI command")
        memory = exports.get("memory")
        if isinstance(memory, self._wasmtime.Memory):
            self._memory_size = lambda: int(memory.data_len(store))
        self._is_running = True
        exports["_start"](store)

    def _run_component(self, component: Any, store: Any) -> None:
        from wasmtime import component as components

        linker = components.Linker(self._engine)
        linker.add_wasip2()
        instance = linker.instantiate(store, component)
        names = [name for name in component.type.exports(self._engine) if name.startswith(_RUN)]
        run = instance.get_export_index(store, names[0]) if names else None
        index = None if run is None else instance.get_export_index(store, "run", run)
        function = None if index is None else instance.get_func(store, index)
        if function is None:
            raise self._wasmtime.WasmtimeError(f"it has no `{_RUN}`, so it is not a WASI command")
        self._is_running = True
        if function(store).tag != "ok":
            os._exit(1)


def _give_call() -> None:
    call = os.environ.get("HAFT_CALL", "")
    if call.startswith("/"):
        with open(call, encoding="utf-8") as file:
            call = file.read()
    fd = os.memfd_create("call")
    with open(fd, "wb", closefd=False) as memory:
        memory.write(call.encode() + b"\n")
    os.lseek(fd, 0, os.SEEK_SET)
    os.dup2(fd, 0)
    os.close(fd)


def _write(folder: int, name: str, data: bytes) -> None:
    partial = f".{os.getpid()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    fd = os.open(partial, flags, 0o600, dir_fd=folder)
    try:
        with open(fd, "wb") as file:
            file.write(data)
        os.rename(partial, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(partial, dir_fd=folder)
        raise


def _prune(folder: int) -> None:
    cached = []
    for name in os.listdir(folder):
        try:
            cached.append((os.stat(name, dir_fd=folder).st_mtime_ns, name))
        except FileNotFoundError:
            continue
    for _, name in sorted(cached)[:-_MAX_CACHED]:
        try:
            os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            continue


if __name__ == "__main__":
    main(sys.argv[1:])
