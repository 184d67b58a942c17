"""The gate: the process that a child runs until it may execute its program.
- The gate begins a session, with the terminal of descriptor 0, if any. In one of its own from the fork
  on it would execute the gate only after those of all handles, and the daemon waits for that.
- `posix_spawn` resets all signals but libc's own, 32 and 33, with musl 34, which it ignores. The gate
  resets those while the daemon records the child.
- The gate blocks reading descriptor 3, and executes the program after one byte. End of file: the
  daemon is gone, the gate exits.
- Arguments are `[…, folder, path, argv0, argv1, …]`, the environment is the program's. The gate
  closes 3 and everything from 5 on, enters `folder`, executes `path`.
- End of file on descriptor 4: the program runs. A failure is one int, the negative errno of the
  execution or the positive one of entering the folder; then the gate exits with 127.
- For a sandbox, the gate first gives up privileges, applies the ruleset of descriptor 5 and the
  filter. A failure is `CONFINEMENT_FAILED` and the errno; nothing runs.
- Where the filter asks a supervisor, the gate reports `SUPERVISION_BEGUN` and awaits one byte at
  descriptor 6, while the daemon takes the descriptor of the questions, closed by the execution.
- The machine gate is a static program in a sealed memfd, one a filter. Where refused, or on another
  machine (for a sandbox: any but x86_64), this interpreter does the same, some 12 ms slower.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import struct
import sys
from collections.abc import Mapping
from functools import cache
from typing import Final, Literal

from haftd.host.launch.syscall_filter import Confinement
from haftd.host.process.machine import architecture
from haftd.named_tuple import NamedTuple

GATE_FD = 3
REPORT_FD = 4
RULESET_FD = 5
"""Landlock ruleset of a sandboxed child, closed by the gate."""
SUPERVISED_FD = 6
MAX_CHILD_FD = SUPERVISED_FD
CONFINEMENT_FAILED = 1 << 16
SUPERVISION_BEGUN = 1 << 17

# One instruction a line. Number in eax, arguments in rdi, rsi, rdx, r10; result, or negative errno,
# in rax.
_X86_64 = """
    4889e3        ;   mov rbx,rsp               argc; argv[i] is at rbx+8+8i
                  ; -- 32 zero bytes: a struct sigaction that says SIG_DFL
    31ed          ;   xor ebp,ebp
    55            ;   push rbp
    55            ;   push rbp
    55            ;   push rbp
    55            ;   push rbp
                  ; -- setsid(), ioctl(0, TIOCSCTTY, 0): refused where 0 is no terminal
    b870000000    ;   mov eax,0x70
    0f05          ;   syscall
    31ff          ;   xor edi,edi
    be0e540000    ;   mov esi,0x540e
    31d2          ;   xor edx,edx
    b810000000    ;   mov eax,0x10
    0f05          ;   syscall
                  ; -- rt_sigaction(34…32, SIG_DFL, NULL, 8): libc's own
    bd22000000    ;   mov ebp,0x22
                  ; sig:
    89ef          ;   mov edi,ebp
    4889e6        ;   mov rsi,rsp
    31d2          ;   xor edx,edx
    41ba08000000  ;   mov r10d,0x8
    b80d000000    ;   mov eax,0xd
    0f05          ;   syscall
    ffcd          ;   dec ebp
    83fd1f        ;   cmp ebp,0x1f
    75e5          ;   jne sig
                  ; -- read(3, below the stack, 1): waits at the gate
    488d7424f8    ;   lea rsi,[rsp-0x8]
    bf03000000    ;   mov edi,0x3
    ba01000000    ;   mov edx,0x1
    31c0          ;   xor eax,eax
    0f05          ;   syscall
    ffc8          ;   dec eax
    0f8570000000  ;   jne quit                  not one byte: the gate was closed
                  ; -- close(3)
    bf03000000    ;   mov edi,0x3
    b803000000    ;   mov eax,0x3
    0f05          ;   syscall
                  ; -- fcntl(4, F_SETFD, FD_CLOEXEC)
    bf04000000    ;   mov edi,0x4
    be02000000    ;   mov esi,0x2
    ba01000000    ;   mov edx,0x1
    b848000000    ;   mov eax,0x48
    0f05          ;   syscall
                  ; -- close_range(5, ~0, 0): nothing of the daemon's goes in
    bf05000000    ;   mov edi,0x5
    beffffffff    ;   mov esi,0xffffffff
    31d2          ;   xor edx,edx
    b8b4010000    ;   mov eax,0x1b4
    0f05          ;   syscall
                  ; -- chdir(argv[1])
    488b7b10      ;   mov rdi,[rbx+0x10]
    b850000000    ;   mov eax,0x50
    0f05          ;   syscall
    f7d8          ;   neg eax                   an errno above 0: the folder
    7517          ;   jne report
                  ; -- execve(argv[2], argv + 3, envp)
    488b7b18      ;   mov rdi,[rbx+0x18]
    488d7320      ;   lea rsi,[rbx+0x20]
    488b03        ;   mov rax,[rbx]
    488d54c310    ;   lea rdx,[rbx+rax*8+0x10]
    b83b000000    ;   mov eax,0x3b
    0f05          ;   syscall
                  ; report:
                  ; -- write(4, errno, 4): below 0, the program; above, the folder
    50            ;   push rax
    4889e6        ;   mov rsi,rsp
    bf04000000    ;   mov edi,0x4
    ba04000000    ;   mov edx,0x4
    b801000000    ;   mov eax,0x1
    0f05          ;   syscall
                  ; quit:
                  ; -- exit_group(127)
    bf7f000000    ;   mov edi,0x7f
    b8e7000000    ;   mov eax,0xe7
    0f05          ;   syscall
