"""The keywords and limits of each provider, one table each.

A keyword outside `keeps` is removed, and described where that helps the reader. The providers' pages are listed in
the head of the package.
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
    """One provider's subset of JSON Schema."""

    keeps: frozenset[str]
    """The words that stay; the others are told in the description."""
    formats: frozenset[str] | None = None
    """The values of `format` that stay; None: all."""
    root_choice: bool = False
    """Whether the root may have `oneOf`, `anyOf`, `allOf`, `not` and conditions beside its type."""
    choice_alone: bool = True
    """Whether `anyOf` stands alone: what stood beside it goes into each branch, and a type is one
    type. Otherwise a node stays in the form in which it was written."""
    null: Literal["type", "nullable"] = "type"
    """How a value says that it may be null: as one more type, or by `nullable`."""
    enum: Literal["any", "typed", "text"] = "any"
    """Which values an `enum` has: any, those of its one type, or texts only."""
    strict: bool = False
    """Every property is required (an optional one may be null) and no object takes other names; an
    object without names of its own is written as JSON text."""
    types: bool = True
    """Whether each value says its type, each list its items, each object its properties."""
    plain_patterns: bool = False
    """Whether a pattern must do without looking around and back references."""
    empty_choice: bool = True
    """Whether an `enum` may hold the empty text."""
    property_first: str = ""
    property_rest: str = ""
    """The characters of a property's name, as the inside of a character class; empty: all."""
    depth: int = 32
    """How deep lists and objects may stand in each other; what is deeper is JSON text."""
    enum_values: int | None = None
    """The most values in all `enum` together; of longer ones the first are told."""
    long_enum: tuple[int, int] | None = None
    """With more values than the first, their texts together have at most so many characters."""
    properties: int | None = None
    """The most properties in all."""
    names_text: int | None = None
    """The most characters of all names and `enum` values together."""
    description: int = 16_384
    """The longest description of a tool."""
    text: int = 4_096
    """The longest description of a parameter."""
    style: Style = "flat"
    """How a stateful tool is put when nobody says it."""


PLAIN = Dialect(
    keeps=_ALL,
    root_choice=True,
    choice_alone=False,
    types=False,
    text=1 << 30,
    description=1 << 30,
    style="oneof",
)
"""JSON Schema 2020-12 without references: what `generic` and `flat` are made of."""

# What no page limits: more than this fills a model's window and helps it with nothing.
_BEARABLE_VALUES = 1_000
_BEARABLE_PROPERTIES = 8_000

PROVIDERS: dict[str, Dialect] = {
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
    "anthropic": Dialect(
        keeps=_ALL,
        choice_alone=False,
        types=False,
        property_first="A-Za-z0-9_.-",
        property_rest="A-Za-z0-9_.-",
        enum_values=_BEARABLE_VALUES,
        properties=_BEARABLE_PROPERTIES,
    ),
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
    "ollama": Dialect(
        keeps=_SHAPE,
        enum="typed",
        enum_values=_BEARABLE_VALUES,
        properties=_BEARABLE_PROPERTIES,
    ),
    "mcp": Dialect(
        keeps=_ALL,
        root_choice=True,
        choice_alone=False,
        types=False,
        property_first="A-Za-z0-9_.-",
        property_rest="A-Za-z0-9_.-",
        enum_values=_BEARABLE_VALUES,
        properties=_BEARABLE_PROPERTIES,
    ),
}
"""The dialects by provider. `generic` has none: it is the schema as it was written."""
