"""The reason of a failed connection, found in the chain of errors."""

from __future__ import annotations

import ssl

import httpx
import trio

from haft_protocol.network_errors import first_reason


def chained(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


def test_the_systems_message_is_found_below_other_errors() -> None:
    refused = ConnectionRefusedError(111, "Connection refused")
    assert first_reason(refused) == "Connection refused"
    assert first_reason(chained(ValueError("outer"), refused)) == "Connection refused"
    group = ExceptionGroup("several", [chained(ValueError("inner"), refused), OSError(5, "other")])
    assert first_reason(group) == "Connection refused"


def test_a_wrong_certificate_is_named_as_that() -> None:
    error = httpx.ConnectError("")
    error.__cause__ = trio.BrokenResourceError()
    error.__cause__.__cause__ = ssl.SSLCertVerificationError()
    error.__cause__.__cause__.verify_message = "self-signed certificate"
    assert first_reason(error) == "its certificate is not trusted: self-signed certificate"


def test_an_error_without_a_message_of_the_system_has_no_reason() -> None:
    assert first_reason(OSError("only text")) is None
    assert first_reason(TimeoutError()) is None
