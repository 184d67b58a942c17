"""The gate: the process that a child runs until it may execute its program.
- The gate begins a session. In one of its own from the fork on it would execute the gate only after
  those of all handles, and the daemon waits for that.
- `posix_spawn` resets all signals but libc's own, 32 and 33, with musl 34, which it ignores. The gate
  resets those.
- The gate blocks reading a byte from the socket at descriptor 3. End of file: the daemon is gone, the
  gate exits.
- The machine gate closes all other descriptors first, so those that come with the byte get the numbers
  0, 1, 2, 4, 5 …: the program's three, the pipe of the report, a memory file (`gate_memory`) with
  folder, path, arguments and environment, and those of a sandbox. It takes the terminal of 0, if any,
  closes 3 and all from 5 on, enters the folder, executes the path.
- End of file on descriptor 4: the program runs. A failure is one int, the negative errno of the
  execution or the positive one of entering the folder; then the gate exits with 127.
- For a sandbox, the gate first gives up privileges, applies the ruleset of descriptor 6 and the
  filter. A failure is `CONFINEMENT_FAILED` and the errno; nothing runs.
- Where the filter asks a supervisor, the gate reports `SUPERVISION_BEGUN` and awaits one byte at
  descriptor 7, while the daemon takes the descriptor of the questions, closed by the execution.
- The machine gate is a static program in a sealed memfd, one a filter. Where refused, or on another
  machine (for a sandbox: any but x86_64), this interpreter does the same, some 12 ms slower: with the
  descriptors from the fork on, the arguments `[…, folder, path, argv0, argv1, …]` and the program's
  environment.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import socket
import struct
import sys
from array import array
from collections.abc import Mapping
from functools import cache
from itertools import accumulate
from typing import Final, Literal

from haftd.host.launch.syscall_filter import Confinement
from haftd.host.process.machine import architecture
from haftd.named_tuple import NamedTuple

GATE_FD = 3
REPORT_FD = 4
WORDS_FD = 5
"""Memory file with the words of a machine gate."""
RULESET_FD = 6
"""Landlock ruleset of a sandboxed child, closed by the gate."""
SUPERVISED_FD = 7
MAX_CHILD_FD = SUPERVISED_FD
CONFINEMENT_FAILED = 1 << 16
SUPERVISION_BEGUN = 1 << 17

# One instruction a line. Number in eax, arguments in rdi, rsi, rdx, r10; result, or negative errno,
# in rax.
_X86_64 = """
                  ; -- 32 zero bytes: a struct sigaction that says SIG_DFL
    31ed          ;   xor ebp,ebp
    55            ;   push rbp
    55            ;   push rbp
    55            ;   push rbp
    55            ;   push rbp
                  ; -- setsid()
    b870000000    ;   mov eax,0x70
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
                  ; -- close_range(0, 2, 0), close_range(4, ~0, 0): what comes gets 0, 1, 2, 4, 5 …
    31ff          ;   xor edi,edi
    be02000000    ;   mov esi,0x2
    31d2          ;   xor edx,edx
    b8b4010000    ;   mov eax,0x1b4
    0f05          ;   syscall
    bf04000000    ;   mov edi,0x4
    beffffffff    ;   mov esi,0xffffffff
    b8b4010000    ;   mov eax,0x1b4
    0f05          ;   syscall
                  ; -- recvmsg(3, a byte and descriptors, 0): waits at the gate
    4881ec80000000  ;   sub rsp,0x80
    4889e0        ;   mov rax,rsp
    6a01          ;   push 0x1
    50            ;   push rax
    4889e1        ;   mov rcx,rsp
    6a00          ;   push 0x0
    6880000000    ;   push 0x80
    50            ;   push rax
    6a01          ;   push 0x1
    51            ;   push rcx
    6a00          ;   push 0x0
    6a00          ;   push 0x0
    bf03000000    ;   mov edi,0x3
    4889e6        ;   mov rsi,rsp
    b82f000000    ;   mov eax,0x2f
    0f05          ;   syscall
    ffc8          ;   dec eax
    0f85a8000000  ;   jne quit
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
                  ; -- ioctl(0, TIOCSCTTY, 0): refused where 0 is no terminal
    31ff          ;   xor edi,edi
    be0e540000    ;   mov esi,0x540e
    31d2          ;   xor edx,edx
    b810000000    ;   mov eax,0x10
    0f05          ;   syscall
                  ; -- mmap(_WORDS, _MAX_WORDS, PROT_READ, MAP_SHARED | MAP_FIXED, 5, 0)
    bf00000010    ;   mov edi,0x10000000
    be00008000    ;   mov esi,0x800000
    ba01000000    ;   mov edx,0x1
    41ba11000000  ;   mov r10d,0x11
    41b805000000  ;   mov r8d,0x5
    4531c9        ;   xor r9d,r9d
    b809000000    ;   mov eax,0x9
    0f05          ;   syscall
    4889c3        ;   mov rbx,rax
    4885c0        ;   test rax,rax
    7834          ;   js report
                  ; -- close_range(5, ~0, 0): nothing of the daemon's goes in
    bf05000000    ;   mov edi,0x5
    beffffffff    ;   mov esi,0xffffffff
    31d2          ;   xor edx,edx
    b8b4010000    ;   mov eax,0x1b4
    0f05          ;   syscall
                  ; -- chdir(words[0])
    488b3b        ;   mov rdi,[rbx]
    b850000000    ;   mov eax,0x50
    0f05          ;   syscall
    f7d8          ;   neg eax                   an errno above 0: the folder
    7513          ;   jne report
                  ; -- execve(words[1], words[2], words[3])
    488b7b08      ;   mov rdi,[rbx+0x8]
    488b7310      ;   mov rsi,[rbx+0x10]
    488b5318      ;   mov rdx,[rbx+0x18]
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

