"""The machine that a measurement was made on."""

from __future__ import annotations

import os
import platform
import sysconfig
from pathlib import Path

import msgspec
import trio


def describe() -> list[str]:
    """Describe the machine, a line per fact."""
    one, five, fifteen = os.getloadavg()
    virtual = ", virtual" if "hypervisor" in _cpu_fields().get("flags", "").split() else ""
    model = _cpu_fields().get("model name", platform.machine())
    processors = len(os.sched_getaffinity(0))
    build = "optimised" if _optimised() else "not optimised"
    python = f"{platform.python_implementation()} {platform.python_version()} ({build} build)"
    return [
        f"{model}{virtual}, {processors} processors, {_memory_gib()} GiB",
        f"{platform.system()} {platform.release()} {platform.machine()}",
        f"{python}, trio {trio.__version__}, msgspec {msgspec.__version__}",
        f"load average before the run {one:.2f} {five:.2f} {fifteen:.2f}",
    ]


def _cpu_fields() -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    return fields


def _memory_gib() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30))


def _optimised() -> bool:
    return "--enable-optimizations" in str(sysconfig.get_config_var("CONFIG_ARGS"))
