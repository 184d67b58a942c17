"""Words for a failed connection over the network."""

from __future__ import annotations

import ssl

__all__ = ["first_reason"]


def first_reason(error: BaseException) -> str | None:
    """Return the first message of the system or of TLS in a chain of errors."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted: {cause.verify_message}"
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        if isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        else:
            cause = cause.__cause__ or cause.__context__
    return None