"""

# Goes in before `close_range`; `ebp` points to the system calls, 32 bytes each: number and three
# arguments, a number 0 at the end.
_CONFINE_AT = "                  ; -- close_range"
_CONFINE_X86_64 = """
    bd{table}    ;   mov ebp,table
                  ; next:
    8b4500        ;   mov eax,[rbp]
    85c0          ;   test eax,eax
    7422          ;   jz done
    488b7d08      ;   mov rdi,[rbp+0x8]
    488b7510      ;   mov rsi,[rbp+0x10]
    488b5518      ;   mov rdx,[rbp+0x18]
    4531d2        ;   xor r10d,r10d
    4531c0        ;   xor r8d,r8d
    0f05          ;   syscall
    83c520        ;   add ebp,0x20
    f7d8          ;   neg eax
    7ede          ;   jle next
    0d00000100    ;   or eax,0x10000            above every errno: the confinement
    eb{report}          ;   jmp report
                  ; done:
"""
_QUIT_X86_64 = "0f8570000000"
# After the system calls, where the filter asks a supervisor.
_AWAIT_SUPERVISOR_X86_64 = """
                  ; -- read(6, below the stack, 1)
    488d7424f8    ;   lea rsi,[rsp-0x8]
    bf06000000    ;   mov edi,0x6
    ba01000000    ;   mov edx,0x1
    31c0          ;   xor eax,eax
    0f05          ;   syscall
    ffc8          ;   dec eax
    0f85{quit}    ;   jne quit
