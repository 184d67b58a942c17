"""`requestState`: a call's signed state, which the client returns with an answer.

The user's key is in a file of the state folder, for other processes and restarts.
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


class InvalidState(ValueError):
    """Foreign state, of another call, or expired; or no key to sign one."""


class State(msgspec.Struct, frozen=True, array_like=True):
    at: float
    handle: str
    inquiry_id: str
    question: str
    refusals: int = 0
    """Refused answers in a row."""


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
    for _ in range(2):
        try:
            with open(path, "rb") as file:
                key = file.read(_KEY_BYTES)
            if len(key) == _KEY_BYTES:
                return key
        except FileNotFoundError:
            pass
        draft = f"{path}.{secrets.token_hex(8)}"
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(fd, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
        try:
            os.link(draft, path)
        except FileExistsError:
            pass  # Another process was first.
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
            raise InvalidState("it has characters that its decoder ignores")
        mac, body = signed[:_MAC_BYTES], signed[_MAC_BYTES:]
        if not hmac.compare_digest(mac, _mac(key, body, bound_to)):
            raise InvalidState("the state is not one that this server gave for this call")
        state = msgspec.json.decode(body, type=State)
    except (ValueError, msgspec.MsgspecError):
        raise InvalidState("the state is not one that this server gave for this call") from None
    if not 0 <= time.time() - state.at <= MAX_AGE_S:
        raise InvalidState("the state has expired; call the tool again")
    return state


def _mac(key: bytes, body: bytes, bound_to: object) -> bytes:
    bound = sha256(msgspec.json.encode(bound_to, order="sorted")).digest()
    return hmac.new(key, bound + body, sha256).digest()[:_MAC_BYTES]
