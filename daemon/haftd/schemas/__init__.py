"""JSON Schema: translation for model providers, coercion and validation of arguments.

All functions are pure, and a translated schema translates to itself. Keywords that a provider
rejects become sentences in a description, and are still checked against the tool's own schema at
the call. A schema that cannot be described either raises `UnsupportedSchema`, for that one tool.

- To a provider: `translation` of a tool's schema, by `normalization` of any draft to one form,
  `intersection`, `object_root` without a choice, and `dialect_writer` or `passthrough`; `dialects`
  are the providers' tables, `descriptions` the sentences, `names` the accepted names.
- Of a call: `calls` builds the schema of a call's actions; `coercion` and `validation` of arguments,
  `violations` in words.
"""

from __future__ import annotations

from .dialects import PROVIDERS, Dialect
from .names import expose_names, is_portable
from .normalization import UnsupportedSchema
from .translation import Translated, translate

__all__ = [
    "PROVIDERS",
    "Dialect",
    "Translated",
    "UnsupportedSchema",
    "expose_names",
    "is_portable",
    "translate",
]