"""
_NEW_LISTENER, _WAIT_KILLABLE = 1 << 3, 1 << 5

# Number in x8, arguments from x0, result in x0; words are little-endian.
_AARCH64 = """
    f3030091      ;   mov x19, sp               argc; argv[i] is at x19+8+8i
                  ; -- 32 zero bytes: a struct sigaction that says SIG_DFL
    ffc300d1      ;   sub sp, sp, #0x30
    ff7f00a9      ;   stp xzr, xzr, [sp]
    ff7f01a9      ;   stp xzr, xzr, [sp, #16]
                  ; -- setsid(), ioctl(0, TIOCSCTTY, 0): refused where 0 is no terminal
    a8138052      ;   mov w8, #0x9d
    010000d4      ;   svc #0x0
    e0031f2a      ;   mov w0, wzr
    c1818a52      ;   mov w1, #0x540e
    e2031f2a      ;   mov w2, wzr
    a8038052      ;   mov w8, #0x1d
    010000d4      ;   svc #0x0
                  ; -- rt_sigaction(34…32, SIG_DFL, NULL, 8): libc's own
    54048052      ;   mov w20, #0x22
                  ; sig:
    e003142a      ;   mov w0, w20
    e1030091      ;   mov x1, sp
    e2031faa      ;   mov x2, xzr
    03018052      ;   mov w3, #0x8
    c8108052      ;   mov w8, #0x86
    010000d4      ;   svc #0x0
    94060051      ;   sub w20, w20, #0x1
    9f7e0071      ;   cmp w20, #0x1f
    01ffff54      ;   b.ne sig
                  ; -- read(3, sp + 32, 1): waits at the gate
    60008052      ;   mov w0, #0x3
    e1830091      ;   add x1, sp, #0x20
    22008052      ;   mov w2, #0x1
    e8078052      ;   mov w8, #0x3f
    010000d4      ;   svc #0x0
    1f040071      ;   cmp w0, #0x1
    01040054      ;   b.ne quit                 not one byte: the gate was closed
                  ; -- close(3)
    60008052      ;   mov w0, #0x3
    28078052      ;   mov w8, #0x39
    010000d4      ;   svc #0x0
                  ; -- fcntl(4, F_SETFD, FD_CLOEXEC)
    80008052      ;   mov w0, #0x4
    41008052      ;   mov w1, #0x2
    22008052      ;   mov w2, #0x1
    28038052      ;   mov w8, #0x19
    010000d4      ;   svc #0x0
                  ; -- close_range(5, ~0, 0): nothing of the daemon's goes in
    a0008052      ;   mov w0, #0x5
    01008012      ;   mov w1, #0xffffffff
    e2031f2a      ;   mov w2, wzr
    88368052      ;   mov w8, #0x1b4
    010000d4      ;   svc #0x0
                  ; -- chdir(argv[1])
    600a40f9      ;   ldr x0, [x19, #16]
    28068052      ;   mov w8, #0x31
    010000d4      ;   svc #0x0
    e003006b      ;   negs w0, w0               an errno above 0: the folder
    01010054      ;   b.ne report
                  ; -- execve(argv[2], argv + 3, envp)
    600e40f9      ;   ldr x0, [x19, #24]
    61820091      ;   add x1, x19, #0x20
    620240f9      ;   ldr x2, [x19]
    620e028b      ;   add x2, x19, x2, lsl #3
    42400091      ;   add x2, x2, #0x10
    a81b8052      ;   mov w8, #0xdd
    010000d4      ;   svc #0x0
                  ; report:
                  ; -- write(4, errno, 4): below 0, the program; above, the folder
    e02300b9      ;   str w0, [sp, #32]
    80008052      ;   mov w0, #0x4
    e1830091      ;   add x1, sp, #0x20
    82008052      ;   mov w2, #0x4
    08088052      ;   mov w8, #0x40
    010000d4      ;   svc #0x0
                  ; quit:
                  ; -- exit_group(127)
    e00f8052      ;   mov w0, #0x7f
    c80b8052      ;   mov w8, #0x5e
    010000d4      ;   svc #0x0
"""

_MACHINES = {"x86_64": (62, _X86_64), "aarch64": (183, _AARCH64)}
_BASE, _HEADERS = 0x400000, 64 + 2 * 56

# The environment comes from /proc, as the interpreter may change its own; variables that the linker
# would heed in the unconfined interpreter come as a word.
_INTERPRETER = """
import fcntl, os, sys, termios, _signal
os.setsid()
try:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
except OSError:
    pass
if os.read(3, 1):
    os.close(3)
    os.set_inheritable(4, False)
    os.closerange(7 if sys.argv[2] else 5, 1 << 20)
    for number in _signal.valid_signals():
        try:
            _signal.signal(number, _signal.SIG_DFL)
        except OSError:
            pass
    with open("/proc/self/environ", "rb") as file:
        env = dict(pair.split(b"=", 1) for pair in file.read().split(b"\\0") if pair)
    limits, confinement, held, folder, path, *argv = map(os.fsencode, sys.argv[1:])
    held = bytes.fromhex(held.decode())
    env.update(pair.split(b"=", 1) for pair in held.split(b"\\0") if pair)
    sign = -1
    try:
        if limits:
            import resource
            for limit in limits.split(b","):
                which, soft, hard = map(int, limit.split(b":"))
                resource.setrlimit(which, (soft, hard))
        if confinement:
            import ctypes, struct
            libc = ctypes.CDLL(None, use_errno=True)
            capset, seccomp, capabilities, flags, code = confinement.split(b":")
            code = bytes.fromhex(code.decode())
            data = ctypes.create_string_buffer(code)
            program = struct.pack("@HP", len(code) // 8, ctypes.addressof(data))
            header = struct.pack("=Ii", 0x20080522, 0)
            sets = struct.pack("=IIIIII", *[int(capabilities)] * 2, 0, 0, 0, 0)
            for call in (
                lambda: libc.prctl(38, 1, 0, 0, 0),
                lambda: libc.syscall(int(capset), header, sets),
                lambda: libc.syscall(446, 5, 0),
                lambda: libc.syscall(int(seccomp), 1, int(flags), program),
            ):
                if call() < 0:
                    os.write(4, (1 << 16 | ctypes.get_errno()).to_bytes(4, sys.byteorder))
                    os._exit(127)
            if int(flags):
                os.write(4, (1 << 17).to_bytes(4, sys.byteorder))
                if not os.read(6, 1):
                    os._exit(127)
            os.closerange(5, 8)
        sign = 1
        os.chdir(folder)
        sign = -1
        os.execve(path, argv, env)
    except OSError as error:
        os.write(4, (sign * error.errno).to_bytes(4, sys.byteorder, signed=True))
os._exit(127)
"""


_OF_LINKER: Final = ("LD_", "GLIBC_TUNABLES", "MALLOC_", "LOCPATH", "GCONV_PATH")
"""Prefixes of variables that change the interpreter's code."""
_SHORTAGES: Final = frozenset([errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN])


class Gate(NamedTuple):
    """Implementation of the gate."""

    kind: Literal["machine", "interpreter"]
    program: str
    """Executed by the child."""
    prefix: tuple[str, ...]
    confinement: Confinement | None = None

    @property
    def sets_limits(self) -> bool:
        """True if the gate, too large to live within the limits, sets them itself."""
        return self.kind == "interpreter"

    def words(
        self,
        folder: str,
        path: str,
        argv: tuple[str, ...],
        limits: dict[int, tuple[int, int]],
        env: Mapping[str, str],
    ) -> list[str]:
        """Return the gate's argv; `limits` count only where `sets_limits`, `env` is the program's."""
        if not self.sets_limits:
            return [*self.prefix, folder, path, *argv]
        text = ",".join(f"{which}:{soft}:{hard}" for which, (soft, hard) in limits.items())
        held = "\0".join(f"{name}={env[name]}" for name in env if name.startswith(_OF_LINKER))
        return [
            *self.prefix,
            text,
            self._confinement_word(),
            os.fsencode(held).hex(),
            folder,
            path,
            *argv,
        ]

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the gate's environment: the program's, without parts in `words`."""
        if not self.sets_limits:
            return dict(env)
        return {name: env[name] for name in env if not name.startswith(_OF_LINKER)}

    def _confinement_word(self) -> str:
        confinement = self.confinement
        if confinement is None:
            return ""
        capset, seccomp = confinement.numbers
        flags = _filter_flags(confinement)
        return f"{capset}:{seccomp}:{confinement.capabilities}:{flags}:{confinement.filter.hex()}"


def _filter_flags(confinement: Confinement) -> int:
    return _NEW_LISTENER | _WAIT_KILLABLE if confinement.is_supervised else 0


def _assemble(listing: str) -> bytes:
    return b"".join(bytes.fromhex(line.split(";")[0]) for line in listing.splitlines())


def _confined_code(confinement: Confinement) -> bytes:
    head, tail = _X86_64.split(_CONFINE_AT)
    awaiting = _AWAIT_SUPERVISOR_X86_64 if confinement.is_supervised else ""
    added = len(
        _assemble((_CONFINE_X86_64 + awaiting).format(table="00" * 4, quit="00" * 4, report="00"))
    )
    quit_ = int.from_bytes(bytes.fromhex(_QUIT_X86_64[4:]), "little")
    far, near = (
        quit_ + added,
        quit_ - len(_assemble(head.split(_QUIT_X86_64)[1].partition("\n")[2])),
    )
    head = head.replace(_QUIT_X86_64, "0f85" + far.to_bytes(4, "little").hex())
    size = len(_assemble(head)) + added + len(_assemble(_CONFINE_AT + tail))
    table = _BASE + _HEADERS + size
    words = {
        "table": table.to_bytes(4, "little").hex(),
        "quit": near.to_bytes(4, "little").hex(),
        "report": bytes([0x39 + len(_assemble(awaiting.format(quit="00" * 4)))]).hex(),
    }
    confine = (_CONFINE_X86_64 + awaiting).format(**words)
    calls = 6 * 32
    header, sets, program = table + calls, table + calls + 8, table + calls + 32
    begun = program + 16 + len(confinement.filter)
    capset, seccomp = confinement.numbers
    data = b"".join(
        struct.pack("<QQQQ", *call)
        for call in (
            (157, 38, 1, 0),  # prctl(PR_SET_NO_NEW_PRIVS)
            (capset, header, sets, 0),
            (446, RULESET_FD, 0, 0),  # landlock_restrict_self
            (seccomp, 1, _filter_flags(confinement), program),  # SECCOMP_SET_MODE_FILTER
            (1, REPORT_FD, begun, 4) if confinement.is_supervised else (0, 0, 0, 0),
            (0, 0, 0, 0),
        )
    )
    data += struct.pack("<Ii", 0x20080522, 0)
    data += struct.pack("<IIIIII", *(confinement.capabilities,) * 2, 0, 0, 0, 0)
    data += struct.pack("<HxxxxxxQ", len(confinement.filter) // 8, program + 16)
    data += confinement.filter + SUPERVISION_BEGUN.to_bytes(4, "little")
    return _assemble(head + confine + _CONFINE_AT + tail) + data


def _image(machine: int, listing: str, confinement: Confinement | None = None) -> bytes:
    code = _assemble(listing) if confinement is None else _confined_code(confinement)
    base, headers = _BASE, _HEADERS
    size = headers + len(code)
    ident = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)  # 64 bits, little-endian, version 1
    head = ident + struct.pack(
        "<HHIQQQIHHHHHH", 2, machine, 1, base + headers, 64, 0, 0, 64, 56, 2, 0, 0, 0
    )
    # Readable and executable, never writable; 64 KiB is the largest page.
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 0x10000)
    stack = struct.pack("<IIQQQQQQ", 0x6474E551, 6, 0, 0, 0, 0, 0, 16)  # not executable
    return head + load + stack + code


def _seal(image: bytes) -> int:
    """Put `image` into a sealed, close-on-exec memfd above a child's descriptors."""
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        fd = os.memfd_create("haft-gate", flags | 0x10)  # MFD_EXEC, from Linux 6.3 on
    except OSError:
        fd = os.memfd_create("haft-gate", flags)
    try:
        os.write(fd, image)
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, MAX_CHILD_FD + 1)
    finally:
        os.close(fd)


_machine_gates: dict[Confinement | None, Gate | None] = {}


def machine_gate(confinement: Confinement | None = None) -> Gate | None:
    """Return the machine-code gate; None if unusable. Tried once, but for a shortage of resources."""
    if confinement not in _machine_gates:
        try:
            _machine_gates[confinement] = _make_machine_gate(confinement)
        except OSError as error:
            if error.errno in _SHORTAGES:
                return None
            _machine_gates[confinement] = None
    return _machine_gates[confinement]


def _make_machine_gate(confinement: Confinement | None) -> Gate | None:
    """Return the gate; None on another machine. Raises OSError where the kernel refuses."""
    if confinement is not None and architecture() != "x86_64":
        return None
    if sys.byteorder != "little" or sys.maxsize < 1 << 32:
        return None
    code = _MACHINES.get(architecture())
    if code is None:
        return None
    fd = _seal(_image(*code, confinement))
    gate = Gate("machine", f"/proc/self/fd/{fd}", ("haft-gate",), confinement)
    works = False
    try:
        works = _is_executable(gate)
    finally:
        if not works:
            os.close(fd)
    return gate if works else None


def _is_executable(gate: Gate) -> bool:
    null = (os.POSIX_SPAWN_OPEN, GATE_FD, os.devnull, os.O_RDONLY, 0)
    pid = os.posix_spawn(
        gate.program,
        gate.words("/", "/", (), {}, {}),
        {},
        file_actions=[null],
        setsigdef=signal.valid_signals(),
        setsigmask=(),
    )
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 127


@cache
def interpreter_gate(confinement: Confinement | None = None) -> Gate:
    prefix = (sys.executable, "-I", "-S", "-E", "-c", _INTERPRETER)
    return Gate("interpreter", sys.executable, prefix, confinement)


def best_gate(confinement: Confinement | None = None) -> Gate:
    return machine_gate(confinement) or interpreter_gate(confinement)
