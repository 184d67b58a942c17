"""Inquiries to a language model: one file for each provider, one sender, one backend.

Imported only if the configuration names the backend `llm`: `sender` imports an HTTP client.

Pure: `provider`, the interface, with `openai` `anthropic` `google` `ollama`; the `conversation`,
the `prompt`, `keys`, and the `retry` policy. `sender` alone speaks HTTP, over `transport`, which
reads in small pieces; `backend` joins them. A `group` of questions is asked in one request.
"""