# Goes in before `mmap`; `ebp` points to the system calls, 32 bytes each: number and three
# arguments, a number 0 at the end.
_CONFINE_AT = "                  ; -- mmap"
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
_QUIT_X86_64 = "0f85a8000000"
# After the system calls, where the filter asks a supervisor.
_AWAIT_SUPERVISOR_X86_64 = """
                  ; -- read(7, below the stack, 1)
    488d7424f8    ;   lea rsi,[rsp-0x8]
    bf07000000    ;   mov edi,0x7
    ba01000000    ;   mov edx,0x1
    31c0          ;   xor eax,eax
    0f05          ;   syscall
    ffc8          ;   dec eax
    0f85{quit}    ;   jne quit
"""
_MFD_NOEXEC_SEAL, _MFD_EXEC = 0x8, 0x10
"""From Linux 6.3 on."""
_NEW_LISTENER, _WAIT_KILLABLE = 1 << 3, 1 << 5

# Number in x8, arguments from x0, result in x0; words are little-endian.
_AARCH64 = """
                  ; -- 32 zero bytes: a struct sigaction that says SIG_DFL
    ff0304d1      ;   sub sp, sp, #0x100
    ff7f00a9      ;   stp xzr, xzr, [sp]
    ff7f01a9      ;   stp xzr, xzr, [sp, #16]
                  ; -- setsid()
    a8138052      ;   mov w8, #0x9d
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
                  ; -- close_range(0, 2, 0), close_range(4, ~0, 0): what comes gets 0, 1, 2, 4, 5 …
    e0031f2a      ;   mov w0, wzr
    41008052      ;   mov w1, #0x2
    e2031f2a      ;   mov w2, wzr
    88368052      ;   mov w8, #0x1b4
    010000d4      ;   svc #0x0
    80008052      ;   mov w0, #0x4
    01008012      ;   mov w1, #0xffffffff
    010000d4      ;   svc #0x0
                  ; -- recvmsg(3, a byte and descriptors, 0): waits at the gate
    e9030291      ;   add x9, sp, #0x80
    2a008052      ;   mov w10, #0x1
    eb030191      ;   add x11, sp, #0x40
    0c108052      ;   mov w12, #0x80
    e92b04a9      ;   stp x9, x10, [sp, #64]
    ff7f00a9      ;   stp xzr, xzr, [sp]
    eb2b01a9      ;   stp x11, x10, [sp, #16]
    e93302a9      ;   stp x9, x12, [sp, #32]
    ff1b00f9      ;   str xzr, [sp, #48]
    60008052      ;   mov w0, #0x3
    e1030091      ;   mov x1, sp
    e2031f2a      ;   mov w2, wzr
    881a8052      ;   mov w8, #0xd4
    010000d4      ;   svc #0x0
    1f040071      ;   cmp w0, #0x1
    a1050054      ;   b.ne quit
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
                  ; -- ioctl(0, TIOCSCTTY, 0): refused where 0 is no terminal
    e0031f2a      ;   mov w0, wzr
    c1818a52      ;   mov w1, #0x540e
    e2031f2a      ;   mov w2, wzr
    a8038052      ;   mov w8, #0x1d
    010000d4      ;   svc #0x0
                  ; -- mmap(_WORDS, _MAX_WORDS, PROT_READ, MAP_SHARED | MAP_FIXED, 5, 0)
    0000a252      ;   mov w0, #0x10000000
    0110a052      ;   mov w1, #0x800000
    22008052      ;   mov w2, #0x1
    23028052      ;   mov w3, #0x11
    a4008052      ;   mov w4, #0x5
    e5031faa      ;   mov x5, xzr
    c81b8052      ;   mov w8, #0xde
    010000d4      ;   svc #0x0
    2002f8b7      ;   tbnz x0, #63, report
    f30300aa      ;   mov x19, x0
                  ; -- close_range(5, ~0, 0): nothing of the daemon's goes in
    a0008052      ;   mov w0, #0x5
    01008012      ;   mov w1, #0xffffffff
    e2031f2a      ;   mov w2, wzr
    88368052      ;   mov w8, #0x1b4
    010000d4      ;   svc #0x0
                  ; -- chdir(words[0])
    600240f9      ;   ldr x0, [x19]
    28068052      ;   mov w8, #0x31
    010000d4      ;   svc #0x0
    e003006b      ;   negs w0, w0               an errno above 0: the folder
    c1000054      ;   b.ne report
                  ; -- execve(words[1], words[2], words[3])
    600640f9      ;   ldr x0, [x19, #8]
    610a40f9      ;   ldr x1, [x19, #16]
    620e40f9      ;   ldr x2, [x19, #24]
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
_WORDS, _MAX_WORDS = 0x10000000, 8 << 20
"""Address of the words in a machine gate; and more bytes than Linux takes."""

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
    os.closerange(8 if sys.argv[2] else 5, 1 << 20)
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
                lambda: libc.syscall(446, 6, 0),
                lambda: libc.syscall(int(seccomp), 1, int(flags), program),
            ):
                if call() < 0:
                    os.write(4, (1 << 16 | ctypes.get_errno()).to_bytes(4, sys.byteorder))
                    os._exit(127)
            if int(flags):
                os.write(4, (1 << 17).to_bytes(4, sys.byteorder))
                if not os.read(7, 1):
                    os._exit(127)
            os.closerange(5, 9)
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
        """Return the interpreter gate's argv; `env` is the program's."""
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
        """Return the interpreter gate's environment: the program's, without parts in `words`."""
        return {name: env[name] for name in env if not name.startswith(_OF_LINKER)}

    def _confinement_word(self) -> str:
        confinement = self.confinement
        if confinement is None:
            return ""
        capset, seccomp = confinement.numbers
        flags = _filter_flags(confinement)
        return f"{capset}:{seccomp}:{confinement.capabilities}:{flags}:{confinement.filter.hex()}"


def gate_memory(folder: str, path: str, argv: tuple[str, ...], env: Mapping[str, str]) -> bytes:
    """Return the words of a machine gate, as they stand at `_WORDS`: the addresses of `folder` and
    `path`, of the arrays of addresses that execve(2) takes, the arrays, and the texts.

    Raises OSError for more than Linux takes.
    """
    texts = [folder, path, *argv, *map("=".join, env.items())]
    block = os.fsencode("\0".join(texts)) + b"\0"
    sizes = [len(text) + 1 for text in texts]
    if sum(sizes) != len(block):  # a character of several bytes
        sizes = [len(os.fsencode(text)) + 1 for text in texts]
    arrays = _WORDS + 4 * 8
    argv_size = (len(argv) + 1) * 8
    begin = arrays + argv_size + (len(env) + 1) * 8
    addresses = [*accumulate(sizes, initial=begin)]
    if addresses[-1] > _WORDS + _MAX_WORDS:
        raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
    end = 2 + len(argv)
    words = array("Q", [*addresses[:2], arrays, arrays + argv_size])
    words.extend([*addresses[2:end], 0, *addresses[end:-1], 0])
    return words.tobytes() + block


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
        "report": bytes([0x61 + len(_assemble(awaiting.format(quit="00" * 4)))]).hex(),
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


def make_words_file() -> int:
    """Make the memory file for the words of a machine gate."""
    return _make_memfd("haft-words", _MFD_NOEXEC_SEAL)


def _make_memfd(name: str, flag: int) -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create(name, flags | flag)
    except OSError:
        return os.memfd_create(name, flags)


def _seal(image: bytes) -> int:
    """Put `image` into a sealed, close-on-exec memfd above a child's descriptors."""
    fd = _make_memfd("haft-gate", _MFD_EXEC)
    try:
        os.write(fd, image)
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, MAX_CHILD_FD + 1)
    finally:
        os.close(fd)


