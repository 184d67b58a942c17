from __future__ import annotations

import json
import select
from collections.abc import Mapping

from tests.running_daemon import RunningDaemon
from tests.wire import Wire

ATTEMPTS = 20


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


def is_overtaken(wire: Wire, beside: Wire, method: str, **params: object) -> bool:
    """True if calls that came during a long one were answered before it."""
    number, ping = wire.start(method, **params), wire.start("ping")
    first = wire.receive()["id"]  # the call has begun, or has ended already
    for _ in range(3):
        beside.call("ping")
    is_first = first == ping and not select.select([wire.sock], [], [], 0)[0]
    last = wire.receive()
    assert {first, last["id"]} == {number, ping} and "error" not in last
    return is_first


def test_reading_a_long_file_again_delays_no_other_call(daemon: RunningDaemon) -> None:
    lines = "".join(f"key{n} = {n}\n" for n in range(15_000))
    with daemon.connect() as wire, daemon.connect() as beside:

        def is_read_beside(attempt: int) -> bool:
            text = f'[tools.long]\nsummary = "{attempt}"\ncommand = ["true"]\n'
            daemon.tools(f"{text}[tools.long.options]\n{lines}")
            return is_overtaken(wire, beside, "tools/reload")

        # On a busy machine the other calls may begin too late.
        assert any(map(is_read_beside, range(ATTEMPTS)))
        assert "long" in [tool["name"] for tool in beside.call("tools/list")["tools"]]


def test_describing_a_long_list_of_tools_delays_no_other_call(daemon: RunningDaemon) -> None:
    with daemon.connect() as wire, daemon.connect() as beside:

        def is_translated_beside(attempt: int) -> bool:
            daemon.tools(
                "".join(
                    f'[tools.t{n}]\nsummary = "{attempt}"\ncommand = ["true"]\nstateful = true\n'
                    f'parameters = {{a = {{type = "string"}}, b = {{type = "array", items = {{type = "integer"}}}}}}\n'
                    for n in range(150)
                )
            )
            wire.call("tools/reload")
            return is_overtaken(wire, beside, "tools/list", provider="openai")

        assert any(map(is_translated_beside, range(ATTEMPTS)))
        long = wire.call("tools/list", provider="openai")
        assert len(long["tools"]) > 150
        assert wire.call("tools/list", provider="openai") == long
