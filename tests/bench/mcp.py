"""`haft mcp` with a daemon running: its start, its memory, and the part of a call that it adds to the daemon's."""

from __future__ import annotations

from pathlib import Path

from tests.running_daemon import RunningDaemon

from . import wires
from .drive.mcp import Server, request
from .interleaved_timer import Case, interleave
from .report import Section, timings

_LINE = "six times seven makes forty-two"


def host(daemon: RunningDaemon, folder: Path, seconds: float) -> Section:
    """A start to the first answer that the daemon has a part in, and a line to `cat`, by the daemon's wire and through
    `haft mcp`."""
    peaks: list[int] = []
    started: list[Server] = []

    def start() -> None:
        server = Server(daemon, folder)
        assert b'"handle_send"' in server(request("tools/list"))
        started.append(server)

    def end() -> None:
        server = started.pop()
        peaks.append(_peak_kib(server.pid))
        server.close()

    server = Server(daemon, folder)
    first = server(request("tools/call", name="run", arguments={"command": "cat", "id": "line"}))
    assert b"[line: running" in first
    with daemon.connect() as wire, wires.lines(daemon.socket) as exchange:
        wire.call("spawn", tool="run", id="line", args={"argv": ["cat"]}, wait="none")
        line = {"line": _LINE}
        apply = wires.message("apply", id="line", input=line, wait="output", view="answer")
        arguments = {"id": "line", **line, "until": "output"}
        send = request("tools/call", name="handle_send", arguments=arguments)
        for reply in (exchange(apply), server(send)):
            assert _LINE.encode() in reply
        baseline = Case(
            "`apply` of a line to `cat`, the daemon's own", lambda: exchange(apply), daemon.pid, 40
        )
        sent = Case(
            "`handle_send` of the same through `haft mcp`", lambda: server(send), daemon.pid, 40
        )
        begun = Case("`haft mcp`, from its start to its answer to `tools/list`", start, after=end)
        interleave([baseline, sent, begun], rounds=40, seconds=seconds)
        wire.call("abort", id="line")
    server.close()
    added = (sent.median - baseline.median) * 1e3
    return timings(
        "A host of MCP",
        f"One `haft mcp`, a blocking host. `handle_send` adds {added:.2f} ms to the daemon's `apply` (medians, in turns); "
        f"the most memory that `haft mcp` has had by its first answer is {max(peaks) / 1024:.1f} MiB (resident). "
        "*processor*: of the daemon alone, for a call.",
        [baseline, sent, begun],
        baseline,
    )


def _peak_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
