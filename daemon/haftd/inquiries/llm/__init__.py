"""Inquiries to a language model; imported only for the configured backend `llm`, as `sender`
imports an HTTP client.

A `provider` (`openai`, `anthropic`, `google`, `ollama`) builds requests from the `conversation`,
the `prompt` and `keys`; `sender` sends them over `transport`, by the `retry` policy. `backend`
joins them; a `group` of questions is asked in one request.
"""
