"""Modules of WebAssembly for tests: a generator of text (.wat) on a few functions of WASI, and the assembler."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import wasmtime

_IMPORTS = {
    "fd_read": "i32 i32 i32 i32",
    "fd_write": "i32 i32 i32 i32",
    "args_sizes_get": "i32 i32",
    "args_get": "i32 i32",
    "environ_sizes_get": "i32 i32",
    "environ_get": "i32 i32",
    "path_open": "i32 i32 i32 i32 i32 i64 i64 i32 i32",
    "path_unlink_file": "i32 i32 i32",
    "path_symlink": "i32 i32 i32 i32 i32",
    "path_rename": "i32 i32 i32 i32 i32 i32",
    "path_link": "i32 i32 i32 i32 i32 i32 i32",
}

# Memory: 0 an iovec, 8 the count, 16 a byte; 4096 the input, 1 MiB at most; texts from 2 MiB on.
_LIBRARY = """
  (memory (export "memory") 40)
  (global $input i32 (i32.const 4096))
  (global $size (mut i32) (i32.const 0))

  (func $write (param $fd i32) (param $at i32) (param $count i32)
    (block $done (loop $more
      (br_if $done (i32.eqz (local.get $count)))
      (i32.store (i32.const 0) (local.get $at))
      (i32.store (i32.const 4) (local.get $count))
      (br_if $done (call $fd_write (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 8)))
      (local.set $at (i32.add (local.get $at) (i32.load (i32.const 8))))
      (local.set $count (i32.sub (local.get $count) (i32.load (i32.const 8))))
      (br $more))))

  (func $read (param $fd i32) (param $at i32) (param $count i32) (result i32)
    (i32.store (i32.const 0) (local.get $at))
    (i32.store (i32.const 4) (local.get $count))
    (if (call $fd_read (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 8))
      (then (return (i32.const 0))))
    (i32.load (i32.const 8)))

  ;; Read a file to its end, to $input.
  (func $read_all (param $fd i32) (local $count i32)
    (global.set $size (i32.const 0))
    (block $done (loop $more
      (local.set $count (call $read (local.get $fd)
        (i32.add (global.get $input) (global.get $size)) (i32.const 65536)))
      (br_if $done (i32.eqz (local.get $count)))
      (global.set $size (i32.add (global.get $size) (local.get $count)))
      (br $more))))

  ;; Read the call: a line.
  (func $read_line
    (global.set $size (i32.const 0))
    (block $done (loop $more
      (br_if $done (i32.eqz (call $read (i32.const 0)
        (i32.add (global.get $input) (global.get $size)) (i32.const 1))))
      (global.set $size (i32.add (global.get $size) (i32.const 1)))
      (br_if $done (i32.eq (i32.const 10) (i32.load8_u
        (i32.add (i32.const 4095) (global.get $size)))))
      (br $more))))

  ;; The place behind a text in the input; 0 without it.
  (func $find (param $at i32) (param $count i32) (result i32) (local $i i32) (local $j i32)
    (block $none (loop $next
      (br_if $none (i32.gt_u (i32.add (local.get $i) (local.get $count)) (global.get $size)))
      (local.set $j (i32.const 0))
      (block $differs
        (loop $byte
          (if (i32.eq (local.get $j) (local.get $count)) (then
            (return (i32.add (global.get $input) (i32.add (local.get $i) (local.get $j))))))
          (br_if $differs (i32.ne
            (i32.load8_u (i32.add (local.get $at) (local.get $j)))
            (i32.load8_u (i32.add (global.get $input) (i32.add (local.get $i) (local.get $j))))))
          (local.set $j (i32.add (local.get $j) (i32.const 1)))
          (br $byte)))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br $next)))
    (i32.const 0))

  ;; Write from $at to a byte, without that byte.
  (func $write_to (param $fd i32) (param $at i32) (param $end i32) (local $count i32)
    (block $done (loop $more
      (br_if $done (i32.eq (local.get $end)
        (i32.load8_u (i32.add (local.get $at) (local.get $count)))))
      (local.set $count (i32.add (local.get $count) (i32.const 1)))
      (br $more)))
    (call $write (local.get $fd) (local.get $at) (local.get $count)))
"""


def source(body: str, texts: Mapping[str, str] | None = None, more: str = "") -> str:
    """Return the text of a command; `{name}` in `body` is the place and length of a text."""
    imports = "\n".join(
        f'  (import "wasi_snapshot_preview1" "{name}" (func ${name} (param {params}) (result i32)))'
        for name, params in _IMPORTS.items()
    )
    data, at = [], 2 << 20
    for name, text in (texts or {}).items():
        raw = text.encode()
        escaped = "".join(f"\\{byte:02x}" for byte in raw)
        data.append(f'  (data (i32.const {at}) "{escaped}")')
        body = body.replace(f"{{{name}}}", f"(i32.const {at}) (i32.const {len(raw)})")
        at += len(raw)
    return f"""(module
{imports}
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
{_LIBRARY}
{chr(10).join(data)}
{more}
  (func (export "_start") (local $at i32) (local $fd i32)
{body}))
"""


COMPONENT = r"""(component
  (import "wasi:io/error@0.2.0" (instance $err (export "error" (type (sub resource)))))
  (alias export $err "error" (type $error))
  (import "wasi:io/streams@0.2.0" (instance $streams
    (export "output-stream" (type $os (sub resource)))
    (alias outer 1 $error (type $e0))
    (export "error" (type $error2 (eq $e0)))
    (type $se (variant (case "last-operation-failed" (own $error2)) (case "closed")))
    (export "stream-error" (type $se2 (eq $se)))
    (export "[method]output-stream.blocking-write-and-flush" (func (param "self" (borrow $os)) (param "contents" (list u8)) (result (result (error $se2)))))
  ))
  (alias export $streams "output-stream" (type $output))
  (import "wasi:cli/stdout@0.2.0" (instance $stdout
    (alias outer 1 $output (type $o0))
    (export "output-stream" (type $o1 (eq $o0)))
    (export "get-stdout" (func (result (own $o1))))))
  (core module $mem (memory (export "memory") 1) (data (i32.const 100) "hello from a component\n"))
  (core instance $m (instantiate $mem))
  (alias export $streams "[method]output-stream.blocking-write-and-flush" (func $write))
  (alias export $stdout "get-stdout" (func $get))
  (core func $write_core (canon lower (func $write) (memory (core memory $m "memory"))))
  (core func $get_core (canon lower (func $get)))
  (core module $main
    (import "h" "write" (func $w (param i32 i32 i32 i32)))
    (import "h" "get" (func $g (result i32)))
    (import "m" "memory" (memory 1))
    (func (export "run") (result i32)
      (call $w (call $g) (i32.const 100) (i32.const 23) (i32.const 0))
      (i32.const 0)))
  (core instance $i (instantiate $main (with "h" (instance (export "write" (func $write_core)) (export "get" (func $get_core)))) (with "m" (instance $m))))
  (func $run (result (result)) (canon lift (core func $i "run")))
  (instance $r (export "run" (func $run)))
  (export "wasi:cli/run@0.2.0" (instance $r))
)"""
"""A component of WASI that prints a line."""


@cache
def assemble(text: str) -> bytes:
    return bytes(wasmtime.wat2wasm(text))


def write(path: Path, body: str, texts: Mapping[str, str] | None = None, more: str = "") -> Path:
    """Write a module."""
    path.write_bytes(assemble(source(body, texts, more)))
    return path
