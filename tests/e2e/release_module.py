"""The tool of docs/tools.md as a module of WebAssembly."""

from __future__ import annotations

from pathlib import Path

from tests.runtimes import modules

_TEXTS = {
    "asked_for_schema": '"action":"schema"',
    "package": '"package":"',
    "copies": '"copies":',
    "yes": '"sure":true',
    "no": '"sure":false',
    "schema": """{"tools": [{"name": "release", "summary": "Release a package.", "parameters": {
  "package": {"type": "string", "pattern": "^[a-z]+$", "summary": "Its name."},
  "copies": {"type": "integer", "default": 1, "summary": "How many are made."}}}]}""",
    "ask": '{"type": "needs_input", "question": {"id": "sure", "text": "Release ',
    "asked": '?", "answer_type": {"type": "boolean"}}}',
    "copy": "copy ",
    "line": "\n",
    "released": '{"type": "success", "content": "released ',
    "end": '"}',
    "failed": '{"type": "error", "message": "the release was not confirmed"}',
}
_FUNCTIONS = """
  ;; The number in digits at $at.
  (func $number (param $at i32) (result i32) (local $sum i32) (local $digit i32)
    (block $done (loop $more
      (local.set $digit (i32.sub (i32.load8_u (local.get $at)) (i32.const 48)))
      (br_if $done (i32.gt_u (local.get $digit) (i32.const 9)))
      (local.set $sum (i32.add (i32.mul (local.get $sum) (i32.const 10)) (local.get $digit)))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br $more)))
    (local.get $sum))

  (func $write_number (param $fd i32) (param $number i32)
    (if (i32.ge_u (local.get $number) (i32.const 10)) (then
      (call $write_number (local.get $fd) (i32.div_u (local.get $number) (i32.const 10)))))
    (i32.store8 (i32.const 16)
      (i32.add (i32.const 48) (i32.rem_u (local.get $number) (i32.const 10))))
    (call $write (local.get $fd) (i32.const 16) (i32.const 1)))
"""
_BODY = """
  (call $read_all (i32.const 0))
  (if (call $find {asked_for_schema}) (then (call $write (i32.const 1) {schema}) (return)))
  (if (call $find {no}) (then (call $write (i32.const 1) {failed}) (return)))
  (if (i32.eqz (call $find {yes})) (then
    (call $write (i32.const 1) {ask})
    (call $write_to (i32.const 1) (call $find {package}) (i32.const 34))
    (call $write (i32.const 1) {asked})
    (return)))
  (block $done (loop $more
    (local.set $at (i32.add (local.get $at) (i32.const 1)))
    (br_if $done (i32.gt_u (local.get $at) (call $number (call $find {copies}))))
    (call $write (i32.const 2) {copy})
    (call $write_number (i32.const 2) (local.get $at))
    (call $write (i32.const 2) {line})
    (br $more)))
  (call $write (i32.const 1) {released})
  (call $write_to (i32.const 1) (call $find {package}) (i32.const 34))
  (call $write (i32.const 1) {end})
"""


def write_release(path: Path) -> None:
    modules.write(path, _BODY, _TEXTS, _FUNCTIONS)
