"""The table of the calls that programs wait in."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from haftd.host.input_state import syscalls


def test_the_numbers_are_those_of_the_kernels_headers() -> None:
    files = {
        "x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
        "aarch64": "/usr/include/asm-generic/unistd.h",
    }
    source = Path(syscalls.__file__).read_text()
    for machine, path in files.items():
        if not os.path.exists(path):
            pytest.skip("needs the kernel's headers")
        defined = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)$", Path(path).read_text(), re.M)
        numbers = {name: int(number) for name, number in defined}
        table = source.split(f'"{machine}": {{')[1].split("\n    }")[0]
        named = re.findall(r"^\s+(\d+): .*# (\w+)$", table, re.M)
        assert len(named) == len(syscalls.CALLS[machine])
        assert {name: numbers[name] for _, name in named} == {n: int(i) for i, n in named}
