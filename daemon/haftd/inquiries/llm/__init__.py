"""Inquiries to a language model; imported only if configured, as `sender` imports an HTTP client.

`backend` asks; a `provider` (`anthropic`, `google`, `ollama`, `openai`) builds requests from the
call's conversation, `prompt` and `keys`; `sender` sends them, by the `retry` policy.
"""
