"""Signed `requestState` of a tool call that was answered `input_required`; the host returns it with
its answers.

Source: MCP 2026-07-28, "Multi Round-Trip Requests". The key belongs to the user and is in a file of
the state folder, so that other processes of `haft mcp` verify a state. Nothing bars a host from
returning a state again: an answered question takes no second answer.
"""

from __future__ import annotations

import hmac
import os
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256

import msgspec

from haft_protocol.paths import state_folder

MAX_AGE_S = 3600.0
_KEY_BYTES = 32
_MAC_BYTES = 16
"""HMAC-SHA256 truncated to half, which RFC 2104, section 5, allows: the state is in each reply."""


class InvalidState(ValueError):
    """State that is forged, expired or of another call; also an unusable file of the key."""


class State(msgspec.Struct, frozen=True, array_like=True):
    """State of a call whose tool waits for an answer; on the wire an array in this order."""

    at: float
    """Unix time in seconds: a monotonic clock differs between restarts."""
    handle: str
    inquiry_id: str
    question_id: str
    refusals: int = 0
    """Answers in a row that were not valid."""


def state_key() -> bytes:
    """Return the user's key, made on first use; raise `InvalidState` for an unusable file or folder."""
    folder = state_folder(os.environ)
    path = f"{folder}/mcp-key"
    try:
        return _key(folder, path)
    except OSError as fault:
        raise InvalidState(f"the key {path} cannot be used: {fault.strerror}") from None


def _key(folder: str, path: str) -> bytes:
    os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103 - pathlib costs 5 ms
    # The second turn reads the file of another process that was faster.
    for _ in range(2):
        try:
            with open(path, "rb") as file:
                key = file.read(_KEY_BYTES)
            if len(key) == _KEY_BYTES:
                return key
        except FileNotFoundError:
            pass
        # A link to a complete draft: no process reads half a key.
        draft = f"{path}.{secrets.token_hex(8)}"
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(fd, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
        try:
            os.link(draft, path)
        except FileExistsError:
            pass  # by another process, or a file of another length
        finally:
            os.unlink(draft)  # noqa: PTH108
    raise InvalidState(f"{path} is not a key file of haft; remove it")


def sign_state(key: bytes, state: State, bound_to: object) -> str:
    """Return the signed state, bound to a call's tool, arguments and session."""
    body = msgspec.json.encode(state)
    return urlsafe_b64encode(_mac(key, body, bound_to) + body).decode()


def verify_state(key: bytes, text: str, bound_to: object) -> State:
    """Return the state; raise `InvalidState`."""
    try:
        signed = urlsafe_b64decode(text.encode())
        if urlsafe_b64encode(signed).decode() != text:
            raise ValueError("characters that the decoder ignores")
        mac, body = signed[:_MAC_BYTES], signed[_MAC_BYTES:]
        if not hmac.compare_digest(mac, _mac(key, body, bound_to)):
            raise ValueError("another signature")
        state = msgspec.json.decode(body, type=State)
    except (ValueError, msgspec.MsgspecError):
        raise InvalidState("the state is not one that haft mcp gave for this call") from None
    if not 0 <= time.time() - state.at <= MAX_AGE_S:
        raise InvalidState("the state has expired; call the tool again")
    return state


def _mac(key: bytes, body: bytes, bound_to: object) -> bytes:
    bound = sha256(msgspec.json.encode(bound_to, order="sorted")).digest()
    return hmac.new(key, bound + body, sha256).digest()[:_MAC_BYTES]
