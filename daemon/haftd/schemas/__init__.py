"""JSON Schema: translation for model providers, coercion and validation of arguments.

All functions are pure: inputs are never changed, and a translated schema translates to itself. Keywords that a
provider rejects become sentences in a description, and are still checked against the tool's own schema at the
call. A schema that cannot be described either raises `UnsupportedSchema`, for that one tool.

- To a provider: `normalization` brings any draft into one form, `intersection` joins two schemas of that form,
  `flattening` removes a choice at the root, `lowering` writes a schema in the keywords of a dialect and
  `passthrough` in all of them; `translation` does this for one tool. `dialects` is the table of providers,
  `jsontypes` the keywords of each type, `descriptions` the sentences, `names` the accepted names.
- Of a call: `calls` builds the schema of a call's actions, `coercion` brings arguments nearer to a schema,
  `validation` checks them; `minimization` cuts a large invalid value down to a small one, `violations` explains
  the validator's findings.

The tables follow the providers' own pages:

- OpenAI: "Structured model outputs, Supported schemas"
  (https://platform.openai.com/docs/guides/structured-outputs#supported-schemas) and "Function
  calling, Strict mode" (https://platform.openai.com/docs/guides/function-calling#strict-mode). All
  we give fits strict mode, so it is right without it, too. That the root may have none of `oneOf`,
  `anyOf`, `allOf`, `enum`, `not`, that a pattern may not look around, and that a function's
  description has at most 1,024 characters, the API says itself when it refuses.
- Anthropic: "Tool use" (https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/overview),
  "Self-hosted sandboxes" (https://platform.claude.com/docs/en/managed-agents/self-hosted-sandboxes:
  no `$ref`, no choice at the root, names of properties); the draft (2020-12) and the pattern of
  the names are in what the API refuses with.
- Google: "Schema" (https://ai.google.dev/api/caching#Schema), "FunctionDeclaration"
  (https://cloud.google.com/vertex-ai/docs/reference/rest/v1beta1/FunctionDeclaration), "Function
  calling" (https://ai.google.dev/gemini-api/docs/function-calling). What we give is right for
  `parameters`, the subset of OpenAPI; `parametersJsonSchema` takes more.
- Ollama: "API, Chat request with tools" (https://docs.ollama.com/capabilities/tool-calling,
  https://github.com/ollama/ollama/blob/main/docs/api.md); what it decodes is in `api/types.go` of
  the same repository, and it drops every other word.
- MCP: "Tools" (https://modelcontextprotocol.io/specification/2025-11-25/server/tools): any schema
  whose root is an object. Hosts pass it on to a model as it is, so ours fits most of them.
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
