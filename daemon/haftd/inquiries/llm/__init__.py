"""Asking a model: one file a provider, one that sends, and the backend that joins them.

Imported only where the configuration names the backend `llm`: `sending` brings an HTTP client along.

Pure: `provider`, the seam, and behind it `openai` `anthropic` `google` `ollama`; what is said
(`conversation`, put into `words`), `keys`, and when it is said again (`retrying`). `sending` alone speaks
HTTP, over `portions`, which takes little at a time; `backend` joins them.
What waits at once is a `group`, and asked in one request.
"""
