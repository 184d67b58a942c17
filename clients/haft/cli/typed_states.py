"""Handle states with the protocol's types."""

from __future__ import annotations

import msgspec

from haft_protocol.states import HandleState

_STATE: msgspec.json.Decoder[HandleState] = msgspec.json.Decoder(HandleState)


def state_of(encoded: bytes) -> HandleState:
    return _STATE.decode(encoded)
