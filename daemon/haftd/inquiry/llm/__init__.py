"""Asking a model: one file a provider, one that sends, and the backend that joins them.

Imported only where the configuration names the backend `llm`: `sending` brings an HTTP client along.
"""
