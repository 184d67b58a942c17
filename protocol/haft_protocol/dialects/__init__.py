"""A tool's schema in the words that a provider takes.

Rules: pure; what is given is never changed, the same input gives the same output, and giving the
output in again changes nothing. What a provider does not take is put into words in a description,
and is still checked against the tool's own schema when it is called. What cannot be put into words
raises `Inexpressible`, for that one tool.

What a provider takes is a table (`tables`). `reading` brings any draft of JSON Schema into one form,
`merging` joins two of that form, `narrowing` writes it down in the words of a table, `keeping` in its
own, `flattening` does without a choice at the root; `kinds` knows the types, `telling` makes the
sentences, `names` the names.

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

from .expressing import Expressed, express
from .names import exposed, fits
from .reading import Inexpressible
from .tables import PROVIDERS, Dialect

__all__ = [
    "PROVIDERS",
    "Dialect",
    "Expressed",
    "Inexpressible",
    "exposed",
    "express",
    "fits",
]
