"""Recorder of the product's functions that a process calls; an interpreter loads this module from PYTHONPATH.

Rules: a function is appended to the file `CALLS_FILE` at its first call, as `path:qualified name`, so that a process
that ends without a farewell has still recorded its calls. Needs nothing but the standard library.
"""

import os
import sys
import threading
from types import CodeType, FrameType

_FILE = os.environ.get("CALLS_FILE", "")
_PRODUCT = tuple(os.environ.get("CALLS_PRODUCT", "").split(":"))
_seen: dict[int, CodeType] = {}
# Bound now: a test may replace them.
_open, _write, _close, _flags = os.open, os.write, os.close, os.O_WRONLY | os.O_APPEND | os.O_CREAT


def _on_call(frame: FrameType, _event: str, _argument: object) -> None:
    code = frame.f_code
    if id(code) in _seen:
        return
    # The reference keeps the number from being given to another code object.
    _seen[id(code)] = code
    if code.co_filename.startswith(_PRODUCT) and code.co_name != "<module>":
        try:
            descriptor = _open(_FILE, _flags, 0o666)
            _write(descriptor, f"{code.co_filename}:{code.co_qualname}\n".encode())
            _close(descriptor)
        except OSError:
            del _seen[id(code)]


if _FILE:
    threading.settrace(_on_call)
    sys.settrace(_on_call)
