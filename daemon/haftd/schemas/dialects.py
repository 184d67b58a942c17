"""Keywords and limits of each provider, by its documentation.

Keywords outside `keeps` are removed, and described if useful.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from haft_protocol.methods import Style

_SHAPE = frozenset(["type", "description", "enum", "properties", "required", "items", "anyOf"])
_NUMBER = frozenset(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"])
_COUNTS = frozenset(
    ["minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"]
)
_COMPOSED = frozenset(["oneOf", "allOf", "not", "if", "then", "else"])
_DEPENDENT = frozenset(["dependentRequired", "dependentSchemas"])
_LISTS = frozenset(["prefixItems", "uniqueItems", "contains", "minContains", "maxContains"])
_OBJECTS = frozenset(
    ["additionalProperties", "patternProperties", "propertyNames", "unevaluatedProperties"]
)
_ANNOTATIONS = frozenset(["default", "examples", "title"])
_ALL = (
    _SHAPE
    | _NUMBER
    | _COUNTS
    | _COMPOSED
    | _DEPENDENT
    | _LISTS
    | _OBJECTS
    | _ANNOTATIONS
    | {"pattern", "format", "unevaluatedItems"}
)


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """A provider's subset of JSON Schema."""

    keeps: frozenset[str]
    """Kept keywords; other keywords go to the description."""
    formats: frozenset[str] | None = None
    """Kept values of `format`; None: all."""
    root_choice: bool = False
    """The root may have `oneOf`, `anyOf`, `allOf`, `not` and conditions beside its type."""
    choice_alone: bool = True
    """`anyOf` has no siblings: they move into each branch, and a type is single. False keeps a
    node's form."""
    null: Literal["type", "nullable"] = "type"
    """Nullability: an additional type, or `nullable`."""
    enum: Literal["any", "typed", "text"] = "any"
    """Values of an `enum`: any, one type, or strings."""
    strict: bool = False
    """Every property is required (optional properties are nullable) and objects are closed; an
    object without properties is a JSON string."""
    types: bool = True
    """Each value needs a type, each list items, each object properties."""
    plain_patterns: bool = False
    """No lookaround and back references."""
    empty_choice: bool = True
    """`enum` may contain the empty string."""
    property_first: str = ""
    property_rest: str = ""
    """Permitted characters of property names, inside a character class; empty: all."""
    depth: int = 32
    """Nesting of lists and objects; deeper values are JSON strings."""
    enum_values: int | None = None
    """Values of all `enum` together; only the first of more values are kept in a description."""
    long_enum: tuple[int, int] | None = None
    """Above the first number of values, the second bounds their characters."""
    properties: int | None = None
    """Properties in total."""
    names_text: int | None = None
    """Characters of all names and `enum` values."""
    description: int = 16_384
    """Characters of a tool's description."""
    text: int = 4_096
    """Characters of a parameter's description."""
    style: Style = "flat"
    """Default style of stateful tools."""


PLAIN = Dialect(
    keeps=_ALL,
    root_choice=True,
    choice_alone=False,
    types=False,
    text=1 << 30,
    description=1 << 30,
    style="oneof",
)
"""JSON Schema 2020-12 without references, for `generic` and `flat`."""

# Undocumented limits: more would only fill the model's window.
_BEARABLE_VALUES = 1_000
_BEARABLE_PROPERTIES = 8_000

_LENIENT = Dialect(
    keeps=_ALL,
    choice_alone=False,
    types=False,
    property_first="A-Za-z0-9_.-",
    property_rest="A-Za-z0-9_.-",
    enum_values=_BEARABLE_VALUES,
    properties=_BEARABLE_PROPERTIES,
)

PROVIDERS: dict[str, Dialect] = {
    # https://platform.openai.com/docs/guides/structured-outputs#supported-schemas and
    # https://platform.openai.com/docs/guides/function-calling#strict-mode; output fits strict mode.
    # Only the API's errors document the ban on `oneOf`, `anyOf`, `allOf`, `enum`, `not` at the root
    # and on lookaround, and the 1,024 characters of a description.
    "openai": Dialect(
        keeps=_SHAPE
        | _NUMBER
        | {"minItems", "maxItems", "pattern", "format"}
        | {"additionalProperties"},
        formats=frozenset(
            ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"]
        ),
        enum="typed",
        strict=True,
        plain_patterns=True,
        depth=10,
        enum_values=1_000,
        long_enum=(250, 15_000),
        properties=5_000,
        names_text=120_000,
        description=1_024,
    ),
    # https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/overview; page "Self-hosted
    # sandboxes" (no `$ref`, no choice at the root, names of properties); only the API's errors
    # document the draft (2020-12) and the pattern of names.
    "anthropic": _LENIENT,
    # `parameters`, the subset of OpenAPI; `parametersJsonSchema` accepts more:
    # https://ai.google.dev/api/caching#Schema and
    # https://cloud.google.com/vertex-ai/docs/reference/rest/v1beta1/FunctionDeclaration.
    "google": Dialect(
        keeps=_SHAPE | _COUNTS | {"minimum", "maximum", "pattern", "format", "nullable"},
        formats=frozenset(["date-time", "float", "double", "int32", "int64"]),
        null="nullable",
        enum="text",
        plain_patterns=True,
        empty_choice=False,
        property_first="A-Za-z_",
        property_rest="A-Za-z0-9_",
        enum_values=_BEARABLE_VALUES,
        properties=_BEARABLE_PROPERTIES,
    ),
    # https://docs.ollama.com/capabilities/tool-calling; `api/types.go` drops every keyword that it
    # does not decode.
    "ollama": Dialect(
        keeps=_SHAPE,
        enum="typed",
        enum_values=_BEARABLE_VALUES,
        properties=_BEARABLE_PROPERTIES,
    ),
    # Any object at the root (https://modelcontextprotocol.io/specification/2025-11-25/server/tools);
    # hosts pass schemas on to models, so output fits most models.
    "mcp": msgspec.structs.replace(_LENIENT, root_choice=True),
}
"""`generic` has none and keeps the original."""
