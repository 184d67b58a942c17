from __future__ import annotations

import json
import select
from collections.abc import Mapping

from tests.running_daemon import RunningDaemon
from tests.wire import Wire


def together(wire: Wire, *calls: Mapping[str, object]) -> list[int]:
    """Send calls in one write; return the ids in the order of the replies."""
    lines = [json.dumps({"jsonrpc": "2.0", "id": n, **call}) for n, call in enumerate(calls)]
    wire.send_raw("".join(f"{line}\n" for line in lines).encode())
    return [wire.receive()["id"] for _ in calls]


def test_a_list_of_handles_delays_no_later_call(daemon: RunningDaemon) -> None:
    with daemon.connect() as wire:
        for n in range(5):
            wire.call("spawn", tool="run", id=f"h{n}", args={"argv": ["cat"]}, wait="none")
        listing, ping = {"method": "handles/list"}, {"method": "ping"}
        assert together(wire, listing, ping) == [1, 0]


def test_reading_a_long_file_again_delays_no_other_call(daemon: RunningDaemon) -> None:
    lines = "".join(f"key{n} = {n}\n" for n in range(15_000))
    daemon.tools(f'[tools.long]\ncommand = ["true"]\n[tools.long.options]\n{lines}')
    with daemon.connect() as wire, daemon.connect() as beside:
        number = wire.start("tools/reload")
        wire.call("ping")  # The reload has begun.
        for _ in range(5):
            beside.call("ping")
        assert not select.select([wire.sock], [], [], 0)[0]
        assert wire.finish(number)["problems"] == []
        assert "long" in [tool["name"] for tool in beside.call("tools/list")["tools"]]


def test_describing_a_long_list_of_tools_delays_no_other_call(daemon: RunningDaemon) -> None:
    daemon.tools(
        "".join(
            f'[tools.t{n}]\ncommand = ["true"]\nstateful = true\n'
            f'parameters = {{a = {{type = "string"}}, b = {{type = "array", items = {{type = "integer"}}}}}}\n'
            for n in range(150)
        )
    )
    with daemon.connect() as wire, daemon.connect() as beside:
        wire.call("tools/reload")
        number = wire.start("tools/list", provider="openai")
        wire.call("ping")  # The list has begun.
        for _ in range(3):
            beside.call("ping")
        assert not select.select([wire.sock], [], [], 0)[0]
        long = wire.finish(number)
        assert len(long["tools"]) > 150
        assert wire.call("tools/list", provider="openai") == long