_machine_gates: dict[Confinement | None, Gate | None] = {}


def machine_gate(confinement: Confinement | None = None) -> Gate | None:
    """Return the machine-code gate; None if unusable. Tried only once, except after a shortage of resources."""
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
        works = _works(gate)
    finally:
        if not works:
            os.close(fd)
    return gate if works else None


def _works(gate: Gate) -> bool:
    """True if the gate can be executed, takes descriptors, and reports: here that it cannot execute
    a program without a name, or without a ruleset not confine itself."""
    ours, theirs = socket.socketpair()
    fds: list[int] = []
    try:
        fds += [os.open(os.devnull, os.O_RDWR), make_words_file(), *os.pipe()]
        null, words, report, reporting = fds
        os.write(words, gate_memory("/", "", (), {}))
        pid = os.posix_spawn(
            gate.program,
            gate.prefix,
            {},
            file_actions=[(os.POSIX_SPAWN_DUP2, theirs.fileno(), GATE_FD)],
            setsigdef=signal.valid_signals(),
            setsigmask=(),
        )
        try:
            theirs.close()
            with contextlib.suppress(BrokenPipeError):
                socket.send_fds(ours, [b"\n"], [null, null, null, reporting, words])
            ours.close()
            os.close(fds.pop())
            return len(os.read(report, 4)) == 4
        finally:
            os.waitpid(pid, 0)
    finally:
        for held in (ours, theirs):
            held.close()
        for fd in fds:
            os.close(fd)


@cache
def interpreter_gate(confinement: Confinement | None = None) -> Gate:
    prefix = (sys.executable, "-I", "-S", "-E", "-c", _INTERPRETER)
    return Gate("interpreter", sys.executable, prefix, confinement)


def best_gate(confinement: Confinement | None = None) -> Gate:
    return machine_gate(confinement) or interpreter_gate(confinement)
