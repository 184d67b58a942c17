"""Inquiries: decisions by a user, a model or another program.

A `kind` defines the message, its readers, the form of an answer and the consequences:
`tool_question`, `secret_prompt`, `client_question`, `turn_end`, `approval`, `result_review`. A new
kind is one more file. `pending_inquiry` is one inquiry, open until the first answer, its deadline
or its withdrawal. The `router` asks one `backend` after the other in the configured order
(`client`, `command`, `static`, `llm`, and `fake` for tests), checks each reply, and caches
remembered answers (`memory`).
"""
