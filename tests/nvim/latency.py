"""`python -m tests.nvim.latency`: the time of a key in Neovim beside a handle at full speed and 200 idle ones."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from tests.nvim.conftest import programs
from tests.nvim.editor import Editor
from tests.running_daemon import RunningDaemon

IDLE = 200
KEYS = 300
PAUSE_S = 0.02


def measure(program: str, folder: Path) -> tuple[list[float], int, int]:
    """Return the milliseconds of each key, and the editor's memory in KiB after half of them and all."""
    daemon = RunningDaemon(folder / "daemon").start()
    editor = Editor(program, daemon.env, folder / "editor", folder)
    try:
        with daemon.connect() as wire:
            for number in range(IDLE):
                argv = {"argv": ["sleep", "1000"]}
                wire.call("spawn", tool="run", id=f"idle{number}", args=argv, wait="none")
            args = {"argv": ["yes", "x" * 70], "terminal": True}
            wire.call("spawn", tool="run", id="flood", args=args, wait="none")
        editor.lua("require('haft').watch()")
        editor.command("Haft attach flood")
        editor.wait_for_text("xxx")
        editor.command("new")
        editor.keys("i")
        times = [_key(editor) for _ in range(KEYS)]
        half = _memory(editor)
        times += [_key(editor) for _ in range(KEYS)]
        return times, half, _memory(editor)
    finally:
        editor.kill()
        daemon.close()


def _key(editor: Editor) -> float:
    length = len(editor.call("nvim_get_current_line"))
    time.sleep(PAUSE_S)
    begin = time.perf_counter()
    editor.keys("k")
    while len(editor.call("nvim_get_current_line")) == length:
        pass
    return (time.perf_counter() - begin) * 1000


def _memory(editor: Editor) -> int:
    status = Path(f"/proc/{editor.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def main() -> None:
    for version, program in programs().items():
        with tempfile.TemporaryDirectory() as folder:
            times, half, after = measure(program, Path(folder))
        cuts = statistics.quantiles(times, n=20)
        print(
            f"{version}: median {statistics.median(times):.1f} ms, p95 {cuts[-1]:.1f} ms,"
            f" longest {max(times):.1f} ms; memory {half} KiB after half, {after} KiB after all"
        )


if __name__ == "__main__":
    main()
