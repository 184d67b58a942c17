"""Variables' values in replies to a tool, replaced by the names.

A value is found as it is, percent-encoded, as JSON text, and as Base64 of the value alone; in no other
form, and not in a part.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from urllib.parse import quote, quote_plus

_MIN_UNUSED = 8
"""Characters from which on a value is replaced although no request has used it: a shorter one occurs by
chance."""


class Redaction:
    """Replaces the values of variables.

    >>> redaction = Redaction({"TOKEN": "s3cr3t-value"})
    >>> redaction.redact_text("you sent s3cr3t-value")
    'you sent ${TOKEN}'
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self._forms: dict[bytes, bytes] = {}
        self.use(name for name, value in variables.items() if len(value) >= _MIN_UNUSED)

    def use(self, names: Iterable[str]) -> None:
        """Replace these values from now on, however short."""
        forms = dict(self._forms)
        for name in names:
            for form in _list_forms(self._variables[name]):
                forms[form] = b"${" + name.encode() + b"}"
        # A longer value may contain a shorter one.
        self._forms = dict(sorted(forms.items(), key=lambda item: -len(item[0])))

    @property
    def is_needed(self) -> bool:
        """True if there is a value to replace."""
        return bool(self._forms)

    def redact_bytes(self, data: bytes) -> bytes:
        for form, name in self._forms.items():
            data = data.replace(form, name)
        return data

    def redact_text(self, text: str) -> str:
        return self.redact_bytes(text.encode()).decode() if self._forms else text


def _list_forms(value: str) -> set[bytes]:
    plain = value.encode(errors="surrogateescape")
    texts = {quote(plain), quote(plain, safe=""), quote_plus(plain), json.dumps(value)[1:-1]}
    encoded = (base64.b64encode(plain), base64.urlsafe_b64encode(plain))
    forms = {plain, *(text.encode() for text in texts), *(form.rstrip(b"=") for form in encoded)}
    return {form for form in forms if form}
