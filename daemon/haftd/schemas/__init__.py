"""JSON Schema: translation for model providers, coercion and validation of arguments.

All functions are pure, and a translated schema translates to itself. Keywords that a provider
rejects become sentences in a description, and are still checked against the tool's own schema at
the call. A schema that cannot be described either raises `UnsupportedSchema`, for that one tool.

- To a provider: `normalization` brings any draft into one form and knows its types, `intersection`
  joins two schemas of that form, `object_root` removes a choice at the root, `dialect_writer`
  writes the keywords of a dialect, `passthrough` all keywords; `translation` does this for one
  tool. `dialects` has the providers' tables, `descriptions` the sentences, `names` the accepted
  names.
- Of a call: `calls` builds the schema of a call's actions, `coercion` adapts arguments,
  `validation` checks them, `violations` explains the validator's errors.

The tables follow the providers' own pages:

- OpenAI: "Structured model outputs, Supported schemas"
  (https://platform.openai.com/docs/guides/structured-outputs#supported-schemas) and "Function
  calling, Strict mode" (https://platform.openai.com/docs/guides/function-calling#strict-mode).
  Output always fits strict mode. Only the API's errors document the ban on `oneOf`, `anyOf`,
  `allOf`, `enum`, `not` at the root and on lookaround, and the 1,024 characters of a description.
- Anthropic: "Tool use" (https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/overview),
  "Self-hosted sandboxes" (https://platform.claude.com/docs/en/managed-agents/self-hosted-sandboxes:
  no `$ref`, no choice at the root, names of properties); the API's errors document the draft
  (2020-12) and the pattern of names.
- Google: "Schema" (https://ai.google.dev/api/caching#Schema), "FunctionDeclaration"
  (https://cloud.google.com/vertex-ai/docs/reference/rest/v1beta1/FunctionDeclaration), "Function
  calling" (https://ai.google.dev/gemini-api/docs/function-calling). Output fits `parameters`, the
  subset of OpenAPI; `parametersJsonSchema` accepts more.
- Ollama: "API, Chat request with tools" (https://docs.ollama.com/capabilities/tool-calling,
  https://github.com/ollama/ollama/blob/main/docs/api.md); `api/types.go` of that repository drops
  every keyword that it does not decode.
- MCP: "Tools" (https://modelcontextprotocol.io/specification/2025-11-25/server/tools): any schema
  with an object at the root. Hosts pass schemas on to models, so output fits most of them.
"""

from __future__ import annotations

from .dialects import PROVIDERS, Dialect
from .names import exposed, fits
from .normalization import UnsupportedSchema
from .translation import Translated, translate

__all__ = [
    "PROVIDERS",
    "Dialect",
    "Translated",
    "UnsupportedSchema",
    "exposed",
    "fits",
    "translate",
]
